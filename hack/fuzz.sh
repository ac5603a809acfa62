#!/usr/bin/env bash
# Fuzzes every parser for the given time: hack/fuzz.sh 30s. go test stores a failing input in the package's testdata/fuzz,
# and later test runs repeat it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
duration=${1:?usage: fuzz.sh DURATION, such as 30s}

found=0
while IFS=: read -r file name; do
	found=$((found + 1))
	package=./$(dirname "$file")
	echo "$package $name for $duration"
	# By default an interesting input is minimised for up to a minute, which may exceed the duration.
	go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$duration" -fuzzminimizetime 50x
done < <(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' api cmd internal test | sed 's/func //' | sort)

if ((found == 0)); then
	echo "fuzz.sh: no Fuzz function found" >&2
	exit 1
fi
