#!/bin/sh
# Collects the licences and notices that go with programs: ours, Go's, and those of all modules they are linked from.
#
#   licenses.sh DESTDIR PROGRAM...
set -eu

destdir=${1:?usage: licenses.sh DESTDIR PROGRAM...}
shift

# collect DIR NAME: copies the texts of a module to DESTDIR/NAME, those in its folders too.
collect() {
	texts=$(cd "$1" && find . -type f ! -path '*/testdata/*' ! -name '*.go' \
		\( -name 'LICEN[SC]E*' -o -name 'NOTICE*' -o -name 'COPYING*' -o -name 'PATENTS' \))
	if [ -z "$texts" ]; then
		echo "licenses.sh: $2 has no licence" >&2
		exit 1
	fi
	echo "$texts" | while read -r text; do
		install -D -m 0644 "$1/$text" "$destdir/$2/$text"
	done
}

install -D -m 0644 LICENSE "$destdir/LICENSE"
install -D -m 0644 "$(go env GOROOT)/LICENSE" "$destdir/go/LICENSE"
details=$(go version -m "$@")
modules=$(echo "$details" | awk '$1 == "dep" { print $2 }' | sort -u)
# shellcheck disable=SC2086 # One argument for each module.
folders=$(go list -m -f '{{.Path}} {{.Dir}}' $modules)
echo "$folders" | while read -r module folder; do
	collect "$folder" "$module"
done
