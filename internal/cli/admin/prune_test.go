package admin

import (
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestUnclaimed(t *testing.T) {
	id := model.ID{Domain: "ibm", Name: "files"}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "files." + model.Group, Labels: render.IdentityLabels(id)}}
	definition.Spec.Group, definition.Spec.Names.Kind = model.Group, "File"
	crd.SetHolders(definition, []string{"zos/files"}, time.Now())
	imported := func(name string, kinds ...string) *v2beta2.ImportedCollection {
		return &v2beta2.ImportedCollection{Domain: id.Domain, Name: name, Kinds: kinds}
	}
	for name, test := range map[string]struct {
		change func(*v2beta2.OperatorCollection)
		want   bool
	}{
		"imported":                           {func(oc *v2beta2.OperatorCollection) { oc.Status.Collection = imported("files", "File") }, false},
		"imported without the kind":          {func(oc *v2beta2.OperatorCollection) { oc.Status.Collection = imported("files", "Job") }, true},
		"imported another collection":        {func(oc *v2beta2.OperatorCollection) { oc.Status.Collection = imported("jobs", "File") }, true},
		"restored, and recorded":             {func(oc *v2beta2.OperatorCollection) { oc.Namespace, oc.Name = "zos", "files" }, false},
		"restored, and labelled":             {func(oc *v2beta2.OperatorCollection) { oc.Labels = render.IdentityLabels(id) }, false},
		"not imported yet, and not recorded": {func(*v2beta2.OperatorCollection) {}, true},
	} {
		oc := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "other"}}
		test.change(&oc)
		if got := (&claims{collections: []v2beta2.OperatorCollection{oc}}).lack(definition); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
	foreign := definition.DeepCopy()
	foreign.Labels = nil
	if (&claims{}).lack(foreign) {
		t.Error("the CRD of somebody else is listed")
	}
	if soc := (v2beta2.SubOperatorConfig{ObjectMeta: definition.ObjectMeta}); (&claims{configs: []v2beta2.SubOperatorConfig{soc}}).lack(definition) {
		t.Error("a CRD that an operator needs is listed")
	}
}
