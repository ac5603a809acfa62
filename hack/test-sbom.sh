#!/usr/bin/env bash
# Lists what is in the images that `devcluster build --images` built, as `make sbom` does for images of a registry, and checks
# that the lists are complete.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
layout=.devcluster/cache/oci
if [[ ! -e $layout/runtime/index.json ]]; then
	echo "there are no images: run .devcluster/bin/devcluster build --images (Linux, root)" >&2
	exit 1
fi

# expect DOCUMENT NAME...: fails unless the document lists all packages.
expect() {
	local document=$1 name
	shift
	for name; do
		if ! grep -q "\"name\": *\"$name\"" "$document"; then
			echo "$document does not list $name" >&2
			exit 1
		fi
	done
	echo "$document: $(grep -o '"SPDXID": *"SPDXRef-Package' "$document" | wc -l) packages"
}

make sbom IMG="oci-dir:$layout/manager" RUNTIME_IMG="oci-dir:$layout/runtime"
modules=(github.com/collection-operator/collection-operator k8s.io/client-go sigs.k8s.io/controller-runtime stdlib)
expect sbom/manager.spdx.json "${modules[@]}" ca-certificates tar
expect sbom/runtime.spdx.json "${modules[@]}" github.com/operator-framework/ansible-operator-plugins ansible-core ansible-runner openssh-client
