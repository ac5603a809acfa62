#!/usr/bin/env bash
# Runs Ginkgo specs:
#
#   specs.sh api NAME [ARGUMENT...]    against API servers, one for each of INTEGRATION_PROCS processes (default 4)
#   specs.sh node NAME [ARGUMENT...]   on a real node, in E2E_PROCS processes (default 5) that share it (Linux, root)
#   specs.sh olm NAME [ARGUMENT...]    the same, with the Operator Lifecycle Manager
#
# NAME is that of the report, .devcluster/log/reports/NAME.ginkgo.json. The arguments are Ginkgo's.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
kind=${1:?api, node or olm} name=${2:?the name of the report is missing}
shift 2
reports=$PWD/.devcluster/log/reports
devcluster=.devcluster/bin/devcluster
mkdir -p "$reports"
# API servers need less of the processor, and more memory.
export DEVCLUSTER_GOGC=${DEVCLUSTER_GOGC:-400}

suite=./test/e2e arguments=(--procs="${E2E_PROCS:-5}" --tags e2e)
case $kind in
api)
	$devcluster build --control-plane
	suite=./test/integration arguments=(--procs="${INTEGRATION_PROCS:-4}")
	;;
node) $devcluster up --images ;;
olm)
	$devcluster up --olm --images
	export COMPONENTS=olm
	;;
*)
	echo "specs.sh: $kind is not one of api, node, olm" >&2
	exit 2
	;;
esac
exec go tool -modfile=hack/tools/go.mod ginkgo --no-color --fail-on-empty --timeout "${SPECS_TIMEOUT:-45m}" --vet=off \
	--output-dir "$reports" --json-report "$name.ginkgo.json" "${arguments[@]}" "$@" "$suite"
