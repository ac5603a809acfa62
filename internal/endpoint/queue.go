package endpoint

import (
	"fmt"
	"slices"
	"time"
)

// offerTime is how long a free place is reserved for an operator whose turn it is.
const offerTime = 10 * time.Second

// queue decides whether a run may have a place among those that use the system. If it may not, and other operators use the system
// or wait for it too, its operator gets in line. It reports whether the state has changed.
//
// The operators take turns: one that has got a place begins again at the end of the queue.
func (s *State) queue(e *Settings, r *Request) (wait *Wait, changed bool) {
	system := s.system(e.Address)
	limit := lowest(e.MaxRuns, system.Limit)
	if limit == 0 || slices.ContainsFunc(system.Running, r.isOwn) {
		return nil, false
	}
	if slices.ContainsFunc(system.Running, r.isStale) || slices.ContainsFunc(system.Queue, r.isLate) {
		changed = true
		own := s.edit(e.Address)
		own.Running = slices.DeleteFunc(own.Running, r.isStale)
		own.Queue = slices.DeleteFunc(own.Queue, r.isLate)
		system = *own
	}
	free := min(limit-len(system.Running), maxHolders-s.holders())
	reserved := slices.IndexFunc(system.Queue, r.isQueued)
	if reserved < 0 {
		reserved = len(system.Queue)
	}
	if max(0, r.Ahead) < free-reserved {
		return nil, changed
	}
	line := r.lineUp(&system, free)
	if !slices.Equal(line, system.Queue) {
		changed = true
		s.edit(e.Address).Queue = line
	}
	return busy(e, r, limit), changed
}

// lowest returns the lower one of two limits, of which 0 is none.
func lowest(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return max(0, b)
	}
	return a
}

func busy(e *Settings, r *Request, limit int) *Wait {
	source := "ZosEndpoint " + e.Name
	if limit != e.MaxRuns {
		source = "another ZosEndpoint with this host and port"
	}
	wait := &Wait{
		Reason:  ReasonBusy,
		Message: fmt.Sprintf("the run waits for its turn on %s: spec.maxConcurrentRuns of %s is %d", e.Address, source, limit),
		After:   time.Second,
		Brief:   true,
	}
	if r.Ahead >= limit {
		wait.After = after(r, 0, 2/float64(limit), time.Minute, time.Time{})
	}
	return wait
}

// lineUp returns the queue with the request's operator in it, if there are others, and with the free places reserved for the
// first operators.
func (r *Request) lineUp(system *System, free int) []Waiter {
	line := slices.Clone(system.Queue)
	others := slices.ContainsFunc(system.Running, func(h Holder) bool { return h.Operator != r.Operator }) ||
		slices.ContainsFunc(system.Queue, func(w Waiter) bool { return w.Operator != r.Operator })
	if others && len(line) < maxQueue && !slices.ContainsFunc(line, r.isQueued) {
		line = append(line, Waiter{Operator: r.Operator, Since: r.Now})
	}
	for i := range line {
		switch {
		case i >= free:
			line[i].Offered = time.Time{}
		case line[i].Offered.IsZero():
			line[i].Offered = r.Now
		}
	}
	return line
}

// takePlace adds the run to those that use the system, instead of an earlier run of the same resource, and takes its operator out
// of the queue.
func (s *State) takePlace(e *Settings, r *Request) bool {
	system := s.system(e.Address)
	if lowest(e.MaxRuns, system.Limit) == 0 || slices.ContainsFunc(system.Running, r.isRun) {
		return false
	}
	own := s.edit(e.Address)
	own.Running = append(slices.DeleteFunc(own.Running, r.isOwn), r.holder())
	own.Queue = slices.DeleteFunc(own.Queue, r.isQueued)
	return true
}

// leave gives the place of a run back.
func (s *State) leave(e *Settings, r *Request) bool {
	if !slices.ContainsFunc(s.system(e.Address).Running, r.isRun) {
		return false
	}
	own := s.edit(e.Address)
	own.Running = slices.DeleteFunc(own.Running, r.isRun)
	if own.isZero() {
		delete(s.Systems, e.Address)
	}
	return true
}

// holders returns the number of runs that count against limits.
func (s *State) holders() int {
	n := 0
	for _, system := range s.Systems {
		n += len(system.Running)
	}
	return n
}

func (r *Request) holder() Holder {
	return Holder{Operator: r.Operator, PodName: r.PodName, Pod: r.Pod, Resource: r.Resource, Run: r.Run, Since: r.Now}
}

// isOwn reports whether a holder is the request's resource. Its earlier runs have ended.
func (r *Request) isOwn(h Holder) bool {
	return h.Operator == r.Operator && h.Pod == r.Pod && h.Resource == r.Resource
}

// isRun reports whether a holder is the request's run.
func (r *Request) isRun(h Holder) bool { return r.isOwn(h) && h.Run == r.Run }

// isStale reports whether a run has ended without giving back what it had.
func (r *Request) isStale(h Holder) bool {
	if h.Operator != r.Operator {
		return false
	}
	return h.Pod != r.Pod || (h.Resource != r.Resource && r.Ended != nil && r.Ended(h.Resource, h.Run))
}

func (r *Request) isQueued(w Waiter) bool { return w.Operator == r.Operator }

// isLate reports whether another operator did not take the place that was reserved for it.
func (r *Request) isLate(w Waiter) bool {
	return w.Operator != r.Operator && !w.Offered.IsZero() && r.Now.Sub(w.Offered) > offerTime
}
