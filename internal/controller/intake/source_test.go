package intake

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// following is an OperatorCollection with an interval, that has version 1.2.0 of example/files.
func following(interval time.Duration) *v2beta2.OperatorCollection {
	return &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "files", Generation: 3},
		Spec:       v2beta2.OperatorCollectionSpec{Interval: &metav1.Duration{Duration: interval}},
		Status: v2beta2.OperatorCollectionStatus{
			Artifact:   &v2beta2.Artifact{Digest: "old", SourceHash: "source"},
			Collection: &v2beta2.ImportedCollection{Domain: "example", Name: "files", Version: "1.2.0"},
		},
	}
}

func TestSourceChecks(t *testing.T) {
	const interval = time.Hour
	oc, of := following(interval), &sourceChecks{}
	tenth := func(name string, got time.Duration) {
		t.Helper()
		if got < interval*89/100 || got > interval*111/100 {
			t.Errorf("%s: %s is not an hour, give or take a tenth", name, got)
		}
	}
	if _, known := of.last(oc); known {
		t.Error("a check is known that never was")
	}
	tenth("never checked", of.wait(oc))

	validators := fetch.Validators{ETag: `"a"`}
	of.record(oc, newSourceCheck(oc, validators))
	of.record(oc, nil)
	if last, known := of.last(oc); !known || last.validators != validators {
		t.Errorf("got %+v, %t", last, known)
	}
	tenth("checked", of.wait(oc))
	of.record(oc, &sourceCheck{generation: oc.Generation, due: time.Now().Add(-time.Minute)})
	if wait := of.wait(oc); wait <= 0 || wait > time.Second {
		t.Errorf("overdue: it waits %s", wait)
	}

	oc.Generation++
	if _, known := of.last(oc); known {
		t.Error("a check for another spec counts")
	}
	oc.Generation--
	of.Delete(client.ObjectKeyFromObject(oc))
	if _, known := of.last(oc); known {
		t.Error("a check is not forgotten")
	}
	oc.Spec.Interval = nil
	if of.wait(oc) != 0 || newSourceCheck(oc, validators) != nil {
		t.Error("without an interval there is a next check")
	}
}
