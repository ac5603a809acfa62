package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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

func TestCheckOrder(t *testing.T) {
	for name, test := range map[string]struct {
		domain, name, version, digest, source string
		refused                               bool
	}{
		"newer":                    {"example", "files", "1.2.1", "new", "source", false},
		"the same version":         {"example", "files", "1.2.0", "new", "source", false},
		"older":                    {"example", "files", "1.1.9", "new", "source", true},
		"a pre-release of it":      {"example", "files", "1.2.0-rc.1", "new", "source", true},
		"of another name":          {"example", "jobs", "2.0.0", "new", "source", true},
		"of another domain":        {"else", "files", "2.0.0", "new", "source", true},
		"the installed one":        {"example", "files", "1.2.0", "old", "source", false},
		"older, and the spec said": {"example", "files", "1.0.0", "new", "changed", false},
		"another, as the spec had": {"else", "jobs", "1.0.0", "new", "changed", false},
	} {
		t.Run(name, func(t *testing.T) {
			scope := &importScope{
				Archive:    Archive{artifact: &v2beta2.Artifact{Digest: test.digest, SourceHash: test.source}},
				collection: &model.Collection{Domain: test.domain, Name: test.name, Version: semver.MustParse(test.version)},
			}
			err := (&OperatorCollectionReconciler{Collections: &CollectionCache{}}).checkOrder(t.Context(), following(time.Hour), scope)
			if f := status.AsError(err); (f != nil) != test.refused || f != nil && (f.Reason != v2beta2.ReasonArtifactChanged || !strings.Contains(f.Error(), test.version)) {
				t.Errorf("got %v, want refused: %t", err, test.refused)
			}
		})
	}
	first := following(time.Hour)
	first.Status = v2beta2.OperatorCollectionStatus{}
	if err := (&OperatorCollectionReconciler{Collections: &CollectionCache{}}).checkOrder(t.Context(), first, &importScope{}); err != nil {
		t.Errorf("the first archive is refused: %v", err)
	}
}

func TestRetryUntilNextCheck(t *testing.T) {
	cause := errors.New("cause")
	oc := following(time.Hour)
	if f := status.AsError(retryUntilNextCheck(oc, status.Stalled("R", cause))); f.Stalled || f.Reason != "R" || f.RetryAfter < 50*time.Minute || !errors.Is(f, cause) {
		t.Errorf("got %+v", f)
	}
	for _, err := range []error{nil, status.Retry("R", cause), status.Waiting("R", time.Second, "x")} {
		if got := retryUntilNextCheck(oc, err); got != err { //nolint:errorlint // The very same error is wanted.
			t.Errorf("%v became %v", err, got)
		}
	}
	oc.Spec.Interval = nil
	if f := status.AsError(retryUntilNextCheck(oc, status.Stalled("R", cause))); !f.Stalled {
		t.Errorf("without an interval it is tried again: %+v", f)
	}
}
