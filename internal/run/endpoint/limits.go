package endpoint

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxName is the longest text, in bytes, that identifies a run, a custom resource or an operator: kind/namespace/name has at
// most 381.
const maxName = 512

// ParseState reads the StateFile. Content that is not valid, or longer than 900 KiB, is an error.
func ParseState(content []byte) (*State, error) {
	if len(content) > maxState {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", StateFile, len(content), maxState)
	}
	s := &State{}
	if err := json.Unmarshal(content, s); err != nil {
		return nil, fmt.Errorf("%s: %w", StateFile, err)
	}
	for address, system := range s.Systems {
		if system == nil {
			return nil, fmt.Errorf("%s: system %q is null", StateFile, address)
		}
	}
	for user, logon := range s.Logons {
		if logon == nil {
			return nil, fmt.Errorf("%s: logon %q is null", StateFile, user)
		}
	}
	s.trim()
	return s, nil
}

// trim cuts what was read to the limits that writers keep. Code in the pod of an operator can write anything.
func (s *State) trim() {
	free := maxHolders
	for _, address := range slices.Sorted(maps.Keys(s.Systems)) {
		system := s.Systems[address]
		system.Running = system.Running[:min(len(system.Running), free)]
		free -= len(system.Running)
		for i := range system.Running {
			system.Running[i].trim()
		}
		if system.Outage != nil {
			system.Outage.Message = printable.Line(system.Outage.Message, maxStored)
		}
	}
	s.Logons.trim()
	s.Abandoned = s.Abandoned[max(0, len(s.Abandoned)-maxAbandoned):]
	for i := range s.Abandoned {
		a := &s.Abandoned[i]
		for _, text := range []*string{&a.Operator, &a.Group, &a.Kind, &a.Name, &a.Endpoint} {
			*text = printable.Line(*text, maxName)
		}
	}
}

// trim keeps a logon whose user ID is too long under a shorter one, unless there is one: a refusal must not get lost.
func (l Logons) trim() {
	for _, user := range slices.Sorted(maps.Keys(l)) {
		logon := l[user]
		if logon.Trying != nil {
			logon.Trying.trim()
		}
		for credential, refusal := range logon.Refused {
			refusal.Endpoint, refusal.Message = printable.Line(refusal.Endpoint, maxStored), printable.Line(refusal.Message, maxStored)
			logon.Refused[credential] = refusal
		}
		logon.User = printable.Line(logon.User, maxUser)
		// Some letters take more bytes in lower case.
		if short := printable.Line(user, 2*maxUser); short != user {
			delete(l, user)
			if l[short] == nil {
				l[short] = logon
			}
		}
	}
	forgetOldest(l, maxUsers, func(a, b *Logon) int { return a.lastUsed().Compare(b.lastUsed()) }, l.forget)
}

func (h *Holder) trim() {
	for _, text := range []*string{&h.Operator, &h.PodName, &h.Resource, &h.Run} {
		*text = printable.Line(*text, maxName)
	}
	h.Pod = types.UID(printable.Line(string(h.Pod), maxName))
}

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
	return cmp.Or(
		cmp.Compare(len(a.Running), len(b.Running)), cmp.Compare(len(a.Queue), len(b.Queue)), compareOutage(a.Outage, b.Outage),
		a.RecoveredAt.Compare(b.RecoveredAt), a.ReachedAt.Compare(b.ReachedAt),
	)
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
