package imports

import (
	"testing"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Managers compare their archives with those in use when that may have changed, and not when users change something else.
func TestChangesArchives(t *testing.T) {
	oc := func(change func(*v2beta2.OperatorCollection)) *v2beta2.OperatorCollection {
		made := &v2beta2.OperatorCollection{}
		made.Status.Artifact = &v2beta2.Artifact{Digest: "sha256:a"}
		change(made)
		return made
	}
	soc := func(digests ...string) *v2beta2.SubOperatorConfig {
		made := &v2beta2.SubOperatorConfig{}
		for _, digest := range digests {
			made.Status.Installations = append(made.Status.Installations, v2beta2.InstallationStatus{Digest: digest})
		}
		return made
	}
	same := oc(func(*v2beta2.OperatorCollection) {})
	for name, test := range map[string]struct {
		before, after any
		want          bool
	}{
		"an annotation": {same, oc(func(oc *v2beta2.OperatorCollection) {
			oc.Annotations = map[string]string{"example.com/x": "y"}
		}), false},
		"a message": {same, oc(func(oc *v2beta2.OperatorCollection) { oc.Status.Message = "x" }), false},
		"another archive": {same, oc(func(oc *v2beta2.OperatorCollection) {
			oc.Status.Artifact = &v2beta2.Artifact{Digest: "sha256:b"}
		}), true},
		"no archive": {same, oc(func(oc *v2beta2.OperatorCollection) { oc.Status.Artifact = nil }), true},
		"a record": {oc(func(oc *v2beta2.OperatorCollection) { oc.Status.Artifact = nil }), oc(func(oc *v2beta2.OperatorCollection) {
			oc.Status.Artifact = nil
			oc.Annotations = map[string]string{AnnotationArtifact: "x"}
		}), true},
		"the same operators":             {soc("sha256:a", "sha256:b"), soc("sha256:b", "sha256:a"), false},
		"another operator":               {soc("sha256:a"), soc("sha256:b"), true},
		"a former state that is unknown": {nil, same, true},
	} {
		if got := ChangesArchives(test.before, test.after); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
