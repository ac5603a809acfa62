#!/usr/bin/env bash
# Installs the manager in the cluster of the current kubeconfig, or changes the images of an installed manager.
#
#   deploy.sh MANAGER_IMAGE RUNTIME_IMAGE [ARCHITECTURES]
#
# A manager of an earlier version, which was a Deployment, is replaced: see migrate.sh.
#
# ARCHITECTURES of the runtime image, such as amd64,s390x. COMPONENTS lists directories of config/components to add. Fields
# of other field managers are never overwritten.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
KUBECTL=${KUBECTL:-kubectl}
manager_image=${1:?the image of the manager is missing}
runtime_image=${2:?the image of the runtime is missing}
architectures=${3:-amd64,arm64,ppc64le,s390x}

mkdir -p bin
overlay=$(mktemp -d bin/deploy.XXXXXX)
trap 'rm -rf "$overlay"' EXIT

{
	cat <<-END
		apiVersion: kustomize.config.k8s.io/v1beta1
		kind: Kustomization
		resources:
		  - ../../config/default
		components: [$(for component in ${COMPONENTS:-}; do printf '../../config/components/%s, ' "$component"; done)]
		patches:
		  - patch: |
		      - {op: replace, path: /spec/template/spec/containers/0/image, value: "$manager_image"}
		      - {op: test, path: /spec/template/spec/containers/0/env/0/name, value: RUNTIME_IMAGE}
		      - {op: replace, path: /spec/template/spec/containers/0/env/0/value, value: "$runtime_image"}
		      - {op: test, path: /spec/template/spec/containers/0/env/1/name, value: RUNTIME_ARCHITECTURES}
		      - {op: replace, path: /spec/template/spec/containers/0/env/1/value, value: "$architectures"}
		    target: {kind: StatefulSet, name: collection-operator-controller-manager}
		  - patch: |
		      - {op: replace, path: /spec/template/spec/containers/0/image, value: "$manager_image"}
		    target: {kind: Deployment, name: collection-operator-operands}
	END
} >"$overlay/kustomization.yaml"

apply() { "$KUBECTL" apply --server-side --field-manager=collection-operator-deploy -k "$overlay" "$@"; }

if hack/migrate.sh --check; then
	# The earlier manager keeps running if the new one cannot be installed.
	apply --dry-run=server >/dev/null
	hack/migrate.sh
fi
apply
