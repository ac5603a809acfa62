package imports

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// A history keeps its archives in the store, also for the import that looks whether it may remove one.
func TestHistoryPinsArchives(t *testing.T) {
	const first, second = "sha256:1111111111111111111111111111111111111111111111111111111111111111", "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	oc := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	oc.Status.Artifact = &v2beta2.Artifact{Digest: second}
	oc.Status.History = []v2beta2.InstalledVersion{{Digest: second}, {Digest: first}}
	inUse := &ArchivesInUse{Collections: []v2beta2.OperatorCollection{oc}}
	if got := inUse.digests(nil); !got[first] || !got[second] {
		t.Errorf("got %v", got)
	}
	if got := inUse.digests(&oc); len(got) != 0 {
		t.Errorf("without its own: got %v", got)
	}
	if !InHistory(&oc, first) || PinnedVersion(&oc) != "" {
		t.Error("without spec.digest nothing is pinned")
	}
	oc.Spec.Digest = first
	if PinnedVersion(&oc) != first {
		t.Error("spec.digest names an archive in the history")
	}
	oc.Spec.Digest = strings.Replace(first, "1", "3", 1)
	if PinnedVersion(&oc) != "" {
		t.Error("spec.digest names no archive in the history")
	}
}
