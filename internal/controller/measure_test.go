package controller

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
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

func TestFetchResult(t *testing.T) {
	for want, err := range map[string]error{
		metrics.ResultSucceeded:       nil,
		metrics.ResultNotModified:     fmt.Errorf("the server: %w", fetch.ErrNotModified),
		v2beta2.ReasonArchiveNotFound: status.Retry(v2beta2.ReasonArchiveNotFound, errors.New("404")),
		v2beta2.ReasonUnexpectedError: errors.New("anything"),
	} {
		if got := fetchResult(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}
