package crdplan

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
)

// CRDs are planned again when something changes that a plan reads, and only then.
func TestChangesOfInputs(t *testing.T) {
	id := model.ID{Domain: "tests", Name: "things"}
	base := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "oc", UID: "1", Labels: render.IdentityLabels(id)}}
	for name, test := range map[string]struct {
		change func(*v2beta2.OperatorCollection)
		want   bool
	}{
		"nothing":        {func(*v2beta2.OperatorCollection) {}, false},
		"another label":  {func(oc *v2beta2.OperatorCollection) { oc.Labels["a"] = "b" }, false},
		"another object": {func(oc *v2beta2.OperatorCollection) { oc.UID = "2" }, true},
		"deletion":       {func(oc *v2beta2.OperatorCollection) { oc.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, true},
		"group":          {func(oc *v2beta2.OperatorCollection) { oc.Spec.APIGroup = v2beta2.APIGroupPerCollection }, true},
		"archive":        {func(oc *v2beta2.OperatorCollection) { oc.Status.Artifact = &v2beta2.Artifact{Digest: "x"} }, true},
		"record": {func(oc *v2beta2.OperatorCollection) {
			oc.Annotations = map[string]string{imports.AnnotationArtifact: "x"}
		}, true},
		"kinds": {func(oc *v2beta2.OperatorCollection) {
			oc.Status.Collection = &v2beta2.ImportedCollection{Domain: "tests", Name: "things", Kinds: []string{"Thing"}}
		}, true},
		"history": {func(oc *v2beta2.OperatorCollection) {
			oc.Status.History = []v2beta2.InstalledVersion{{Version: "1.0.0"}}
		}, true},
		"replacement": {func(oc *v2beta2.OperatorCollection) { oc.Status.Replaces = &v2beta2.CollectionReference{Name: "x"} }, true},
		"its wait": {func(oc *v2beta2.OperatorCollection) {
			oc.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionImported, Status: metav1.ConditionFalse, Reason: v2beta2.ReasonReplaced}}
		}, true},
		"another wait": {func(oc *v2beta2.OperatorCollection) {
			oc.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionImported, Status: metav1.ConditionFalse, Reason: v2beta2.ReasonProgressing}}
		}, false},
	} {
		changed := base.DeepCopy()
		test.change(changed)
		before, after := InputsOf(id, []v2beta2.OperatorCollection{base}), InputsOf(id, []v2beta2.OperatorCollection{*changed})
		if got := before.fingerprint(nil) != after.fingerprint(nil); got != test.want {
			t.Errorf("%s: changed: %v", name, got)
		}
	}
	installed := InputsOf(id, nil)
	installed.Installed = append(installed.Installed, "x")
	if installed.fingerprint(nil) == InputsOf(id, nil).fingerprint(nil) {
		t.Error("an installed archive is not compared")
	}
	other := base.DeepCopy()
	other.Labels = nil
	none, one := InputsOf(id, nil), InputsOf(id, []v2beta2.OperatorCollection{*other})
	if none.fingerprint(nil) != one.fingerprint(nil) {
		t.Error("an OperatorCollection of another collection is compared")
	}
	var held apiextensionsv1.CustomResourceDefinition
	crd.SetHolders(&held, []string{HolderName(other)}, time.Unix(1, 0))
	if definitions := []apiextensionsv1.CustomResourceDefinition{held}; none.fingerprint(definitions) == one.fingerprint(definitions) {
		t.Error("an OperatorCollection that is recorded on a CRD is not compared")
	}
}
