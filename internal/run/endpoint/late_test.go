package endpoint

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What a run learned may be recorded long after it, when others have learned something else.
func TestObserveLate(t *testing.T) {
	ago := func(minutes int) time.Time { return now.Add(time.Duration(-minutes) * time.Minute) }
	run := func(admitted, observed int) Request {
		return request("DataFile/a/hello", func(r *Request) { r.Admitted, r.Observed = ago(admitted), ago(observed) })
	}
	refused := func(minutes int) *State {
		return &State{Logons: map[string]*Logon{"ibmuser": {Refused: map[string]Refusal{"c1": {At: ago(minutes)}}}}}
	}
	outage := func(minutes int) *State {
		return &State{Systems: map[string]*System{zos1: {Outage: &Outage{Since: ago(minutes)}}}}
	}
	recovered := func(minutes int) *State {
		return &State{Systems: map[string]*System{zos1: {RecoveredAt: ago(minutes)}}}
	}
	acceptedAt := func(minutes int) *State {
		return &State{Logons: map[string]*Logon{"ibmuser": {Accepted: map[string]time.Time{"c1": ago(minutes)}}}}
	}
	for name, tc := range map[string]struct {
		state           *State
		r               Request
		c               Connection
		refused, outage bool
	}{
		"accepted, refused before":               {refused(50), run(40, 0), ConnectionAccepted, false, false},
		"accepted, refused since":                {refused(30), run(40, 0), ConnectionAccepted, true, false},
		"accepted, refused by a clock ahead":     {refused(-1), run(40, 0), ConnectionAccepted, false, false},
		"accepted, unreachable before":           {outage(50), run(40, 0), ConnectionAccepted, false, false},
		"accepted, unreachable since":            {outage(30), run(40, 0), ConnectionAccepted, false, true},
		"refused, unreachable since":             {outage(30), run(40, 0), ConnectionRefused, true, true},
		"unreachable, recovered before":          {recovered(30), run(40, 20), ConnectionUnreachable, false, true},
		"unreachable, recovered since":           {recovered(10), run(40, 20), ConnectionUnreachable, false, false},
		"unreachable, recovered in the future":   {recovered(-2), run(40, 20), ConnectionUnreachable, false, true},
		"unreachable at the end of the run":      {recovered(30), run(40, 0), ConnectionUnreachable, false, true},
		"refused, accepted before":               {acceptedAt(30), run(40, 20), ConnectionRefused, true, false},
		"refused, accepted since":                {acceptedAt(10), run(40, 20), ConnectionRefused, false, false},
		"unreachable, learned in the future":     {&State{}, run(40, -5), ConnectionUnreachable, false, true},
		"unreachable, admitted by another clock": {&State{}, run(-5, 0), ConnectionUnreachable, false, true},
	} {
		tc.state.Observe(settings(), tc.r, tc.c, "message")
		logon, since := tc.state.Logons["ibmuser"], tc.state.Systems.of(zos1).Outage
		if got := logon != nil && len(logon.Refused) > 0; got != tc.refused || got && logon.IsAccepted() {
			t.Errorf("%s: refused %v: %+v", name, got, logon)
		}
		if (since != nil) != tc.outage || since != nil && since.Since.After(now) {
			t.Errorf("%s: outage %+v", name, since)
		}
	}
}

// The manager's clock may be ahead: the outage that made the run a canary then begins after its admission.
func TestACanaryEndsTheOutageItBegan(t *testing.T) {
	s, e := &State{}, settings(unreachableSince(now.Add(30*time.Second)))
	canary := request("DataFile/a/hello")
	s.Admit(e, canary)
	canary.Admitted, canary.Now = now, now.Add(time.Minute)
	s.Observe(e, canary, ConnectionAccepted, "")
	if outage := s.Systems.of(zos1).Outage; outage != nil {
		t.Errorf("%+v", outage)
	}
}

// A run that does not start after all, or ends before it connects, leaves its attempt to another one.
func TestReleaseOfACanary(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*State, *Request)
		nextTry time.Time
	}{
		"it did not connect":    {func(*State, *Request) {}, now.Add(time.Minute)},
		"it tried":              {func(_ *State, r *Request) { r.Canary = false }, now.Add(tryInterval)},
		"another one tries now": {func(s *State, _ *Request) { s.Systems[zos1].Outage.NextTry = now.Add(9 * time.Minute) }, now.Add(9 * time.Minute)},
	} {
		s := &State{Systems: map[string]*System{zos1: {Outage: &Outage{Since: now.Add(-time.Hour), NextTry: now}}}}
		r := request("DataFile/a/hello", credential(""))
		if got := s.Admit(settings(), r); !got.Canary {
			t.Fatalf("%s: %+v", name, got)
		}
		r.Canary, r.Admitted, r.Now = true, now, now.Add(time.Minute)
		tc.change(s, &r)
		before := clone(t, s)
		changed := s.Release(settings(), r)
		if outage := s.Systems[zos1].Outage; !outage.NextTry.Equal(tc.nextTry) || changed == cmp.Equal(before, s) {
			t.Errorf("%s: %+v, changed %v", name, outage, changed)
		}
	}
	if (&State{}).Release(settings(), request("DataFile/a/hello", func(r *Request) { r.Canary = true })) {
		t.Error("the outage is over, and the state has changed")
	}
}
