#!/usr/bin/env bash
# Runs the parts of the whole proof, or the named ones: hack/test-full.sh [PART...]. A part takes 20 minutes at most on two
# cores. A part is left out if it passed with the same inputs: hack/passed.tsv has the digest of the inputs of each part when it
# last passed. REPEAT=true runs it all the same.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
passed=hack/passed.tsv
export SPECS_TIMEOUT=40m

product='api cmd config internal go.mod go.sum Dockerfile hack/devcluster hack/deploy.sh hack/migrate.sh hack/demo.sh hack/demo'
node="$product test/fixture test/collections test/e2e test/attack hack/specs.sh"
api="$product test/apiserver test/fixture test/collections test/hostile test/registry test/schemachanges test/integration test/attack hack/specs.sh"
engine="api/v2beta2 go.mod go.sum test/ansible test/registry hack/test-packages.sh hack/test-engine-2.19.sh hack/engine-2.19.txt
	internal/run internal/collection internal/source/archive internal/platform/printable internal/author/galaxy internal/author/localrun
	internal/author/scenario"

# Each part: its name, its inputs as paths, its command.
declare -A inputs_of command_of
names=()
part() { names+=("$1") inputs_of[$1]=$2 command_of[$1]=$3; }

part node "$node" "hack/specs.sh node node-rest --label-filter '!story && !olm && !serial && !bench'"
part serial "$node" "hack/specs.sh node serial --label-filter 'serial && !story && !olm && !bench && !chaos'"
part olm "$node" "hack/specs.sh olm olm --label-filter 'olm && !story && !times && !upgrades'"
part upgrades "$api $node" 'make upgrades UPGRADE_RESOURCES=20'
part caps "$node" 'make caps CAPS=40'
part chaos "$node" 'make chaos CHAOS=30'
part soaks "$api" "hack/specs.sh api soaks --label-filter soak"
part flood "$api" 'make flood FLOOD=0.1 FLOOD_OUTPUT='
part attacks "$api $node" 'make attacks'
part engine-2.19 "$engine" 'hack/test-engine-2.19.sh'
part oldest "$api charts hack/chart" 'make test-oldest'
part chart 'charts config cmd internal hack/chart hack/devcluster go.mod' 'make test-chart'
part mutants "api cmd config internal go.mod go.sum hack/mutants test/apiserver test/fixture" 'make test-mutants'
part monitoring 'config hack/monitoring docs/operations.md' 'make test-monitoring'
part architectures 'api cmd internal go.mod go.sum hack/test-architectures.sh' 'make test-architectures'
part sbom "$product hack/tools/sbom hack/test-sbom.sh" "$PWD/.devcluster/bin/devcluster build --images && hack/test-sbom.sh"
part audit 'go.mod go.sum hack/tools/audit hack/audit.sh' 'AUDIT_WITHOUT_DATABASE=true hack/audit.sh'

# digest PART: of the content and names of its inputs, and of this list.
digest() {
	# shellcheck disable=SC2086 # A list of paths.
	{
		printf '%s\n' "${command_of[$1]}"
		git ls-files -z --cached --others --exclude-standard -- ${inputs_of[$1]} | LC_ALL=C sort -z | xargs -0 sha256sum --ignore-missing 2>/dev/null
	} | sha256sum | cut -c 1-16
}

# run PART: runs it, prints what it took, and remembers that it passed.
run() {
	local part=$1 inputs began=$SECONDS code=0
	inputs=$(digest "$part")
	if [[ ${REPEAT:-} != true ]] && read -r _ _ date seconds _ < <(grep -P "^$part\t$inputs\t" $passed); then
		echo "$part: passed on $date in $seconds s with the same inputs ($inputs), not repeated"
		return
	fi
	printf '\n===== %s (inputs %s) =====\n' "$part" "$inputs"
	rm -rf .devcluster/log/reports
	bash -euc "${command_of[$part]}" </dev/null || code=1
	make -s cluster-down
	if compgen -G '.devcluster/log/reports/*.json' >/dev/null; then
		printf '%s\t%s\t%s\n' "$part" "$code" $((SECONDS - began)) >.devcluster/log/reports/parts.tsv
		go run ./hack/proof .devcluster/log/reports || code=1
	fi
	echo "$part: exit code $code after $((SECONDS - began)) s"
	[[ $code == 0 ]] || return 1
	grep -vP "^$part\t" $passed >$passed.new || true
	printf '%s\t%s\t%s\t%s\n' "$part" "$inputs" "$(date +%F)" $((SECONDS - began)) >>$passed.new
	LC_ALL=C sort -o $passed $passed.new
	rm $passed.new
}

trap 'make -s cluster-down' EXIT
touch $passed
[[ $# -gt 0 ]] || set -- "${names[@]}"
failed=()
for part in "$@"; do
	if [[ -z ${command_of[$part]:-} ]]; then
		echo "test-full.sh: there is no part $part; there are: ${names[*]}" >&2
		exit 2
	fi
	run "$part" || failed+=("$part")
done
[[ ${#failed[@]} == 0 ]] || { echo "FAILED: ${failed[*]}"; exit 1; }
