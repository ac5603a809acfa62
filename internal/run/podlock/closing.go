package podlock

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// annotationClosing, on the Lease, has its holder and the time until which that starts no run, separated by a space: the manager is about
// to remove the operator, and waits until the running playbooks have ended. Another pod may run playbooks.
const annotationClosing = "zoscb.ibm.com/no-new-runs"

// Close lets the holder of a Lease start no run until a time. It reports whether that changed the Lease.
func Close(lease *coordinationv1.Lease, until time.Time) bool {
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	wanted := holder + " " + until.UTC().Format(time.RFC3339)
	if holder == "" || lease.Annotations[annotationClosing] == wanted {
		return false
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[annotationClosing] = wanted
	return true
}

// closedUntil returns the time until which the holder of a Lease starts no run, or the zero time.
func closedUntil(lease *coordinationv1.Lease) time.Time {
	holder, until, _ := strings.Cut(lease.Annotations[annotationClosing], " ")
	if holder == "" || holder != ptr.Deref(lease.Spec.HolderIdentity, "") {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, until)
	if err != nil {
		return time.Time{}
	}
	return at
}
