package controller

import "testing"

func TestNamespaceLimit(t *testing.T) {
	limit := newNamespaceLimit(3, 2)
	acquired := map[string][]func(){}
	for i, step := range []struct {
		namespace string
		want      bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		release := limit.tryAcquire(step.namespace)
		if (release != nil) != step.want {
			t.Fatalf("step %d: acquired for %q: %t", i, step.namespace, release != nil)
		}
		if release != nil {
			acquired[step.namespace] = append(acquired[step.namespace], release)
		}
	}
	acquired["a"][0]()
	second := limit.tryAcquire("b")
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
