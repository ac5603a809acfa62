package controller

import "testing"

func TestShares(t *testing.T) {
	s := &shares{total: 3, each: 2}
	for i, step := range []struct {
		namespace string
		want      bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		if got := s.take(step.namespace); got != step.want {
			t.Fatalf("step %d: take(%q) is %t", i, step.namespace, got)
		}
	}
	s.give("a")
	if !s.take("b") {
		t.Error("what one namespace gave back is not there for another")
	}
	s.give("a")
	s.give("b")
	s.give("b")
	if s.sum != 0 || len(s.taken) != 0 {
		t.Errorf("all was given back, and %d and %v are left", s.sum, s.taken)
	}
}
