package endpoint

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// tryInterval is the time between two runs that try to connect during an outage.
const tryInterval = 5 * time.Minute

// noticeOutage begins an outage if the manager cannot connect, and no run has since. The first run tries at once.
func (s *Systems) noticeOutage(e *Settings, r *Request) bool {
	system := s.of(e.Address)
	if e.isLocal() || system.Outage != nil || !e.UnreachableSince.After(system.ReachedAt) {
		return false
	}
	if !e.UnreachableSince.After(system.RecoveredAt) && !r.isFuture(system.RecoveredAt) {
		return false
	}
	s.edit(e.Address).Outage = &Outage{
		Since:   instant(e.UnreachableSince),
		Message: cmp.Or(printable.Line(e.UnreachableMessage, maxStored), "the manager cannot connect"),
		NextTry: r.Now,
	}
	return true
}

func (s Systems) unreachable(e *Settings, r *Request) *Wait {
	outage := s.of(e.Address).Outage
	if e.isLocal() || outage == nil || !r.Now.Before(outage.NextTry) {
		return nil
	}
	message := fmt.Sprintf("ZosEndpoint %s (%s) cannot be reached since %s: %s",
		e.Name, e.Address, outage.Since.UTC().Format(time.RFC3339), outage.Message)
	return &Wait{
		Reason: ReasonUnreachable, Message: printable.Line(message, maxMessage), After: after(r, 5, 0.5, time.Minute, time.Time{}),
	}
}

func (s Systems) settling(e *Settings, r *Request) *Wait {
	system := s.of(e.Address)
	settled := system.RecoveredAt.Add(e.Settle)
	if e.Settle == 0 || e.isLocal() || system.Outage != nil || !r.Now.Before(settled) || r.isFuture(system.RecoveredAt) {
		return nil
	}
	return &Wait{
		Reason: ReasonSettling,
		Message: fmt.Sprintf("ZosEndpoint %s (%s) can be reached again; runs start at %s, after spec.settle",
			e.Name, e.Address, settled.UTC().Format(time.RFC3339)),
		Until: settled.UTC(),
		After: after(r, 5, 0.5, time.Minute, settled),
	}
}

// startCanary reports whether the run tries to connect during an outage, and makes the others wait.
func (s Systems) startCanary(e *Settings, r *Request) bool {
	outage := s.of(e.Address).Outage
	if e.isLocal() || outage == nil {
		return false
	}
	outage.NextTry = r.Now.Add(tryInterval)
	return true
}

// endCanary lets another run try to connect instead of one that has not.
func (s Systems) endCanary(e *Settings, r *Request) bool {
	outage := s.of(e.Address).Outage
	if !r.Canary || e.isLocal() || outage == nil || !outage.NextTry.Equal(r.Admitted.Add(tryInterval)) {
		return false
	}
	outage.NextTry = r.Now
	return true
}

// reached ends the outage of a system that a run has reached.
func (s *Systems) reached(e *Settings, r *Request) bool {
	system := s.of(e.Address)
	if system.Outage == nil && !e.UnreachableSince.After(system.ReachedAt) {
		return false
	}
	if system.Outage != nil && r.isDuring(system.Outage.Since) && system.Outage.Since.After(e.UnreachableSince) {
		return false
	}
	own := s.edit(e.Address)
	own.ReachedAt = r.Observed
	if e.UnreachableSince.After(r.Observed) {
		// The clocks differ.
		own.ReachedAt = instant(e.UnreachableSince).Add(time.Second)
	}
	if own.Outage != nil {
		own.Outage, own.RecoveredAt = nil, r.Now
	}
	return true
}

// lost begins an outage.
func (s *Systems) lost(e *Settings, r *Request, message string) bool {
	system := s.of(e.Address)
	if system.Outage != nil || (system.RecoveredAt.After(r.Observed) && !r.isFuture(system.RecoveredAt)) {
		return false
	}
	s.edit(e.Address).Outage = &Outage{Since: r.Observed, Message: message, NextTry: r.Now.Add(tryInterval)}
	return true
}

// Recover ends the outage of a system after a successful probe. It reports whether the state has changed.
func (s *State) Recover(address string, now time.Time) bool {
	system := s.Systems[address]
	if system == nil || system.Outage == nil {
		return false
	}
	system.Outage, system.RecoveredAt = nil, instant(now)
	return true
}

const (
	// flapTime is how soon after the end of an outage another one shows that its end was none.
	flapTime = tryInterval
	// calmTime is how long such an outage lasts unless a run reaches the system. One run may try before.
	calmTime = 2 * tryInterval
)

// IsFlapping reports whether the outage of a system must not end because the manager can connect: it did so shortly before, and
// runs could not. Then a run must reach the system, or ten minutes pass.
func (s *State) IsFlapping(address string, now time.Time) bool {
	system := s.Systems.of(address)
	return system.Outage != nil && system.Outage.Since.Sub(system.RecoveredAt) < flapTime && now.Sub(system.Outage.Since) < calmTime
}

// IsProbed reports whether status has the result of a probe.
func IsProbed(e *v2beta2.ZosEndpoint) bool {
	reachable := meta.FindStatusCondition(e.Status.Conditions, v2beta2.ConditionReachable)
	return reachable != nil && reachable.Reason != v2beta2.ReasonBudgetExceeded
}
