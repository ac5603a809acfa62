package endpoint

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Limits of a State. Together they keep StateFile below maxState, so that it fits into a Secret.
const (
	maxState = 900 * 1024
	// maxHolders is the number of runs that count against limits, of all systems together. No other run starts.
	maxHolders = 400
	// maxQueue is the number of operators that wait for one system in order. Others wait without a place in the queue.
	maxQueue = 32
	// maxSystems and maxUsers are the numbers of systems and user IDs that are remembered. Systems with runs are not forgotten.
	maxSystems = 64
	maxUsers   = 64
	// maxRefused and maxAccepted are the numbers of refused and of accepted credentials of a user ID.
	maxRefused  = 8
	maxAccepted = 8
	// maxRetries is the number of ZosEndpoints whose AnnotationRetry is remembered.
	maxRetries   = 256
	maxAbandoned = 20
	// maxStored, maxUser and maxMessage are the longest texts of hosts, user IDs, and messages of a Wait, in bytes.
	maxStored  = 256
	maxUser    = 64
	maxMessage = 1024
)

// bound forgets what was not used for the longest time if the state has become too large, and returns changed.
func (s *State) bound(changed bool) bool {
	if !changed {
		return false
	}
	forgetOldest(s.Logons, maxUsers, func(a, b *Logon) int { return a.lastUsed().Compare(b.lastUsed()) }, s.Logons.forget)
	forgetOldest(s.Systems, maxSystems, compareUse, s.Systems.forget)
	if len(s.Marshal()) <= maxState {
		return true
	}
	for _, logon := range s.Logons {
		for credential, refusal := range logon.Refused {
			refusal.Message = ""
			logon.Refused[credential] = refusal
		}
	}
	for _, system := range s.Systems {
		system.Queue = nil
	}
	return true
}

// forgetOldest calls forget for the lowest items beyond limit.
func forgetOldest[T any](items map[string]T, limit int, compare func(a, b T) int, forget func(key string)) {
	if len(items) <= limit {
		return
	}
	keys := slices.SortedFunc(maps.Keys(items), func(a, b string) int {
		return cmp.Or(compare(items[a], items[b]), strings.Compare(a, b))
	})
	for _, key := range keys[:len(keys)-limit] {
		forget(key)
	}
}

func (l Logons) forget(user string) { delete(l, user) }

// compareUse orders systems by how much is lost if they are forgotten.
func compareUse(a, b *System) int {
	for _, order := range []int{
		cmp.Compare(len(a.Running), len(b.Running)), cmp.Compare(len(a.Queue), len(b.Queue)), compareOutage(a.Outage, b.Outage),
		a.RecoveredAt.Compare(b.RecoveredAt),
	} {
		if order != 0 {
			return order
		}
	}
	return a.ReachedAt.Compare(b.ReachedAt)
}

func compareOutage(a, b *Outage) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.NextTry.Compare(b.NextTry)
}

// forget keeps runs and limits.
func (s Systems) forget(address string) {
	kept := &System{Limit: s[address].Limit, Running: s[address].Running}
	if kept.isZero() {
		delete(s, address)
		return
	}
	s[address] = kept
}
