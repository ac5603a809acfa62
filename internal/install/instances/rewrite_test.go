package instances

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestVersionsToWrite(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{}
	for _, name := range []string{"v5", "v4", "v3", "v2", "v1"} {
		definition.Spec.Versions = append(definition.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: name != "v1", Storage: name == "v5"})
	}
	definition.Status.StoredVersions = []string{"v1", "v3", "v5"}
	wrote := func(version, fields, subresource string, hour int) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			APIVersion: "suboperator.zoscb.ibm.com/" + version, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields),
			Time: &metav1.Time{Time: time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)},
		}
	}
	const spec, metadata = `{"f:spec":{"f:size":{}}}`, `{"f:metadata":{"f:labels":{}}}`
	for name, test := range map[string]struct {
		managers []metav1.ManagedFieldsEntry
		want     []string
	}{
		"nobody known":             {want: []string{"v3", "v5"}},
		"the last one first":       {[]metav1.ManagedFieldsEntry{wrote("v4", spec, "", 2), wrote("v2", spec, "", 1)}, []string{"v4", "v3", "v5"}},
		"in whatever order":        {[]metav1.ManagedFieldsEntry{wrote("v2", spec, "", 1), wrote("v4", spec, "", 2)}, []string{"v4", "v3", "v5"}},
		"not of the metadata":      {[]metav1.ManagedFieldsEntry{wrote("v2", spec, "", 1), wrote("v4", metadata, "", 2)}, []string{"v2", "v3", "v5"}},
		"not of the status":        {[]metav1.ManagedFieldsEntry{wrote("v2", spec, "", 1), wrote("v4", spec, "status", 2)}, []string{"v2", "v3", "v5"}},
		"one that is not served":   {[]metav1.ManagedFieldsEntry{wrote("v1", spec, "", 1)}, []string{"v3", "v5"}},
		"one that is removed":      {[]metav1.ManagedFieldsEntry{wrote("v0", spec, "", 1)}, []string{"v3", "v5"}},
		"one that it is stored in": {[]metav1.ManagedFieldsEntry{wrote("v3", spec, "", 1)}, []string{"v3", "v5"}},
		"without a time":           {[]metav1.ManagedFieldsEntry{{APIVersion: "g/v2", FieldsV1: metav1.NewFieldsV1(spec)}}, []string{"v2", "v3", "v5"}},
	} {
		if diff := cmp.Diff(test.want, versionsToWrite(definition, test.managers)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestContinueAfterExpiry(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old")
	expired.ErrStatus.Continue = "token"
	if token, ok := continueAfterExpiry(expired); token != "token" || !ok {
		t.Errorf("got %q, %t", token, ok)
	}
	for _, err := range []error{nil, errors.New("x"), apierrors.NewGenericServerResponse(http.StatusBadGateway, "list", metav1.Unversioned.WithResource("x").GroupResource(), "", "", 0, false)} {
		if _, ok := continueAfterExpiry(err); ok {
			t.Errorf("%v counts as expired", err)
		}
	}
}

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
