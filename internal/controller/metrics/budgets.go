package metrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
)

// Budget is how much is used of something that is limited. A limit of zero is none.
type Budget struct {
	// Name is that of the flag with its limit, in lower case with underscores and without max, such as stored_bytes.
	Name string
	// Used in all namespaces, and Limit of that.
	Used, Limit int64
	// PerNamespace is what is used in each namespace, and NamespaceLimit the limit of that.
	PerNamespace   map[string]int64
	NamespaceLimit int64
}

var (
	budgetUsed           = describe("budget_used", "What is used of a budget in all namespaces.", labelBudget)
	budgetLimit          = describe("budget_limit", "Limit of a budget in all namespaces.", labelBudget)
	namespaceBudgetUsed  = describe("namespace_budget_used", "What is used of a budget in one namespace.", labelBudget, labelNamespace)
	namespaceBudgetLimit = describe("namespace_budget_limit", "Limit of a budget in each namespace.", labelBudget)
)

func (s *State) collectBudgets(ctx context.Context, to chan<- prometheus.Metric) error {
	budgets, err := s.Budgets(ctx)
	if err != nil {
		return err
	}
	for _, b := range budgets {
		gauge(to, budgetUsed, float64(b.Used), b.Name)
		if b.Limit > 0 {
			gauge(to, budgetLimit, float64(b.Limit), b.Name)
		}
		for namespace, used := range b.PerNamespace {
			gauge(to, namespaceBudgetUsed, float64(used), b.Name, namespace)
		}
		if b.NamespaceLimit > 0 {
			gauge(to, namespaceBudgetLimit, float64(b.NamespaceLimit), b.Name)
		}
	}
	return nil
}
