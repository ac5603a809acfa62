#!/usr/bin/env bash
# Runs a demo on the development cluster: installs an Ansible collection archive as a Kubernetes operator, which creates a
# file on a system over SSH.
#
#   demo.sh           install everything that is missing and run the demo
#   demo.sh install   install the manager only
#   demo.sh clean     remove the demo, but not the manager
#
# DEMO_KUBECONFIG and KUBECTL select another cluster, which must have the images that `make images` builds. A KUBECONFIG in
# the environment is ignored, so that the demo is not installed in another cluster by mistake.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
state=$PWD/.devcluster/demo
export KUBECONFIG=${DEMO_KUBECONFIG:-$PWD/.devcluster/kubeconfig}
KUBECTL=${KUBECTL:-$PWD/.devcluster/bin/kubectl}

manager_namespace="collection-operator-system"
manager="collection-operator-controller-manager"
namespace=demo
endpoint=lpar1
user=ibmuser
collection=zos-files.example.1.0.0
images=localhost/collection-operator

kubectl() { "$KUBECTL" "$@"; }

elapsed() { printf '%02d:%02d' $((SECONDS / 60)) $((SECONDS % 60)); }

step() { printf '\n[%s] %s\n' "$(elapsed)" "$*"; }

# by_kind: one line for each kind of object that kubectl has applied, instead of one for each object.
by_kind() { awk '
	$NF == "serverside-applied" { split($1, name, "/"); if (!count[name[1]]++) kinds[++n] = name[1]; next }
	{ print }
	END { for (i = 1; i <= n; i++) printf "%3d %s applied\n", count[kinds[i]], kinds[i] }'; }

say() { stdbuf -oL uniq | sed -u 's/^/        /'; }

fail() {
	printf '\n[%s] FAILED: %s\n' "$(elapsed)" "$*" >&2
	exit 1
}

# conditions RESOURCE NAME: prints one line for each condition.
conditions() {
	kubectl get -n "$namespace" "$1" "$2" --ignore-not-found -o \
		jsonpath='{range .status.conditions[*]}{.type}={.status}  {.reason}: {.message}{"\n"}{end}' | sed -E 's/  : $//; s/^(.{120}).{4,}/\1.../' | sort
}

# wait_for RESOURCE NAME CONDITION: prints changes of the conditions until the given one is true.
wait_for() {
	local seen='' now ready='' deadline=$((SECONDS + 300))
	while ((SECONDS < deadline)); do
		# kubectl wait considers observedGeneration.
		if kubectl wait -n "$namespace" "$1/$2" --for="condition=$3" --timeout=1s >/dev/null 2>&1; then
			ready=yes
		fi
		now=$(conditions "$1" "$2")
		comm -13 <(echo "$seen") <(echo "$now") | sed "s/^/        $(elapsed)  /"
		seen=$now
		if [[ $ready ]]; then
			return
		fi
	done
	echo
	kubectl get -n "$namespace" pods
	kubectl logs -n "$manager_namespace" -l app.kubernetes.io/name=collection-operator --prefix --tail=20
	fail "$1/$2 did not become $3 within five minutes; see the end of the managers' logs above"
}

# build_id identifies the content of the development cluster's images, whose tags do not change.
build_id() {
	cat "$PWD"/.devcluster/cache/oci/{manager,runtime}/index.json | sha256sum | cut -c 1-16
}

install_manager() {
	local build installed
	installed=$(kubectl get statefulset -n "$manager_namespace" "$manager" --ignore-not-found -o name)
	KUBECTL=$KUBECTL hack/deploy.sh "$images/manager:dev" "$images/runtime:dev" "$(go env GOARCH)" | by_kind
	build=$(build_id)
	mkdir -p "$state"
	# Pods that are there run the images of an earlier build.
	if [[ $installed && $build != "$(cat "$state/build" 2>/dev/null)" ]]; then
		kubectl rollout restart -n "$manager_namespace" "statefulset/$manager"
		kubectl delete pods -A -l managed-by=ibm-zos-cloud-broker --wait=false --ignore-not-found
	fi
	echo "$build" >"$state/build"
	kubectl rollout status -n "$manager_namespace" "statefulset/$manager" --timeout=5m
}

# Creates the key pair of the demo's user and the host key of the SSH target once, so that the demo can be repeated.
make_keys() {
	mkdir -p "$state/keys"
	chmod 700 "$state/keys"
	for key in user host; do
		[[ -f $state/keys/$key ]] || ssh-keygen -q -t ed25519 -N '' -C "demo-$key" -f "$state/keys/$key"
	done
}

# replaced FILE: prints a manifest with its placeholders replaced.
replaced() {
	sed -e "s/NAMESPACE/$namespace/g" -e "s/CONFIGMAP/archives/g" -e "s/NAME/$endpoint/g" -e "s/USER/$user/g" "$1"
}

apply() { kubectl apply --server-side --force-conflicts -n "$namespace" -f - ; }

start_target() {
	make_keys
	kubectl create namespace "$namespace" --dry-run=client -o yaml | apply
	kubectl create secret generic "$endpoint-target" --dry-run=client -o yaml \
		--from-file=authorized_keys="$state/keys/user.pub" --from-file=host_key="$state/keys/host" | apply
	replaced hack/demo/ssh-target.yaml | apply
	kubectl rollout status -n "$namespace" "deployment/$endpoint" --timeout=5m
}

build_archive() {
	digest=$(bin/kubectl-collection build test/collections/files --output "$state" --force | awk '{print $NF}')
}

serve_archive() {
	kubectl create configmap archives --dry-run=client -o yaml \
		--from-file="$state/example-zos_files-1.0.0.tar.gz" | apply
	# The digest in the pod's annotations restarts the server when the archive changes.
	replaced hack/demo/archives.yaml | sed "s/^    metadata:/&\n      annotations: {digest: \"$digest\"}/" | apply
	kubectl rollout status -n "$namespace" deployment/archives --timeout=5m
}

register_endpoint() {
	kubectl create secret generic "$endpoint-credential" --type=kubernetes.io/ssh-auth --dry-run=client -o yaml \
		--from-literal=username="$user" --from-file=ssh-privatekey="$state/keys/user" | apply
	apply <<-EOF
		apiVersion: zoscb.ibm.com/v2beta2
		kind: ZosEndpoint
		metadata:
		  name: $endpoint
		spec:
		  endpointType: remote
		  host: $endpoint.$namespace.svc.cluster.local
		  port: 22
		  credentialName: $endpoint-credential
		  variables:
		    - "base_root: /home/$user"
		    - "zos_files_base: '{{ base_root }}/files'"
		    - "ansible_python_interpreter: /usr/bin/python3"
	EOF
}

import_collection() {
	apply <<-EOF
		apiVersion: zoscb.ibm.com/v2beta2
		kind: OperatorCollection
		metadata:
		  name: $collection
		spec:
		  collectionURL: http://archives.$namespace.svc.cluster.local/example-zos_files-1.0.0.tar.gz
		  digest: $digest
	EOF
}

prove_file() {
	local path
	path=$(kubectl get -n "$namespace" datafile hello -o jsonpath='{.status.path}')
	echo "\$ kubectl exec -n $namespace deployment/$endpoint -- cat $path"
	kubectl exec -n "$namespace" "deployment/$endpoint" -- cat "$path" ||
		fail "the file $path is not on $endpoint"
}

next_steps() {
	cat <<-EOF

		The cluster keeps running. Try next, in this folder:

		  export KUBECONFIG=$KUBECONFIG PATH=$(dirname "$KUBECTL"):\$PATH

		  kubectl get zoscb -A                     all resources of this product
		  kubectl get datafiles -n $namespace            a kind of the collection
		  kubectl explain datafile.spec            its fields

		  kubectl apply -n $namespace -f config/samples/filecopy.yaml        copy the file
		  kubectl apply -n $namespace -f config/samples/filediscovery.yaml   create resources for files without one
		  kubectl edit -n $namespace datafile hello                          change a line
		  kubectl delete -n $namespace datafile hello                        remove the file
		  kubectl exec -n $namespace deployment/$endpoint -- ls -lR /home/$user/files

		  kubectl logs -n $namespace -l operator-name=zos-files -c operator -f      what the playbooks do
		  kubectl logs -n $manager_namespace -l component=manager -f

		To remove the demo: hack/demo.sh clean. To stop the cluster: make cluster-down
	EOF
}

demo() {
	[[ -x $KUBECTL && -f $KUBECONFIG ]] || fail "the development cluster is not running; make demo starts it"
	step "Install the manager in namespace $manager_namespace"
	install_manager | say
	step "Start a system to manage: $endpoint, an SSH server in place of z/OS"
	start_target | say
	step "Build the collection archive and serve it over HTTP"
	build_archive
	serve_archive | say
	step "Register the system: one Secret, one ZosEndpoint"
	register_endpoint | say
	wait_for zosendpoint "$endpoint" Reachable
	step "Import the collection: one OperatorCollection, pinned to $digest"
	import_collection | say
	wait_for operatorcollection "$collection" Ready
	kubectl get -n "$namespace" deployments -l operator-name=zos-files | say
	step "Create a file: one DataFile, config/samples/datafile.yaml"
	# Delete the resource of an earlier demo and its file, so that the file is created again.
	kubectl delete -n "$namespace" datafile hello --ignore-not-found --timeout=3m | say
	apply <config/samples/datafile.yaml | say
	wait_for datafile hello Successful
	step "The file on $endpoint:"
	prove_file | say
	step "Done."
	next_steps
}

clean() {
	if [[ -z $(kubectl get namespace "$namespace" --ignore-not-found -o name) ]]; then
		return
	fi
	for oc in $(kubectl get operatorcollections -n "$namespace" -o name); do
		kubectl patch -n "$namespace" "$oc" --type=merge -p '{"spec":{"deletionPolicy":"Finalize"}}'
		kubectl delete -n "$namespace" "$oc" --timeout=5m
	done
	kubectl delete namespace "$namespace" --timeout=5m
}

case ${1-demo} in
demo) demo ;;
install) install_manager ;;
clean) clean ;;
*)
	echo "usage: demo.sh [install|clean]" >&2
	exit 2
	;;
esac
