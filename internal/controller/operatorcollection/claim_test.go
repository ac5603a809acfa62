package operatorcollection

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/Masterminds/semver/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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
				Archive:    intake.Archive{Artifact: &v2beta2.Artifact{Digest: test.digest, SourceHash: test.source}},
				collection: &model.Collection{Domain: test.domain, Name: test.name, Version: semver.MustParse(test.version)},
			}
			err := (&claims{Collections: &imports.CollectionCache{}}).checkOrder(t.Context(), following(time.Hour), scope)
			if f := status.AsError(err); (f != nil) != test.refused || f != nil && (f.Reason != v2beta2.ReasonArtifactChanged || !strings.Contains(f.Error(), test.version)) {
				t.Errorf("got %v, want refused: %t", err, test.refused)
			}
		})
	}
	first := following(time.Hour)
	first.Status = v2beta2.OperatorCollectionStatus{}
	if err := (&claims{Collections: &imports.CollectionCache{}}).checkOrder(t.Context(), first, &importScope{}); err != nil {
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
