package suboperatorconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	managercache "github.com/collection-operator/collection-operator/internal/controller/cache"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

func TestWhoTakesADefaultOver(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const (
		spec    = `{"f:spec":{"f:operatorCollection":{}}}`
		own     = `{"f:spec":{"f:operatorCollection":{},"f:mapping":{"k:{\"namespace\":\"ns\"}":{".":{},"f:namespace":{}}}}}`
		part    = `{"f:spec":{"f:mapping":{"k:{\"namespace\":\"other\"}":{".":{},"f:namespace":{}}}}}`
		another = `{"f:spec":{"f:operatorCollection":{},"f:mapping":{"k:{\"namespace\":\"other\"}":{".":{},"f:namespace":{}}}}}`
		within  = `{"f:spec":{"f:mapping":{"k:{\"namespace\":\"ns\"}":{"f:zosendpoints":{".":{},"k:{\"name\":\"lpar1\"}":{}}}}}}`
	)
	one := func(namespace string) v2beta2.NamespaceMapping { return v2beta2.NamespaceMapping{Namespace: namespace} }
	for name, test := range map[string]struct {
		fields  []metav1.ManagedFieldsEntry
		mapping []v2beta2.NamespaceMapping
		taken   bool
		// want is nil if the mapping stays.
		want []v2beta2.NamespaceMapping
	}{
		"nobody":                     {[]metav1.ManagedFieldsEntry{entry(apply.FieldOwner, metav1.ManagedFieldsOperationUpdate, "", own)}, []v2beta2.NamespaceMapping{one("ns")}, false, nil},
		"the manager":                {[]metav1.ManagedFieldsEntry{entry(apply.FieldOwner, metav1.ManagedFieldsOperationApply, "", another)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, false, nil},
		"an edit":                    {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "", another)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, false, nil},
		"labels":                     {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "", `{"f:metadata":{"f:labels":{}}}`)}, []v2beta2.NamespaceMapping{one("ns")}, false, nil},
		"a part":                     {[]metav1.ManagedFieldsEntry{entry("team", metav1.ManagedFieldsOperationApply, "", part)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, false, nil},
		"status":                     {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "status", spec)}, []v2beta2.NamespaceMapping{one("ns")}, false, nil},
		"unreadable":                 {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "", `[]`)}, []v2beta2.NamespaceMapping{one("ns")}, false, nil},
		"without a mapping":          {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "", spec)}, []v2beta2.NamespaceMapping{one("ns")}, true, nil},
		"the same namespace":         {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "", own)}, []v2beta2.NamespaceMapping{one("ns")}, true, nil},
		"another namespace":          {[]metav1.ManagedFieldsEntry{entry("argocd-controller", metav1.ManagedFieldsOperationApply, "", another)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, []v2beta2.NamespaceMapping{one("other")}},
		"another, and the manager's": {[]metav1.ManagedFieldsEntry{entry("a", metav1.ManagedFieldsOperationApply, "", another), entry(apply.FieldOwner, metav1.ManagedFieldsOperationUpdate, "", own)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, []v2beta2.NamespaceMapping{one("other")}},
		"another, and an edit in it": {[]metav1.ManagedFieldsEntry{entry("a", metav1.ManagedFieldsOperationApply, "", another), entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "", within)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, nil},
		"another, and a part in it":  {[]metav1.ManagedFieldsEntry{entry("team", metav1.ManagedFieldsOperationApply, "", within), entry("a", metav1.ManagedFieldsOperationApply, "", another)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, nil},
		"another, and a part beside": {[]metav1.ManagedFieldsEntry{entry("team", metav1.ManagedFieldsOperationApply, "", part), entry("a", metav1.ManagedFieldsOperationApply, "", another)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, []v2beta2.NamespaceMapping{one("other")}},
		"an edit in it":              {[]metav1.ManagedFieldsEntry{entry("kubectl-edit", metav1.ManagedFieldsOperationUpdate, "", within)}, []v2beta2.NamespaceMapping{one("ns")}, false, nil},
		"two, one of them with it":   {[]metav1.ManagedFieldsEntry{entry("a", metav1.ManagedFieldsOperationApply, "", another), entry("b", metav1.ManagedFieldsOperationApply, "", own)}, []v2beta2.NamespaceMapping{one("ns"), one("other")}, true, nil},
		"another, and it is removed": {[]metav1.ManagedFieldsEntry{entry("a", metav1.ManagedFieldsOperationApply, "", another)}, []v2beta2.NamespaceMapping{one("other")}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			soc := &v2beta2.SubOperatorConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", ManagedFields: test.fields, Annotations: map[string]string{v2beta2.AnnotationDefault: "true"}},
				Spec:       v2beta2.SubOperatorConfigSpec{Mapping: test.mapping},
			}
			decide := func(source string) {
				t.Helper()
				others := imports.FindSetByOthers(soc)
				if (others.TakenOverBy != "") != test.taken {
					t.Errorf("%s: taken over by %q", source, others.TakenOverBy)
				}
				mapping, changed := withoutDefault(soc, others)
				if changed = changed && test.taken; changed != (test.want != nil) {
					t.Fatalf("%s: changed: %v", source, changed)
				}
				if diff := cmp.Diff(test.want, mapping); changed && diff != "" {
					t.Errorf("%s: %s", source, diff)
				}
			}
			decide("live")
			if _, err := managercache.KeepOwn(soc); err != nil {
				t.Fatal(err)
			}
			decide("cached")
			delete(soc.Annotations, v2beta2.AnnotationDefault)
			if others := imports.FindSetByOthers(soc); others.TakenOverBy != "" || others.Fields != nil {
				t.Error("a SubOperatorConfig that is no default cannot be taken over")
			}
		})
	}
}

func TestWhichOperatorsMayRun(t *testing.T) {
	for name, test := range map[string]struct {
		installation *v2beta2.InstallationStatus
		want         bool
	}{
		"none":                        {nil, false},
		"ready":                       {&v2beta2.InstallationStatus{Ready: true}, true},
		"starting":                    {&v2beta2.InstallationStatus{Reason: v2beta2.ReasonProgressing}, false},
		"an update cannot be planned": {&v2beta2.InstallationStatus{Reason: v2beta2.ReasonRuntimeObjectMissing}, true},
		"one pod cannot start":        {&v2beta2.InstallationStatus{Reason: v2beta2.ReasonWorkloadUnavailable}, true},
		"of an earlier manager":       {&v2beta2.InstallationStatus{}, true},
	} {
		if got := mayRun(test.installation); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
