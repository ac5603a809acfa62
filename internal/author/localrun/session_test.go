package localrun

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestASessionKnowsWhatPlaybooksHaveLeft(t *testing.T) {
	kinds := usualKinds()
	a := &api{kinds: kinds, objects: map[string]*unstructured.Unstructured{}}
	resource := unstructuredOf("v1", "File", "team", "one")
	resource.SetUID("1")
	s := &Session{run: &run{api: a, resource: Object{Unstructured: resource}}, created: map[string]bool{}}
	config, _ := findKind(kinds, unstructuredOf("v1", "ConfigMap", "", "").GroupVersionKind())
	var writes []Write
	for _, name := range []string{"kept", "owned", "gone", "deleted"} {
		o := unstructuredOf("v1", "ConfigMap", "team", name)
		o.SetUID("2")
		if name == "owned" {
			o.SetOwnerReferences([]metav1.OwnerReference{{Name: "one"}})
		}
		writes = append(writes, Write{Verb: "created", Object: o})
		if name != "gone" { // Such as by another program.
			a.put(config, o)
		}
	}
	deleted := writes[3].Object
	s.remember(append(writes, Write{Verb: "changed", Object: unstructuredOf("v1", "Secret", "team", "before")}, Write{Verb: "created", Object: resource}))
	a.remove(config.path("team", deleted.GetName()))
	s.remember([]Write{{Verb: "deleted", Object: deleted}})
	if diff := cmp.Diff([]string{"ConfigMap kept"}, s.Left()); diff != "" {
		t.Error(diff)
	}
}
