package instances

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestRunning(t *testing.T) {
	instance := func(name string, conditions ...any) unstructured.Unstructured {
		u := unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "metadata": map[string]any{"namespace": "ns", "name": name}}}
		if conditions != nil {
			u.Object["status"] = map[string]any{"conditions": conditions}
		}
		return u
	}
	condition := func(conditionType, status, reason string) any {
		return map[string]any{"type": conditionType, "status": status, "reason": reason}
	}
	got := Running([]unstructured.Unstructured{
		instance("runs", condition("Failure", "False", ""), condition("Running", "True", "Running")),
		instance("awaits-next-run", condition("Running", "True", "Successful")),
		instance("ended", condition("Running", "False", "Running")),
		instance("failed", condition("Failure", "True", "Failed")),
		instance("new"),
		instance("nonsense", "text"),
	})
	if diff := cmp.Diff("Thing ns/runs", Describe(got)); diff != "" {
		t.Error(diff)
	}
}

func TestDescribe(t *testing.T) {
	var items []unstructured.Unstructured
	for i := range 8 {
		u := unstructured.Unstructured{}
		u.SetKind("Thing")
		u.SetNamespace("ns")
		u.SetName(fmt.Sprintf("n%d", 7-i))
		items = append(items, u)
	}
	if got, want := Describe(items[6:]), "Thing ns/n0, Thing ns/n1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Describe(items), "Thing ns/n0, Thing ns/n1, Thing ns/n2, Thing ns/n3, Thing ns/n4 and 3 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestStorageVersion(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Storage: true}},
	}}
	if got := StorageVersion(crd); got != "v2" {
		t.Errorf("got %s", got)
	}
}

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
