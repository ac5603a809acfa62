package localrun

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
)

func TestASessionKnowsWhatPlaybooksHaveLeft(t *testing.T) {
	kinds := kubeapi.UsualKinds()
	a, err := kubeapi.Start(kinds)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	resource := unstructuredOf("v1", "File", "team", "one")
	resource.SetUID("1")
	s := &Session{run: &run{api: a, resource: Object{Unstructured: resource}}, created: map[string]bool{}}
	config, _ := kubeapi.FindKind(kinds, unstructuredOf("v1", "ConfigMap", "", "").GroupVersionKind())
	var writes []Write
	for _, name := range []string{"kept", "owned", "gone", "deleted"} {
		o := unstructuredOf("v1", "ConfigMap", "team", name)
		o.SetUID("2")
		if name == "owned" {
			o.SetOwnerReferences([]metav1.OwnerReference{{Name: "one"}})
		}
		writes = append(writes, Write{Verb: "created", Object: o})
		if name != "gone" { // Such as by another program.
			a.Put(config, o)
		}
	}
	deleted := writes[3].Object
	s.remember(append(writes, Write{Verb: "changed", Object: unstructuredOf("v1", "Secret", "team", "before")}, Write{Verb: "created", Object: resource}))
	a.Remove(config.Path("team", deleted.GetName()))
	s.remember([]Write{{Verb: "deleted", Object: deleted}})
	if diff := cmp.Diff([]string{"ConfigMap kept"}, s.Left()); diff != "" {
		t.Error(diff)
	}
}
