#!/usr/bin/env bash
# Measures collections in numbers, each time with a control plane of its own, and writes docs/benchmarks.md.
#
#   BENCH_N="10 100 500" BENCH_M="20 500" BENCH_PROFILE=100 hack/bench-scale.sh
#
# BENCH_N       numbers of collections
# BENCH_M       numbers of namespaces that one collection is mapped to
# BENCH_ROUNDS  how often each is measured, 1 by default
# BENCH_PROFILE number of collections for the profiles, 0 for none
# BENCH_HELM    Helm's program, by default the one that `make helm` builds; false for none
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export BENCH_OUTPUT=${BENCH_OUTPUT:-$PWD/docs/benchmarks/scale}
mkdir -p "$BENCH_OUTPUT"
BENCH_WORK=$(mktemp -d)
export BENCH_WORK
trap 'rm -rf "$BENCH_WORK"' EXIT

export BENCH_HELM=${BENCH_HELM:-$PWD/.devcluster/bin/helm}

go test -c -o "$BENCH_WORK/specs" ./test/integration

measure() { # FOCUS
	(cd test/integration && "$BENCH_WORK/specs" -ginkgo.no-color -ginkgo.timeout=60m -ginkgo.label-filter=scale -ginkgo.focus="$1") |
		grep -Ev '^S*$|^Running Suite|^=+$|^Random Seed|^Will run'
}

for ((BENCH_ROUND = 1; BENCH_ROUND <= ${BENCH_ROUNDS:-1}; BENCH_ROUND++)); do
	export BENCH_ROUND
	for BENCH_COLLECTIONS in ${BENCH_N:-10 100}; do
		export BENCH_COLLECTIONS
		echo "collections: $BENCH_COLLECTIONS, round $BENCH_ROUND"
		measure 'installs many collections'
		measure 'kubectl apply of the same objects'
		measure 'a chart for each collection'
		measure 'waits for many installations'
	done
	for BENCH_NAMESPACES in ${BENCH_M:-20}; do
		export BENCH_NAMESPACES
		echo "namespaces: $BENCH_NAMESPACES, round $BENCH_ROUND"
		measure 'one collection in many namespaces'
	done
done
if [[ ${BENCH_PROFILE:=100} != 0 ]]; then
	export BENCH_PROFILE
	measure 'where an installation spends'
fi
go run ./test/bench scale "$BENCH_OUTPUT"
