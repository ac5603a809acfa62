package cache

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// foreign is metadata as large as the API server accepts.
func foreign(annotations map[string]string) metav1.ObjectMeta {
	annotations["example.com/large"] = strings.Repeat("x", 256<<10)
	return metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "c", ResourceVersion: "1", Annotations: annotations,
		Labels:          map[string]string{render.LabelName: "files", "example.com/tier": strings.Repeat("x", 63)},
		ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "x", FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 1<<10))}},
		OwnerReferences: []metav1.OwnerReference{{UID: "d"}},
	}
}

// ignoreDigest ignores the digest of a Deployment's metadata.
var ignoreDigest = cmpopts.IgnoreMapEntries(func(key, _ string) bool { return key == "zoscb.ibm.com/metadata" })

func TestKeepMetadata(t *testing.T) {
	annotations := map[string]string{install.AnnotationOwner: "a/soc", mapping.AnnotationAllow: "x"}
	deployment := &appsv1.Deployment{ObjectMeta: foreign(annotations)}
	deployment.Spec.Template.Labels = map[string]string{"a": "b"}
	changed := deployment.DeepCopy()
	changed.Labels["example.com/tier"] = "changed"
	kept := metav1.ObjectMeta{
		Namespace: "a", Name: "b", UID: "c", ResourceVersion: "1", OwnerReferences: []metav1.OwnerReference{{UID: "d"}},
		Labels:      map[string]string{render.LabelName: "files"},
		Annotations: map[string]string{install.AnnotationOwner: "a/soc"},
	}
	for want, object := range map[any]any{
		&metav1.PartialObjectMetadata{ObjectMeta: kept}: &metav1.PartialObjectMetadata{ObjectMeta: foreign(annotations)},
		&appsv1.Deployment{ObjectMeta: kept}:            deployment,
	} {
		got, err := keepMetadata(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, ignoreDigest); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := keepMetadata(changed); err != nil || install.DeploymentState(changed) == install.DeploymentState(deployment) {
		t.Errorf("a label that is not kept has changed: got %q, %v", install.DeploymentState(changed), err)
	}
	once := install.DeploymentState(deployment)
	if _, err := keepMetadata(deployment); err != nil || install.DeploymentState(deployment) != once {
		t.Errorf("the second time it is %q, not %q, %v", install.DeploymentState(deployment), once, err)
	}
}

// Whatever is written into a Lease, the cache has only its name: anybody may create many.
func TestKeepName(t *testing.T) {
	large := foreign(map[string]string{runcount.Annotation: strings.Repeat("x", 200<<10)})
	large.Labels[runcount.Label], large.Finalizers = "true", []string{"example.com/x"}
	kept := metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "c", ResourceVersion: "1", Labels: map[string]string{runcount.Label: "true"}}
	for want, object := range map[any]any{
		&metav1.PartialObjectMetadata{ObjectMeta: kept}: &metav1.PartialObjectMetadata{ObjectMeta: *large.DeepCopy()},
		&coordinationv1.Lease{ObjectMeta: kept}: &coordinationv1.Lease{
			ObjectMeta: *large.DeepCopy(), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To(strings.Repeat("x", 1<<20))},
		},
	} {
		got, err := keepName(object)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestKeepNamespace(t *testing.T) {
	consent := map[string]string{mapping.AnnotationAllow: strings.Repeat("x,", 16<<10)}
	namespace := &metav1.PartialObjectMetadata{ObjectMeta: foreign(maps.Clone(consent))}
	for range 2 { // The cache may transform an object twice.
		if _, err := keepNamespace(namespace); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(consent, namespace.Annotations); diff != "" {
			t.Error(diff)
		}
	}
}

func TestKeepDefinition(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "x"}},
		}},
	}}
	if _, err := keepDefinition(definition); err != nil {
		t.Fatal(err)
	}
	want := []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}
	if diff := cmp.Diff(want, definition.Spec.Versions); diff != "" {
		t.Error(diff)
	}
}

// Playbooks of a published version get the false that its booleans have.
func TestKeepDefinitionKeepsTheFalseOfBooleans(t *testing.T) {
	fields := map[string]apiextensionsv1.JSONSchemaProps{
		"flag":  {Type: "boolean", Title: "Flag", Default: &apiextensionsv1.JSON{Raw: []byte("false")}},
		"on":    {Type: "boolean", Default: &apiextensionsv1.JSON{Raw: []byte("true")}},
		"other": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"false"`)}},
	}
	definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Properties: fields}},
			}},
		}},
	}}
	for range 2 { // The cache may transform an object twice.
		if _, err := keepDefinition(definition); err != nil {
			t.Fatal(err)
		}
		want := map[string]apiextensionsv1.JSONSchemaProps{"flag": {Type: "boolean", Default: &apiextensionsv1.JSON{Raw: []byte("false")}}}
		got := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// Any change of an annotation asks for a reconcile.
func TestKeepOwnKeepsThatAnnotationsChanged(t *testing.T) {
	seen := map[string]bool{}
	for _, annotations := range []map[string]string{{}, {"again": "1"}, {"again": "2"}, {"again": "2", "b": ""}, {v2beta2.AnnotationDefault: "x", "again": "2"}} {
		oc := &v2beta2.OperatorCollection{ObjectMeta: foreign(annotations)}
		if _, err := KeepOwn(oc); err != nil {
			t.Fatal(err)
		}
		once := maps.Clone(oc.Annotations)
		if _, err := KeepOwn(oc); err != nil || !maps.Equal(once, oc.Annotations) {
			t.Errorf("the second time it is %v, %v", oc.Annotations, err)
		}
		content, err := json.Marshal(oc.Annotations)
		if err != nil {
			t.Fatal(err)
		}
		if len(content) > 200 || seen[string(content)] || oc.Annotations[v2beta2.AnnotationDefault] != annotations[v2beta2.AnnotationDefault] {
			t.Errorf("%v: got %s", len(annotations), content)
		}
		seen[string(content)] = true
	}
	none := &v2beta2.OperatorCollection{}
	if _, err := KeepOwn(none); err != nil || none.Annotations != nil {
		t.Errorf("got %v, %v", none.Annotations, err)
	}
}
