package replacement

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestHoldersOfAReplacedCollection(t *testing.T) {
	now := metav1.Now()
	thing := func(holders string) *apiextensionsv1.CustomResourceDefinition {
		d := &apiextensionsv1.CustomResourceDefinition{}
		d.Labels = map[string]string{"managed-by": "ibm-zos-cloud-broker", "operator-domain": "acme", "operator-name": "old"}
		d.Annotations = map[string]string{render.AnnotationClaimedBy: "ns", render.AnnotationHeldBy: holders}
		d.Spec.Group, d.Spec.Names.Kind = "g", "Thing"
		return d
	}
	oc := func(name string, edit func(*v2beta2.OperatorCollection)) v2beta2.OperatorCollection {
		o := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: 2}}
		o.Status.Collection = &v2beta2.ImportedCollection{Domain: "acme", Name: "old", APIVersion: "g/v1", Kinds: []string{"Thing"}}
		edit(&o)
		return o
	}
	waits := func(o *v2beta2.OperatorCollection) {
		o.Status.Replaces = &v2beta2.CollectionReference{Domain: "acme", Name: "old"}
		status.SetCondition(&o.Status.Conditions, v2beta2.ConditionImported, 2, status.Waiting(v2beta2.ReasonReplaced, 1, "waits"), "")
	}
	took := func(o *v2beta2.OperatorCollection) {
		waits(o)
		status.SetCondition(&o.Status.Conditions, v2beta2.ConditionImported, 2, nil, "imported")
		o.Status.Collection.Name = "new"
	}
	for name, test := range map[string]struct {
		edits []func(*v2beta2.OperatorCollection)
		// isHolder says whether it keeps the CRD, isTaken whether it takes it.
		isHolder, isTaken bool
	}{
		"has the old one": {nil, true, false},
		"waits":           {[]func(*v2beta2.OperatorCollection){waits}, false, true},
		"has taken over":  {[]func(*v2beta2.OperatorCollection){took}, false, true},
		"has taken over other kinds": {[]func(*v2beta2.OperatorCollection){took, func(o *v2beta2.OperatorCollection) {
			o.Status.Collection.Kinds = []string{"Other"}
		}}, false, false},
		"waits, and was changed": {[]func(*v2beta2.OperatorCollection){waits, func(o *v2beta2.OperatorCollection) { o.Generation = 3 }}, true, false},
		"waits, suspended":       {[]func(*v2beta2.OperatorCollection){waits, func(o *v2beta2.OperatorCollection) { o.Spec.Suspend = true }}, true, false},
		"waits, and is deleted":  {[]func(*v2beta2.OperatorCollection){waits, func(o *v2beta2.OperatorCollection) { o.DeletionTimestamp = &now }}, true, false},
		"waits for another one": {[]func(*v2beta2.OperatorCollection){waits, func(o *v2beta2.OperatorCollection) {
			o.Status.Replaces.Name = "other"
		}}, true, false},
		"waits in another namespace": {[]func(*v2beta2.OperatorCollection){waits, func(o *v2beta2.OperatorCollection) { o.Namespace = "others" }}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			one := oc("one", func(o *v2beta2.OperatorCollection) {
				for _, edit := range test.edits {
					edit(o)
				}
			})
			all := []v2beta2.OperatorCollection{one}
			definition := thing(crdplan.HolderName(&one))
			nobody := func(*v2beta2.OperatorCollection) bool { return false }
			if got := len(OtherHolders(definition, all, nobody)) > 0; got != test.isHolder {
				t.Errorf("it holds the CRD: %t", got)
			}
			if got := IsTakenOver(definition, all); got != test.isTaken {
				t.Errorf("it takes over the CRD: %t", got)
			}
		})
	}
	all := []v2beta2.OperatorCollection{oc("a", func(*v2beta2.OperatorCollection) {}), oc("b", func(o *v2beta2.OperatorCollection) { o.Namespace = "z" })}
	want := `"a", "gone" (which does not exist: remove it from the annotation zoscb.ibm.com/held-by of the CRDs), "z/b"`
	if diff := cmp.Diff(want, DescribeHolders([]string{"z/b", "ns/gone", "ns/a", "ns/a"}, "ns", all)); diff != "" {
		t.Error(diff)
	}
}

// What was seen to wait for a collection must not lose its custom resources to an error that is over soon.
func TestInterruptedSuccessors(t *testing.T) {
	old := model.ID{Domain: "acme", Name: "old"}
	oc := func(imported, reason string, suspended bool) *v2beta2.OperatorCollection {
		o := &v2beta2.OperatorCollection{}
		o.Spec.Suspend = suspended
		o.Status.Replaces = &v2beta2.CollectionReference{Domain: old.Domain, Name: old.Name}
		if imported != "" {
			o.Status.Collection = &v2beta2.ImportedCollection{Domain: old.Domain, Name: imported}
		}
		status.SetCondition(&o.Status.Conditions, v2beta2.ConditionImported, 0, status.Waiting(reason, 1, "waits"), "")
		return o
	}
	for name, test := range map[string]struct {
		oc   *v2beta2.OperatorCollection
		want bool
	}{
		"waits":                         {oc("", v2beta2.ReasonReplaced, false), false},
		"its server does not answer":    {oc("", v2beta2.ReasonFetchFailed, false), true},
		"so, and it has the old one":    {oc("old", v2beta2.ReasonFetchFailed, false), true},
		"suspended":                     {oc("", v2beta2.ReasonReplaced, true), true},
		"has taken over, and has a new": {oc("new", v2beta2.ReasonFetchFailed, false), false},
	} {
		if got := IsInterrupted(test.oc, old); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if IsInterrupted(&v2beta2.OperatorCollection{}, model.ID{}) {
		t.Error("nothing is replaced")
	}
}
