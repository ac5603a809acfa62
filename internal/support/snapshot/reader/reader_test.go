package reader

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

func subscription(name, source, plan string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "metadata": map[string]any{"namespace": "zos", "name": name},
		"spec": map[string]any{"source": source}, "status": map[string]any{"installPlanRef": map[string]any{"name": plan}},
	}}
}

// The objects of other products are nobody's business.
func TestOnlyOurSubscriptionsAndTheirInstallPlans(t *testing.T) {
	c := &collecting{keeps: isOurs, snapshot: snapshot.New(time.Time{})}
	for _, object := range []*unstructured.Unstructured{
		subscription("files", snapshot.CatalogName, "install-1"), subscription("jobs", snapshot.CatalogName, "install-1"),
		subscription("new", snapshot.CatalogName, ""), subscription("database", "vendors", "install-2"),
	} {
		c.add(object)
	}
	if n := len(c.snapshot.Of(snapshot.Subscription)); n != 3 {
		t.Errorf("%d Subscriptions are kept", n)
	}
	want := []query{{resource: olm("v1alpha1", "installplans"), namespace: "zos", name: "install-1"}}
	if diff := cmp.Diff(want, c.installPlans(), cmp.AllowUnexported(query{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("InstallPlans to read (-want +got):\n%s", diff)
	}
}
