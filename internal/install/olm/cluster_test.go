package olm

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestNoOLM(t *testing.T) {
	var olm *Cluster
	olm.OnAvailable(func(context.Context) error {
		t.Error("found what is not there")
		return nil
	})
	if err := olm.SetupWithManager(nil); err != nil {
		t.Error(err)
	}
	if olm.Available() || olm.Err() == nil || olm.CatalogSource() != (types.NamespacedName{}) {
		t.Errorf("available %v, error %v, source %v", olm.Available(), olm.Err(), olm.CatalogSource())
	}
}

func TestOLMBeforeItIsFound(t *testing.T) {
	olm := &Cluster{CatalogNamespace: "olm"}
	if olm.Available() || olm.Err() == nil || olm.CatalogSource() != (types.NamespacedName{}) {
		t.Errorf("available %v, error %v, source %v", olm.Available(), olm.Err(), olm.CatalogSource())
	}
}

// The permissions for OLM are separate from the manager's default permissions, and include every kind that the manager uses.
func TestPermissionsForOLM(t *testing.T) {
	resources := func(file string) []string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		document, _, _ := strings.Cut(string(content), "\n---\n")
		role := &rbacv1.ClusterRole{}
		if err := yaml.UnmarshalStrict([]byte(strings.TrimPrefix(document, "---\n")), role); err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, rule := range role.Rules {
			if slices.Contains(rule.APIGroups, "operators.coreos.com") && slices.Contains(rule.Verbs, "get") {
				found = append(found, rule.Resources...)
			}
		}
		slices.Sort(found)
		return found
	}
	if usual := resources("../../../config/rbac/role.yaml"); len(usual) > 0 {
		t.Errorf("the manager always has permissions for %v", usual)
	}
	var names []string
	for _, gvk := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		names = append(names, plural.Resource)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, resources("../../../config/components/olm/role.yaml")); diff != "" {
		t.Error(diff)
	}
}

func TestKeepSubscription(t *testing.T) {
	whole := &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: "1", ResourceVersion: "2", Annotations: map[string]string{"big": "text"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSource: CatalogSourceName, Package: "p"},
	}
	for source, kept := range map[string]bool{CatalogSourceName: true, "community-operators": false} {
		subscription := whole.DeepCopy()
		subscription.Spec.CatalogSource = source
		object, err := KeepSubscription(subscription)
		if err != nil {
			t.Fatal(err)
		}
		is := object.(*operatorsv1alpha1.Subscription)
		if is.Name != "n" || is.Namespace != "ns" || is.UID != "1" || is.ResourceVersion != "2" || is.ManagedFields != nil {
			t.Errorf("source %s: got %+v", source, is.ObjectMeta)
		}
		if KeptWhole(is) != kept || (is.Annotations != nil) != kept {
			t.Errorf("source %s: got %+v", source, is)
		}
	}
}
