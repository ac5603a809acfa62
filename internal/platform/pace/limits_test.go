package pace

import (
	"context"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/internal/platform/budget"
)

func TestNamespaceLimit(t *testing.T) {
	limit := NewNamespaceLimit(3, 2)
	acquired := map[string][]func(){}
	for i, step := range []struct {
		namespace string
		want      bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		release := limit.TryAcquire(step.namespace)
		if (release != nil) != step.want {
			t.Fatalf("step %d: acquired for %q: %t", i, step.namespace, release != nil)
		}
		if release != nil {
			acquired[step.namespace] = append(acquired[step.namespace], release)
		}
	}
	acquired["a"][0]()
	second := limit.TryAcquire("b")
	if second == nil {
		t.Fatal("what one namespace released is not there for another")
	}
	acquired["a"][1]()
	acquired["b"][0]()
	second()
	if !limit.total.TryAcquire(3) {
		t.Error("not all was released")
	}
}

func requestIn(namespace string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: "a"}}
}

func TestPaced(t *testing.T) {
	reconciled := map[string]int{}
	r := Paced(reconcile.Func(func(_ context.Context, request reconcile.Request) (reconcile.Result, error) {
		reconciled[request.Namespace]++
		return reconcile.Result{}, nil
	}))
	begin := time.Now()
	const attempts = 20 * reconcileBurst
	postponed := 0
	for range attempts {
		result, err := r.Reconcile(t.Context(), requestIn("loop"))
		if err != nil {
			t.Fatal(err)
		}
		if result.RequeueAfter > 0 {
			postponed++
		}
	}
	most := reconcileBurst + reconcilesPerSecond*(int(time.Since(begin).Seconds())+1)
	if n := reconciled["loop"]; n < reconcileBurst || n > most || n+postponed != attempts {
		t.Errorf("%d were reconciled, and %d postponed", n, postponed)
	}
	if _, err := r.Reconcile(t.Context(), requestIn("other")); err != nil || reconciled["other"] != 1 {
		t.Errorf("another namespace was reconciled %d times, %v", reconciled["other"], err)
	}
}

// What a limit has postponed begins as soon as another reconcile of the namespace ends, in order, and is not forgotten.
func TestPostponed(t *testing.T) {
	limit := NewNamespaceLimit(4, 1)
	var resumed []reconcile.Request
	limit.resume = func(request reconcile.Request) { resumed = append(resumed, request) }
	enter := func(n int, want bool) {
		t.Helper()
		if free, err := limit.Enter(t.Context(), request("a", n)); err != nil || free != want {
			t.Errorf("%d entered: %t, %v", n, free, err)
		}
	}
	enter(0, true)
	for _, n := range []int{1, 2, 3, 1} {
		enter(n, false)
	}
	limit.Leave("a")
	enter(3, true) // An event came first.
	enter(1, false)
	limit.Leave("a")
	enter(2, true)
	limit.Leave("a")
	if want := []reconcile.Request{request("a", 1), request("a", 2), request("a", 1)}; !slices.Equal(resumed, want) {
		t.Errorf("got %v, want %v", resumed, want)
	}
	if result := limit.Postpones(); result.RequeueAfter != 0 {
		t.Errorf("it is also repeated after %s", result.RequeueAfter)
	}
}

func TestPacedWithin(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	r := PacedWithin(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		begun <- struct{}{}
		<-end
		return reconcile.Result{}, nil
	}), budget.Limits{PerNamespace: 1, Total: 2})
	done := make(chan error)
	run := func(namespace string) {
		_, err := r.Reconcile(t.Context(), requestIn(namespace))
		done <- err
	}
	go run("busy")
	<-begun
	result, err := r.Reconcile(t.Context(), requestIn("busy"))
	if err != nil || result.RequeueAfter == 0 {
		t.Errorf("got %v, %v", result, err)
	}
	go run("other") // It does not wait for the busy one.
	<-begun
	close(end)
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
