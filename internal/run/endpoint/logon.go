package endpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxTrying is how long others wait for the result of a run that tries a credential.
const maxTrying = 15 * time.Minute

// userKey returns the key of a user ID in State.Logons. z/OS does not distinguish case.
func userKey(user string) string { return strings.ToLower(user) }

// of returns what is known about the request's user ID, to read. It is nil if the run does not log on.
func (l Logons) of(e *Settings, r *Request) *Logon {
	if r.Credential == "" || e.isLocal() {
		return nil
	}
	if found := l[userKey(r.User)]; found != nil {
		return found
	}
	return &Logon{}
}

// edit returns what is known about the request's user ID, to change.
func (l *Logons) edit(r *Request) *Logon {
	if *l == nil {
		*l = map[string]*Logon{}
	}
	logon := (*l)[userKey(r.User)]
	if logon == nil {
		logon = &Logon{}
		(*l)[userKey(r.User)] = logon
	}
	if logon.User == "" {
		logon.User = r.User
	}
	return logon
}

// UserID returns the user ID of a key of Logons as its first Secret has it, or the key if that is not known.
func (l Logons) UserID(key string) string {
	if logon := l[key]; logon != nil && userKey(logon.User) == key {
		return logon.User
	}
	return key
}

func (l Logons) credentialRefused(e *Settings, r *Request) *Wait {
	logon := l.of(e, r)
	if logon == nil {
		return nil
	}
	refusal, refused := logon.Refused[r.Credential]
	if !refused {
		return nil
	}
	message := fmt.Sprintf("%s refused the credential of user %s at %s: %s; it is not tried again until the credential changes or "+
		"ZosEndpoint %s gets another value of annotation %s", refusal.Endpoint, r.User,
		refusal.At.UTC().Format(time.RFC3339), refusal.Message, e.Name, AnnotationRetry)
	return &Wait{
		Reason: ReasonCredentialRefused, Message: printable.Line(message, maxMessage), After: after(r, 30, 3, 5*time.Minute, time.Time{}),
	}
}

func (l Logons) credentialUntested(e *Settings, r *Request) *Wait {
	logon := l.of(e, r)
	if logon == nil || logon.hasAccepted(r.Credential) || logon.Trying == nil || !r.isTryingElsewhere(*logon.Trying) {
		return nil
	}
	return &Wait{
		Reason:  ReasonCredentialUntested,
		Message: fmt.Sprintf("another run tries the credential of user %s first", r.User),
		After:   after(r, 2, 0.5, 30*time.Second, time.Time{}),
		Brief:   true,
	}
}

// isTryingElsewhere reports whether a holder is another run that is not over yet.
func (r *Request) isTryingElsewhere(h Holder) bool {
	return !r.isOwn(h) && !r.isStale(h) && r.Now.Sub(h.Since) <= maxTrying && !r.isFuture(h.Since)
}

// startTrying makes others wait for the run's result, if the credential is unknown.
func (l *Logons) startTrying(e *Settings, r *Request) bool {
	logon := l.of(e, r)
	if logon == nil || logon.hasAccepted(r.Credential) || (logon.Trying != nil && r.isRun(*logon.Trying)) {
		return false
	}
	holder := r.holder()
	l.edit(r).Trying = &holder
	return true
}

// endTrying ends the wait of others for the run's result.
func (l Logons) endTrying(r *Request) bool {
	logon := l[userKey(r.User)]
	if logon == nil || logon.Trying == nil || !r.isRun(*logon.Trying) {
		return false
	}
	logon.Trying = nil
	if len(logon.Accepted) == 0 && len(logon.Refused) == 0 {
		delete(l, userKey(r.User))
	}
	return true
}

func (l *Logons) accept(r *Request) bool {
	if r.Credential == "" {
		return false
	}
	logon := l.edit(r)
	refusal, refused := logon.Refused[r.Credential]
	if refused && r.isDuring(refusal.At) {
		return false
	}
	delete(logon.Refused, r.Credential)
	if !refused && logon.hasAccepted(r.Credential) && logon.IsAccepted() {
		return false
	}
	if logon.Accepted == nil {
		logon.Accepted = map[string]time.Time{}
	}
	delete(logon.Accepted, r.Credential)
	for len(logon.Accepted) >= maxAccepted {
		delete(logon.Accepted, earliest(logon.Accepted, func(at time.Time) time.Time { return at }))
	}
	logon.Accepted[r.Credential] = r.Observed
	return true
}

func (l *Logon) hasAccepted(credential string) bool {
	_, accepted := l.Accepted[credential]
	return accepted
}

// LastRefusal returns the latest refusal, or nil if no credential is refused.
func (l *Logon) LastRefusal() *Refusal {
	var last *Refusal
	for _, credential := range slices.Sorted(maps.Keys(l.Refused)) {
		if refusal := l.Refused[credential]; last == nil || refusal.At.After(last.At) {
			last = &refusal
		}
	}
	return last
}

// IsAccepted reports whether a credential was accepted after the latest refusal.
func (l *Logon) IsAccepted() bool {
	refusal := l.LastRefusal()
	for _, at := range l.Accepted {
		if refusal == nil || !at.Before(refusal.At) {
			return true
		}
	}
	return false
}

// refuse keeps the first refusal of a credential.
func (l *Logons) refuse(e *Settings, r *Request, message string) bool {
	if r.Credential == "" {
		return false
	}
	logon := l.edit(r)
	if _, refused := logon.Refused[r.Credential]; refused || logon.Accepted[r.Credential].After(r.Observed) {
		return false
	}
	delete(logon.Accepted, r.Credential)
	if logon.Refused == nil {
		logon.Refused = map[string]Refusal{}
	}
	for len(logon.Refused) >= maxRefused {
		delete(logon.Refused, earliest(logon.Refused, func(refusal Refusal) time.Time { return refusal.At }))
	}
	logon.Refused[r.Credential] = Refusal{At: r.Observed, Endpoint: e.Name, Message: message}
	return true
}

// earliest returns the key of the item with the earliest time, or of several the first one in order.
func earliest[T any](items map[string]T, at func(T) time.Time) string {
	return slices.MinFunc(slices.Sorted(maps.Keys(items)), func(a, b string) int { return at(items[a]).Compare(at(items[b])) })
}

// AllowRetry forgets all refused credentials if the value of AnnotationRetry of an endpoint has changed since the last call. The
// first value of an endpoint, and the removal of the annotation, change nothing but the state. At most 256 endpoints are known. It
// reports whether the state has changed.
func (s *State) AllowRetry(endpoint, value string) bool {
	value = printable.Line(value, maxUser)
	before, known := s.Retries[endpoint]
	if (known && before == value) || (!known && len(s.Retries) >= maxRetries) {
		return false
	}
	if s.Retries == nil {
		s.Retries = map[string]string{}
	}
	s.Retries[endpoint] = value
	if known && value != "" {
		for user, logon := range s.Logons {
			logon.Refused = nil
			if len(logon.Accepted) == 0 && logon.Trying == nil {
				delete(s.Logons, user)
			}
		}
	}
	return true
}

// lastUsed returns when a logon last had a result that must not be forgotten, or zero.
func (l *Logon) lastUsed() time.Time {
	var last time.Time
	for _, refusal := range l.Refused {
		if refusal.At.After(last) {
			last = refusal.At
		}
	}
	if l.Trying != nil && l.Trying.Since.After(last) {
		last = l.Trying.Since
	}
	return last
}
