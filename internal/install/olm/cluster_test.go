package olm

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// The permissions for OLM are no part of the manager's usual ones, and name every kind that the manager works with.
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
