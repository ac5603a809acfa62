package controller

import "sync"

// shares bounds what waits for servers that others chose: how much of it runs at once, and how much of that for one
// namespace, so that servers which do not answer hold up those who named them, and nobody else.
type shares struct {
	// total is the bound for all, and each the one for a namespace.
	total, each int

	mu sync.Mutex
	// taken are the shares of each namespace that has any.
	taken map[string]int
	sum   int
}

// take takes a share for a namespace and says whether there was one. The caller gives it back.
func (s *shares) take(namespace string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sum == s.total || s.taken[namespace] == s.each {
		return false
	}
	if s.taken == nil {
		s.taken = map[string]int{}
	}
	s.sum++
	s.taken[namespace]++
	return true
}

func (s *shares) give(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum--
	if s.taken[namespace]--; s.taken[namespace] == 0 {
		delete(s.taken, namespace)
	}
}

// places are for reconciliations that work. One that waits for a server leaves its place to another.
type places chan struct{}

func (p places) enter() { p <- struct{}{} }
func (p places) leave() { <-p }
