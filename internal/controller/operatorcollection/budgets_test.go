package operatorcollection

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
)

// What several objects share counts once, as when the budget is checked.
func TestUseOfABudget(t *testing.T) {
	u := newUse("stored_bytes", budget.Limits{PerNamespace: 50, Total: 100})
	u.add("a", budget.Items{"shared": 10})
	u.add("a", budget.Items{"shared": 10, "own": 5})
	u.add("b", budget.Items{"shared": 10})
	want := metrics.Budget{Name: "stored_bytes", Used: 15, Limit: 100, PerNamespace: map[string]int64{"a": 15, "b": 10}, NamespaceLimit: 50}
	if diff := cmp.Diff(want, u.sum()); diff != "" {
		t.Error(diff)
	}
}
