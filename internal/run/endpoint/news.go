package endpoint

import (
	"maps"
	"slices"
)

// HasNews reports whether two states differ in what the manager reports: outages, logons, abandoned resources, whether
// somebody waits in a queue, and for which user IDs a run tries a credential. A state may be nil.
func HasNews(before, after *State) bool {
	if before == nil {
		before = &State{}
	}
	if after == nil {
		after = &State{}
	}
	return before.Systems.haveNews(after.Systems) || before.Logons.haveNews(after.Logons) ||
		!slices.EqualFunc(before.Abandoned, after.Abandoned, sameAbandoned)
}

func (s Systems) haveNews(after Systems) bool {
	return !maps.EqualFunc(s.outages(), after.outages(), sameOutage) || !maps.Equal(s.queues(), after.queues())
}

func (l Logons) haveNews(after Logons) bool {
	return !maps.Equal(l.tries(), after.tries()) || !maps.EqualFunc(l.results(), after.results(), sameResult)
}

// outages by address.
func (s Systems) outages() map[string]*Outage {
	outages := map[string]*Outage{}
	for address, system := range s {
		if system.Outage != nil {
			outages[address] = system.Outage
		}
	}
	return outages
}

// sameOutage does not compare NextTry.
func sameOutage(a, b *Outage) bool { return a.Since.Equal(b.Since) && a.Message == b.Message }

// queues has the addresses of the systems in whose queue somebody waits.
func (s Systems) queues() map[string]bool {
	queues := map[string]bool{}
	for address, system := range s {
		if len(system.Queue) > 0 {
			queues[address] = true
		}
	}
	return queues
}

// tries has the user IDs for which a run tries a credential.
func (l Logons) tries() map[string]bool {
	tries := map[string]bool{}
	for user, logon := range l {
		if logon.Trying != nil {
			tries[user] = true
		}
	}
	return tries
}

// results has the logons, by user ID, of which there is a result.
func (l Logons) results() map[string]*Logon {
	results := maps.Clone(l)
	maps.DeleteFunc(results, func(_ string, l *Logon) bool { return len(l.Accepted) == 0 && len(l.Refused) == 0 })
	return results
}

// sameResult does not compare Trying, and not which credentials were accepted.
func sameResult(a, b *Logon) bool {
	return a.IsAccepted() == b.IsAccepted() && maps.EqualFunc(a.Refused, b.Refused, func(a, b Refusal) bool {
		return a.At.Equal(b.At) && a.Endpoint == b.Endpoint && a.Message == b.Message
	})
}

func sameAbandoned(a, b Abandoned) bool {
	sameTime := a.At.Equal(b.At)
	a.At = b.At
	return sameTime && a == b
}
