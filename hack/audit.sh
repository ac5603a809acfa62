#!/usr/bin/env bash
# Checks the modules that the binaries are linked from: every licence against a list, and every module against the Go
# vulnerability database. GOVULNDB names a mirror of the database (https://... or file://...).
#
# If no database can be reached, the script fails, unless AUDIT_WITHOUT_DATABASE=true: then only the licences are checked.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool() { go tool -modfile=hack/tools/audit/go.mod "$@"; }

# Licences that allow distribution of binaries under Apache-2.0 with no obligations except for their notices.
allowed='Apache-2.0|BSD-2-Clause|BSD-3-Clause|ISC|MIT'

echo "licences"
report=$(mktemp)
trap 'rm -f "$report"' EXIT
# Its errors concern URLs of licence texts, which are not used.
tool go-licenses csv ./cmd/... >"$report" 2>/dev/null
count=$(wc -l <"$report")
if ((count < 20)); then
	echo "audit.sh: go-licenses found only $count modules: its output is incomplete" >&2
	exit 1
fi
if refused=$(grep -vE ",($allowed)\$" "$report"); then
	echo "audit.sh: these modules have licences that are not on the list:" >&2
	echo "$refused" >&2
	exit 1
fi
cut -d, -f3 "$report" | sort | uniq -c

echo "vulnerabilities"
database=${GOVULNDB:-https://vuln.go.dev}
code=0
tool govulncheck -db "$database" ./cmd/... || code=$?
case $code in
0 | 3) exit "$code" ;; # 3: vulnerabilities were found and printed.
esac
echo "audit.sh: NOT CHECKED for known vulnerabilities in $database; GOVULNDB may name a mirror" >&2
[[ ${AUDIT_WITHOUT_DATABASE:-} == true ]]
