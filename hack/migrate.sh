#!/usr/bin/env bash
# Replaces a manager that is a Deployment with one volume, as in earlier versions: removes the Deployment, and gives its volume
# with all archives and uploads to the first pod of the StatefulSet that replaces it. Nothing is copied. It can be interrupted and
# run again.
#
#   migrate.sh           migrate, if there is something to migrate; then apply config/default
#   migrate.sh --check   exit code 0 if there is, else 1
#
# If the storage class needs anything that the volume does not tell, see docs/install.md.
set -euo pipefail

KUBECTL=${KUBECTL:-kubectl}
namespace=collection-operator-system
name=collection-operator-controller-manager
old_claim=collection-operator-archives
new_claim=archives-$name-0
label=zoscb.ibm.com/archives-of
annotation=zoscb.ibm.com/reclaim-policy

kubectl() { "$KUBECTL" -n "$namespace" "$@"; }
fail() {
	echo "migrate.sh: $*" >&2
	exit 2
}

deployment() { kubectl get deployment "$name" --ignore-not-found -o name; }
# The volume whose migration began.
volume() { kubectl get persistentvolumes -l "$label=$namespace" -o jsonpath='{.items[*].metadata.name}'; }

if [[ ${1-} == --check ]]; then
	[[ -n $(deployment) || -n $(volume) ]]
	exit
fi

if [[ -n $(kubectl get deployment "$name" --ignore-not-found -o jsonpath='{.metadata.labels.olm\.owner}') ]]; then
	fail "the Operator Lifecycle Manager has installed the Deployment $name: remove its Subscription and ClusterServiceVersion first"
fi

# mark VOLUME: keeps a volume when its claim is deleted, and remembers what to restore. One request does both, so that no
# interruption can make it remember its own change.
mark() {
	local policy
	[[ -z $(volume) ]] || return 0
	policy=$(kubectl get persistentvolume "$1" -o jsonpath='{.spec.persistentVolumeReclaimPolicy}')
	kubectl patch persistentvolume "$1" --type=merge -p '{"metadata":{"annotations":{"'"$annotation"'":"'"$policy"'"},
		"labels":{"'"$label"'":"'"$namespace"'"}},"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'
}

# bind VOLUME: makes the claim of the first pod, bound to the volume.
bind() {
	if [[ $(kubectl get persistentvolume "$1" -o jsonpath='{.spec.claimRef.name}') != "$new_claim" ]]; then
		kubectl patch persistentvolume "$1" --type=json -p '[{"op": "replace", "path": "/spec/claimRef", "value":
			{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "'"$namespace"'", "name": "'"$new_claim"'"}}]'
	fi
	if [[ -z $(kubectl get persistentvolumeclaim "$new_claim" --ignore-not-found -o name) ]]; then
		kubectl create -f - <<-END
			apiVersion: v1
			kind: PersistentVolumeClaim
			metadata: {name: $new_claim}
			spec:
			  accessModes: [ReadWriteOnce]
			  storageClassName: "$(kubectl get persistentvolume "$1" -o jsonpath='{.spec.storageClassName}')"
			  volumeName: $1
			  resources:
			    requests: {storage: "$(kubectl get persistentvolume "$1" -o jsonpath='{.spec.capacity.storage}')"}
		END
	fi
	[[ $(kubectl get persistentvolumeclaim "$new_claim" -o jsonpath='{.spec.volumeName}') == "$1" ]] ||
		fail "the PersistentVolumeClaim $new_claim exists and does not name the volume $1: delete it, if it has nothing that you need, and run this again"
	kubectl wait --for=jsonpath='{.status.phase}=Bound' "persistentvolumeclaim/$new_claim" --timeout=2m
}

# restore VOLUME: undoes mark.
restore() {
	local policy
	policy=$(kubectl get persistentvolume "$1" -o jsonpath="{.metadata.annotations.${annotation//./\\.}}")
	kubectl patch persistentvolume "$1" --type=merge -p '{"metadata":{"annotations":{"'"$annotation"'":null},
		"labels":{"'"$label"'":null}},"spec":{"persistentVolumeReclaimPolicy":"'"${policy:-Retain}"'"}}'
}

old_volume=$(kubectl get persistentvolumeclaim "$old_claim" --ignore-not-found -o jsonpath='{.spec.volumeName}')
if [[ $old_volume ]]; then
	mark "$old_volume"
fi
kubectl delete deployment "$name" --ignore-not-found --cascade=foreground --timeout=5m
marked=$(volume)
if [[ $marked ]]; then
	kubectl delete persistentvolumeclaim "$old_claim" --ignore-not-found --timeout=5m
	bind "$marked"
	restore "$marked"
fi
