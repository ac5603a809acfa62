#!/usr/bin/env bash
# Fails if a generated file is not what `make generate` makes, and prints the difference. It generates in a copy, so that tests
# can run meanwhile.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
copy=.devcluster/generated
hack/copy.sh "$copy"
git -C "$copy" init -q
git -C "$copy" add -A
make -s -C "$copy" generate
if ! git -C "$copy" diff --exit-code || [[ -n $(git -C "$copy" ls-files --others --exclude-standard) ]]; then
	git -C "$copy" ls-files --others --exclude-standard
	echo "generated files are out of date: run make generate and commit" >&2
	exit 1
fi
rm -rf "$copy"
