package pace

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func newQueue(t *testing.T) *queue[reconcile.Request] {
	t.Helper()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Millisecond)
	q := New(&Costs{}, func(r reconcile.Request) string { return r.Namespace })(t.Name(), limiter).(*queue[reconcile.Request])
	t.Cleanup(q.ShutDown)
	return q
}

func request(namespace string, n int) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(n)}}
}

// order returns the requests in the order in which the queue hands them out, each of which takes a time.
func order(q *queue[reconcile.Request], took time.Duration) []string {
	var order []string
	for q.Len() > 0 {
		next, _ := q.Get()
		order = append(order, next.String())
		q.costs.Add(next.Namespace, took)
		q.Done(next)
	}
	return order
}

func TestQueue(t *testing.T) {
	q := newQueue(t)
	for n := range 4 {
		q.Add(request("many", n))
	}
	q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(handler.LowPriority)}, request("looked-at-again", 0))
	q.Add(request("few", 0))
	want := []string{"many/0", "few/0", "many/1", "many/2", "many/3", "looked-at-again/0"}
	if got := order(q, 2*time.Second); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}

	q.AddRateLimited(request("few", 1))
	q.AddAfter(request("few", 2), time.Millisecond)
	for range 2 {
		next, priority, _ := q.GetWithPriority()
		if priority != 0 {
			t.Errorf("%s is handed out with priority %d, which would count its cost twice when it is added again", next, priority)
		}
		q.Done(next)
	}
}

func TestCosts(t *testing.T) {
	costs := &Costs{}
	costs.Add("a", time.Hour)
	if got := costs.priority("a", 0); got <= handler.LowPriority {
		t.Errorf("changed objects of a namespace that cost an hour have priority %d", got)
	}
	if got := costs.priority("b", 0); got != 0 {
		t.Errorf("a namespace that cost nothing has priority %d", got)
	}
	if got := (cost{10, time.Now().Add(-10 * time.Minute)}).now(time.Now()); got > 0.01 {
		t.Errorf("after ten minutes it still costs %f", got)
	}
	for n := range manyCosts {
		costs.of[fmt.Sprint(n)] = cost{1, time.Now().Add(-time.Hour)}
	}
	costs.Add("a", time.Second)
	if len(costs.of) != 1 {
		t.Errorf("%d namespaces are remembered", len(costs.of))
	}
}
