package endpoint

import (
	"fmt"
	"slices"
	"time"
)

const (
	// offerTime is how long a free slot is reserved for an operator whose turn it is.
	offerTime = 10 * time.Second
	// forgetTime is how long an operator that does not take its slot remains in the queue.
	forgetTime = time.Hour
)

// queue decides whether a run may have a slot among those that use the system. If it may not, and other operators use the system
// or wait for it too, its operator gets in line. It reports whether the state has changed.
//
// The operators take turns: one that has got a slot begins again at the end of the queue.
func (s *Systems) queue(e *Settings, r *Request) (wait *Wait, changed bool) {
	system := s.of(e.Address)
	limit := lowest(e.MaxRuns, system.Limit)
	if limit == 0 || slices.ContainsFunc(system.Running, r.isOwn) {
		return nil, false
	}
	if slices.ContainsFunc(system.Running, r.isStale) || slices.ContainsFunc(system.Queue, r.isForgotten) {
		changed = true
		own := s.edit(e.Address)
		own.Running = slices.DeleteFunc(own.Running, r.isStale)
		own.Queue = slices.DeleteFunc(own.Queue, r.isForgotten)
		system = *own
	}
	free := min(limit-len(system.Running), maxHolders-s.holders())
	if max(0, r.Ahead) < free-r.reserved(system.Queue) {
		return nil, changed
	}
	line := r.lineUp(&system, free)
	if !slices.Equal(line, system.Queue) {
		changed = true
		s.edit(e.Address).Queue = line
	}
	wait = &Wait{
		Reason: ReasonBusy, Message: busy(e, limit, maxHolders-s.holders() < limit-len(system.Running)), Brief: true,
		// All runs of a pod together ask about four times per second. The first one asks before its reservation ends.
		After: after(r, 1+min(r.Now.Sub(r.Since).Seconds()/20, 5), 1.5, 2*time.Minute, time.Time{}),
	}
	return wait, changed
}

// reserved returns how many slots are reserved for the operators before the request's.
func (r *Request) reserved(queue []Waiter) int {
	n := 0
	for _, w := range queue {
		if r.isQueued(w) {
			break
		}
		if !r.isLate(w) {
			n++
		}
	}
	return n
}

// lowest returns the lower one of two limits, of which 0 is none.
func lowest(a, b int) int {
	if a <= 0 || (b > 0 && b < a) {
		return max(0, b)
	}
	return a
}

// busy returns the message of ReasonBusy. isFull is true if the limit is that of all systems together.
func busy(e *Settings, limit int, isFull bool) string {
	if isFull {
		return fmt.Sprintf("the run waits for its turn on %s: at most %d runs may use the systems of the security domain at the same time",
			e.Address, maxHolders)
	}
	source := "ZosEndpoint " + e.Name
	if limit != e.MaxRuns {
		source = "another ZosEndpoint with this host and port"
	}
	return fmt.Sprintf("the run waits for its turn on %s: spec.maxConcurrentRuns of %s is %d", e.Address, source, limit)
}

// lineUp returns the queue with the request's operator in it, if there are others, and with the free slots reserved for the
// first operators. One that did not take its slot in time keeps its turn, but nothing is reserved for it until it asks again.
func (r *Request) lineUp(system *System, free int) []Waiter {
	line := slices.Clone(system.Queue)
	others := slices.ContainsFunc(system.Running, func(h Holder) bool { return h.Operator != r.Operator }) ||
		slices.ContainsFunc(system.Queue, func(w Waiter) bool { return w.Operator != r.Operator })
	if others && len(line) < maxQueue && !slices.ContainsFunc(line, r.isQueued) {
		line = append(line, Waiter{Operator: r.Operator, Since: r.Now})
	}
	for i := range line {
		switch {
		case r.isLate(line[i]) && (free > 0 || !r.isQueued(line[i])):
		case free <= 0:
			line[i].Offered = time.Time{}
		default:
			free--
			if line[i].Offered.IsZero() {
				line[i].Offered = r.Now
			}
		}
	}
	return line
}

// takeSlot adds the run to those that use the system, instead of an earlier run of the same resource, and takes its operator out
// of the queue.
func (s *Systems) takeSlot(e *Settings, r *Request) bool {
	system := s.of(e.Address)
	if lowest(e.MaxRuns, system.Limit) == 0 || slices.ContainsFunc(system.Running, r.isRun) {
		return false
	}
	own := s.edit(e.Address)
	own.Running = append(slices.DeleteFunc(own.Running, r.isOwn), r.holder())
	own.Queue = slices.DeleteFunc(own.Queue, r.isQueued)
	return true
}

// leave gives the slot of a run back.
func (s *Systems) leave(e *Settings, r *Request) bool {
	if !slices.ContainsFunc(s.of(e.Address).Running, r.isRun) {
		return false
	}
	own := s.edit(e.Address)
	own.Running = slices.DeleteFunc(own.Running, r.isRun)
	if own.isZero() {
		delete(*s, e.Address)
	}
	return true
}

// holders returns the number of runs that count against limits.
func (s Systems) holders() int {
	n := 0
	for _, system := range s {
		n += len(system.Running)
	}
	return n
}

func (r *Request) isQueued(w Waiter) bool { return w.Operator == r.Operator }

// isLate reports whether an operator did not take the slot that was reserved for it.
func (r *Request) isLate(w Waiter) bool {
	return !w.Offered.IsZero() && r.Now.Sub(w.Offered) > offerTime
}

// isForgotten reports whether another operator has not taken its slot for so long that it loses its turn, or the time of its
// reservation is one that cannot be.
func (r *Request) isForgotten(w Waiter) bool {
	return !r.isQueued(w) && !w.Offered.IsZero() && (r.Now.Sub(w.Offered) > forgetTime || r.isFuture(w.Offered))
}
