package instances

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
