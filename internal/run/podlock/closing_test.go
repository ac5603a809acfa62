package podlock

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// A closed Lease binds the pod that holds it, and no other one.
func TestClose(t *testing.T) {
	until := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	lease := &coordinationv1.Lease{}
	if Close(lease, until) {
		t.Error("a Lease that nobody holds was closed")
	}
	lease.Spec.HolderIdentity = ptr.To("pod_uid")
	if !closedUntil(lease).IsZero() {
		t.Error("the Lease is closed before it was")
	}
	if !Close(lease, until) || Close(lease, until) {
		t.Error("closing has to change the Lease once")
	}
	if got := closedUntil(lease); !got.Equal(until) {
		t.Errorf("got %s", got)
	}
	lease.Spec.HolderIdentity = ptr.To("pod_other")
	if !closedUntil(lease).IsZero() {
		t.Error("the Lease is closed for another pod")
	}
	for _, value := range []string{"", "pod_other", "pod_other soon", " 2026-11-22T09:00:00Z"} {
		lease.Annotations = map[string]string{annotationClosing: value}
		if !closedUntil(lease).IsZero() {
			t.Errorf("%q closes the Lease", value)
		}
	}
}
