package instances

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRenamed(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group:    "g",
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v3", Served: true, Storage: true}, {Name: "v2", Served: true}, {Name: "v1", Served: true, Deprecated: true}, {Name: "v0"}},
	}}
	entry := func(manager, version, subresource, fields string, at int64) metav1.ManagedFieldsEntry {
		when := metav1.Unix(at, 0)
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: version, Subresource: subresource, Time: &when,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const a, b, both = `{"f:spec":{"f:a":{}}}`, `{"f:spec":{"f:b":{}}}`, `{"f:spec":{"f:a":{},"f:b":{}}}`
	for name, test := range map[string]struct{ managers, want []metav1.ManagedFieldsEntry }{
		"none":                        {nil, nil},
		"served":                      {[]metav1.ManagedFieldsEntry{entry("m", "g/v2", "", a, 1)}, nil},
		"of another group":            {[]metav1.ManagedFieldsEntry{entry("m", "other/v1", "", a, 1)}, nil},
		"deprecated":                  {[]metav1.ManagedFieldsEntry{entry("m", "g/v1", "", a, 1)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1)}},
		"not served":                  {[]metav1.ManagedFieldsEntry{entry("m", "g/v0", "", a, 1)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1)}},
		"removed":                     {[]metav1.ManagedFieldsEntry{entry("m", "g/v9", "status", a, 1)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "status", a, 1)}},
		"the same as another":         {[]metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1), entry("m", "g/v1", "", b, 2)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", both, 2)}},
		"two of them, and one served": {[]metav1.ManagedFieldsEntry{entry("m", "g/v0", "", b, 3), entry("m", "g/v1", "", a, 2), entry("n", "g/v2", "", a, 1)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", both, 3), entry("n", "g/v2", "", a, 1)}},
		"of a subresource":            {[]metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1), entry("m", "g/v1", "status", b, 2)}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1), entry("m", "g/v3", "status", b, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := renamed(definition, schema.GroupVersion{Group: "g", Version: "v3"}, test.managers)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got, cmp.Comparer(func(a, b metav1.FieldsV1) bool { return a.GetRawString() == b.GetRawString() })); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if _, err := renamed(definition, schema.GroupVersion{Group: "g", Version: "v3"}, []metav1.ManagedFieldsEntry{entry("m", "g/v3", "", a, 1), entry("m", "g/v1", "", "{", time.Now().Unix())}); err == nil {
		t.Error("fields that cannot be read are accepted")
	}
}
