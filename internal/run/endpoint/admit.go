package endpoint

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Admission is the result of Admit.
type Admission struct {
	// Wait is nil if the run may start.
	Wait *Wait
	// Canary is true if the run may start although the system is in an outage: its failure to connect is no news.
	Canary bool
	// Changed is true if the state differs from before. It must be written before the run starts; if that fails because of a
	// conflict, Admit is called again with the newer state.
	Changed bool
}

// Admit decides whether a run may use an endpoint now. It changes the state: a run that may start gets its slot, its turn with
// the credential, and in an outage the attempt. A run that must wait may get a slot in the queue. A run that has got a slot
// already keeps it.
func (s *State) Admit(e Settings, r Request) Admission {
	r = r.normalized()
	for _, check := range []func(*Settings, *Request) *Wait{held, outsideWindow, s.Logons.credentialRefused, s.Logons.credentialUntested} {
		if wait := check(&e, &r); wait != nil {
			return Admission{Wait: wait}
		}
	}
	changed := s.Systems.noticeOutage(&e, &r)
	for _, check := range []func(*Settings, *Request) *Wait{s.Systems.unreachable, s.Systems.settling} {
		if wait := check(&e, &r); wait != nil {
			return Admission{Wait: wait, Changed: s.bound(changed)}
		}
	}
	wait, queueChanged := s.Systems.queue(&e, &r)
	changed = changed || queueChanged
	if wait != nil {
		return Admission{Wait: wait, Changed: s.bound(changed)}
	}
	canary := s.Systems.startCanary(&e, &r)
	trying := s.Logons.startTrying(&e, &r)
	placed := s.Systems.takeSlot(&e, &r)
	return Admission{Canary: canary, Changed: s.bound(changed || canary || trying || placed)}
}

func held(e *Settings, r *Request) *Wait {
	if e.Hold == "" {
		return nil
	}
	return &Wait{
		Reason:  ReasonHeld,
		Message: printable.Line(fmt.Sprintf("ZosEndpoint %s is on hold: %s", e.Name, e.Hold), maxMessage),
		After:   after(r, 15, 3, 5*time.Minute, time.Time{}),
	}
}

func outsideWindow(e *Settings, r *Request) *Wait {
	if r.RunNow || isOpen(e.Windows, r.Now) || (!r.isFuture(e.RunNow) && !r.Since.After(e.RunNow)) {
		return nil
	}
	wait := &Wait{
		Reason:  ReasonOutsideWindow,
		Message: fmt.Sprintf("no run window of ZosEndpoint %s opens within five years: correct spec.runWindows", e.Name),
		Until:   nextOpening(e.Windows, r.Now),
	}
	if !wait.Until.IsZero() {
		wait.Message = fmt.Sprintf("no run window of ZosEndpoint %s is open before %s", e.Name, wait.Until.Format(time.RFC3339))
	}
	wait.After = after(r, 15, 3, 5*time.Minute, wait.Until)
	return wait
}

// Observe records what a run learned. message is one line without secrets. A refusal or an outage that began after the run was
// admitted remains, and one that ended after the run learned of it does not begin again. It reports whether the state has changed.
func (s *State) Observe(e Settings, r Request, c Connection, message string) bool {
	if c == ConnectionNone || e.isLocal() {
		return false
	}
	r = r.normalized()
	message = printable.Line(message, maxStored)
	changed := s.Logons.endTrying(&r)
	switch c {
	case ConnectionAccepted:
		changed = s.Logons.accept(&r) || changed
		changed = s.Systems.reached(&e, &r) || changed
	case ConnectionRefused:
		changed = s.Logons.refuse(&e, &r, message) || changed
		changed = s.Systems.reached(&e, &r) || changed
	case ConnectionUnreachable:
		changed = s.Systems.lost(&e, &r, message) || changed
	}
	return s.bound(changed)
}

// Release gives back what Admit gave to a run that has ended, or that did not start after all. If Request.Canary is true, the run
// has not tried to connect, and another one may at once. It reports whether the state has changed.
func (s *State) Release(e Settings, r Request) bool {
	r = r.normalized()
	changed := s.Logons.endTrying(&r)
	changed = s.Systems.endCanary(&e, &r) || changed
	return s.Systems.leave(&e, &r) || changed
}

// minQueued is how long an operator is in a queue before Evict may remove it: one that still asks would come back at once.
const minQueued = time.Minute

// Evict releases the holders, and forgets the queue entries of more than a minute, for which gone is true. It reports whether the
// state has changed. Queue entries have no pod: podName and pod are empty.
func (s *State) Evict(now time.Time, gone func(operator, podName string, pod types.UID) bool) bool {
	changed := false
	isGone := func(h Holder) bool { return gone(h.Operator, h.PodName, h.Pod) }
	for _, system := range s.Systems {
		before := len(system.Running) + len(system.Queue)
		system.Running = slices.DeleteFunc(system.Running, isGone)
		system.Queue = slices.DeleteFunc(system.Queue, func(w Waiter) bool {
			return now.Sub(w.Since) > minQueued && gone(w.Operator, "", "")
		})
		changed = changed || before != len(system.Running)+len(system.Queue)
	}
	for _, logon := range s.Logons {
		if logon.Trying != nil && isGone(*logon.Trying) {
			logon.Trying = nil
			changed = true
		}
	}
	return changed
}
