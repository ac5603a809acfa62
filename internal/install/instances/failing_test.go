package instances

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestDescribeRuns(t *testing.T) {
	server := apiserver.Shared(t)
	namespace, other := server.Namespace(t), server.Namespace(t)
	group := schema.GroupVersion{Group: "suboperator.zoscb.ibm.com", Version: "v1"}
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "judgedthings." + group.Group}}
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group.Group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "judgedthings", Singular: "judgedthing", Kind: "JudgedThing", ListKind: "JudgedThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: group.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
		}},
	}
	apiserver.Must(t, server.CreateCRDs(t.Context(), definition))
	create := func(namespace, name, status string) {
		object := &unstructured.Unstructured{}
		apiserver.Must(t, yaml.Unmarshal([]byte("{status: "+status+"}"), &object.Object))
		object.SetGroupVersionKind(group.WithKind("JudgedThing"))
		object.SetNamespace(namespace)
		object.SetName(name)
		apiserver.Must(t, server.Client.Create(t.Context(), object))
	}
	finder := &Finder{Client: server.Client, Reader: server.Client}
	expect := func(failing, running string) {
		t.Helper()
		got, err := finder.DescribeRuns(t.Context(), group, []string{"JudgedThing"}, namespace, "2")
		apiserver.Must(t, err)
		want := Runs{failing, running}
		for _, text := range []*string{&got.Failing, &got.Running} {
			*text = strings.ReplaceAll(*text, namespace+"/", "")
		}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	const began = "{phase: Failed, history: [{id: r, event: create, started: '2026-11-22T09:00:00Z', version: '2', outcome: Failed}], " +
		"lastSuccess: {id: s, event: create, started: '2026-11-22T08:00:00Z', version: '1', outcome: Succeeded}}"
	create(namespace, "succeeded", "{phase: Succeeded}")
	create(namespace, "new", "null")
	create(other, "elsewhere", "{phase: Running}")
	expect("", "")
	create(namespace, "run-2", "{phase: Running}")
	create(namespace, "run-1", "{phase: Running}")
	create(namespace, "failed-1", began)
	expect("JudgedThing failed-1 began to fail with version 2", "JudgedThing run-1, JudgedThing run-2")
	create(namespace, "failed-2", strings.Replace(began, "phase: Failed", "phase: Running", 1))
	expect("2 custom resources began to fail with version 2: JudgedThing failed-1, JudgedThing failed-2", "JudgedThing run-1, JudgedThing run-2")

	if _, err := finder.DescribeRuns(t.Context(), group, []string{"Unknown"}, namespace, "2"); err == nil || !strings.Contains(err.Error(), "listing Unknown") {
		t.Errorf("got %v", err)
	}
}
