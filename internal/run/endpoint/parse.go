package endpoint

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxName is the longest text, in bytes, that identifies a run, a custom resource or an operator: kind/namespace/name has at
// most 381.
const maxName = 512

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
