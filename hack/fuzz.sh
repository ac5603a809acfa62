#!/usr/bin/env bash
# Fuzzes every parser, one after the other, for the given time each: hack/fuzz.sh 30s
# An input that breaks one is kept by go test below the package's testdata/fuzz, where every later test run tries it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
duration=${1:?usage: fuzz.sh DURATION, such as 30s}

found=0
while IFS=: read -r file name; do
	found=$((found + 1))
	package=./$(dirname "$file")
	echo "$package $name for $duration"
	# By default an interesting input is minimised for up to a minute, which on a busy machine may be all there is.
	go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$duration" -fuzzminimizetime 50x
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' api cmd internal test | sed 's/func //' | sort)

if ((found == 0)); then
	echo "fuzz.sh: there is no Fuzz function" >&2
	exit 1
fi
