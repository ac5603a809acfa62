package kubeapi

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestAListHasTheSelectedObjects(t *testing.T) {
	config, _ := FindKind(UsualKinds(), unstructuredOf("v1", "ConfigMap", "team", "x").GroupVersionKind())
	a := &Server{objects: map[string]*unstructured.Unstructured{}}
	for _, name := range []string{"one", "two"} {
		o := unstructuredOf("v1", "ConfigMap", "team", name)
		o.SetLabels(map[string]string{"name": name})
		a.Put(config, o)
	}
	_, document := a.list(target{kind: config, namespace: "team", query: url.Values{"labelSelector": {"name in (two)"}}})
	items := document.(map[string]any)["items"].([]any)
	if len(items) != 1 || items[0].(*unstructured.Unstructured).GetName() != "two" {
		t.Errorf("got %v", items)
	}
}

func TestStringDataBecomesData(t *testing.T) {
	secret := unstructuredOf("v1", "Secret", "team", "one")
	secret.Object["data"] = map[string]any{"a": "b2xk", "c": "ZA=="}
	secret.Object["stringData"] = map[string]any{"a": "b"}
	if err := convertStringData(secret); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"a": "Yg==", "c": "ZA=="}, secret.Object["data"]); diff != "" || secret.Object["stringData"] != nil {
		t.Errorf("%v: %s", secret.Object, diff)
	}
}

func unstructuredOf(version, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}
