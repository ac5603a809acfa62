package endpoint

import (
	"bytes"
	"time"
)

// HasNews reports whether two states differ in what the manager reports: outages, logons, abandoned resources, whether
// somebody waits in a queue, and for which user IDs a run tries a credential. A state may be nil.
func HasNews(before, after *State) bool { return !bytes.Equal(before.news(), after.news()) }

// news returns what the manager reports. Of outages it leaves out NextTry, and of logons which credentials were accepted.
func (s *State) news() []byte {
	if s == nil {
		return (&State{}).news()
	}
	news := &State{Systems: Systems{}, Logons: Logons{}, Abandoned: s.Abandoned}
	for address, system := range s.Systems {
		reported := &System{}
		if system.Outage != nil {
			reported.Outage = &Outage{Since: system.Outage.Since.UTC(), Message: system.Outage.Message}
		}
		if len(system.Queue) > 0 {
			reported.Queue = []Waiter{{}}
		}
		if !reported.isZero() {
			news.Systems[address] = reported
		}
	}
	for user, logon := range s.Logons {
		reported := &Logon{Refused: logon.Refused}
		if logon.IsAccepted() {
			reported.Accepted = map[string]time.Time{"": {}}
		}
		if logon.Trying != nil {
			reported.Trying = &Holder{}
		}
		if reported.Accepted != nil || len(reported.Refused) > 0 || reported.Trying != nil {
			news.Logons[user] = reported
		}
	}
	return news.Marshal()
}
