package endpoint

import "time"

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
