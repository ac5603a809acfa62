package endpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const zos1 = "zos1:22"

func settings(changes ...func(*Settings)) Settings {
	e := Settings{Name: "zos1", Address: zos1}
	for _, change := range changes {
		change(&e)
	}
	return e
}

// request is that of run "r1" of a/op, whose resource is the given one.
func request(resource string, changes ...func(*Request)) Request {
	r := Request{
		Now: now, Operator: "a/op", PodName: "op-1", Pod: "p1", Resource: resource, Run: "r1", Since: now, User: "IBMUSER", Credential: "c1",
	}
	for _, change := range changes {
		change(&r)
	}
	return r
}

func holderOf(r Request) Holder {
	return Holder{Operator: r.Operator, PodName: r.PodName, Pod: r.Pod, Resource: r.Resource, Run: r.Run, Since: r.Now}
}

// Changes of settings and requests.
var (
	limit4 = func(e *Settings) { e.MaxRuns = 4 }
	local  = func(e *Settings) { e.Address = "local/zos1" }
)

func hold(reason string) func(*Settings)    { return func(e *Settings) { e.Hold = reason } }
func ahead(n int) func(*Request)            { return func(r *Request) { r.Ahead = n } }
func later(d time.Duration) func(*Request)  { return func(r *Request) { r.Now = now.Add(d) } }
func credential(name string) func(*Request) { return func(r *Request) { r.Credential = name } }
func unreachableSince(t time.Time) func(*Settings) {
	return func(e *Settings) { e.UnreachableSince, e.UnreachableMessage = t, "dial tcp: timeout" }
}

func accepted(credentials ...string) map[string]time.Time {
	m := map[string]time.Time{}
	for _, credential := range credentials {
		m[credential] = now
	}
	return m
}

// clone returns a copy, as the next reader of the Secret gets it.
func clone(t *testing.T, s *State) *State {
	t.Helper()
	c, err := ParseState(s.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The reasons are checked in the order of their declaration: each case removes one more obstacle.
func TestAdmitChecksInOrder(t *testing.T) {
	closed := windows(t, "", "0 22 * * *", "1h")
	e := settings(hold("IPL at noon\x1b[31m"), func(e *Settings) { e.Windows, e.MaxRuns, e.Settle = closed, 1, time.Hour })
	other := request("DataFile/a/other")
	trying := holderOf(other)
	s := &State{
		Systems: map[string]*System{zos1: {
			Running: []Holder{holderOf(other)}, Outage: &Outage{Since: now.Add(-time.Minute), Message: "timeout", NextTry: now.Add(time.Minute)},
		}},
		Logons: map[string]*Logon{"ibmuser": {
			Refused: map[string]Refusal{"c1": {At: now.Add(-time.Hour), Endpoint: "zos2", Message: "permission denied"}}, Trying: &trying,
		}},
	}
	for _, step := range []struct {
		want  Wait
		solve func()
	}{
		{Wait{Reason: ReasonHeld, Message: "ZosEndpoint zos1 is on hold: IPL at noon", After: 15 * time.Second}, func() { e.Hold = "" }},
		{
			Wait{
				Reason: ReasonOutsideWindow, Message: "no run window of ZosEndpoint zos1 is open before 2026-11-23T22:00:00Z",
				Until: now.Add(10 * time.Hour), After: 15 * time.Second,
			},
			func() { e.Windows = nil },
		},
		{
			Wait{
				Reason: ReasonCredentialRefused, Message: "zos2 refused the credential of user IBMUSER at 2026-11-23T11:00:00Z: permission denied; it is not tried " +
					"again until the credential changes or ZosEndpoint zos1 gets another value of annotation zoscb.ibm.com/retry", After: 30 * time.Second,
			},
			func() { s.Logons["ibmuser"].Refused = nil },
		},
		{
			Wait{
				Reason: ReasonCredentialUntested, Message: "another run tries the credential of user IBMUSER first", After: 2 * time.Second, Brief: true,
			},
			func() { s.Logons["ibmuser"].Trying = nil },
		},
		{
			Wait{
				Reason: ReasonUnreachable, Message: "ZosEndpoint zos1 (zos1:22) cannot be reached since 2026-11-23T11:59:00Z: timeout", After: 5 * time.Second,
			},
			func() { s.Systems[zos1].Outage, s.Systems[zos1].RecoveredAt = nil, now.Add(-time.Minute) },
		},
		{
			Wait{
				Reason: ReasonSettling, Message: "ZosEndpoint zos1 (zos1:22) can be reached again; runs start at 2026-11-23T12:59:00Z, after spec.settle",
				Until: now.Add(59 * time.Minute), After: 5 * time.Second,
			},
			func() { e.Settle = 0 },
		},
		{
			Wait{
				Reason: ReasonBusy, Message: "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of ZosEndpoint zos1 is 1",
				After: time.Second, Brief: true,
			},
			func() { s.Systems[zos1].Running = nil },
		},
	} {
		before := clone(t, s)
		got := s.Admit(e, request("DataFile/a/hello"))
		if got.Wait == nil || !cmp.Equal(*got.Wait, step.want) {
			t.Fatalf("got %+v: %s", got.Wait, cmp.Diff(&step.want, got.Wait))
		}
		if got.Changed || got.Canary || !cmp.Equal(before, s) {
			t.Errorf("%s has changed the state: %s", step.want.Reason, cmp.Diff(before, s))
		}
		step.solve()
	}
	if got := s.Admit(e, request("DataFile/a/hello")); got.Wait != nil || !got.Changed {
		t.Errorf("nothing is in the way, but %+v", got)
	}
}

func TestAdmitWithoutSharedResourcesChangesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		state *State
		e     Settings
		r     Request
	}{
		"accepted":        {&State{Logons: map[string]*Logon{"ibmuser": {Accepted: accepted("c1")}}}, settings(), request("DataFile/a/hello")},
		"no logon":        {&State{}, settings(), request("DataFile/a/hello", credential(""))},
		"local":           {&State{}, settings(local), request("DataFile/a/hello")},
		"another clock":   {&State{Systems: map[string]*System{zos1: {RecoveredAt: now.Add(time.Minute)}}}, settings(), request("DataFile/a/hello", credential(""))},
		"a future settle": {&State{Systems: map[string]*System{zos1: {RecoveredAt: now.Add(61 * time.Second)}}}, settings(func(e *Settings) { e.Settle = time.Hour }), request("DataFile/a/hello", credential(""))},
		"after a settle":  {&State{Systems: map[string]*System{zos1: {RecoveredAt: now.Add(-time.Hour)}}}, settings(func(e *Settings) { e.Settle = time.Hour }), request("DataFile/a/hello", credential(""))},
	} {
		before := clone(t, tc.state)
		if got := tc.state.Admit(tc.e, tc.r); got != (Admission{}) || !cmp.Equal(before, tc.state) {
			t.Errorf("%s: %+v, %s", name, got, cmp.Diff(before, tc.state))
		}
		if tc.state.Release(tc.e, tc.r) || !cmp.Equal(before, tc.state) {
			t.Errorf("%s: the release has changed the state: %s", name, cmp.Diff(before, tc.state))
		}
	}
}

func TestAdmitOutsideWindows(t *testing.T) {
	closed := windows(t, "", "0 22 * * *", "1h")
	never := windows(t, "", "0 0 30 2 *", "1h")
	runNow := func(at time.Time) func(*Settings) { return func(e *Settings) { e.RunNow = at } }
	since := func(at time.Time) func(*Request) { return func(r *Request) { r.Since = at } }
	for name, tc := range map[string]struct {
		windows []Window
		e       func(*Settings)
		r       func(*Request)
		message string
		after   time.Duration
	}{
		"closed":                   {closed, nil, nil, "before 2026-11-23T22:00:00Z", 15 * time.Second},
		"many ahead":               {closed, nil, ahead(10), "before 2026-11-23T22:00:00Z", 45 * time.Second},
		"very many ahead":          {closed, nil, ahead(1000), "before 2026-11-23T22:00:00Z", 5 * time.Minute},
		"it opens soon":            {closed, nil, later(10*time.Hour - 5500*time.Millisecond), "before 2026-11-23T22:00:00Z", 6 * time.Second},
		"it opens at once":         {closed, nil, later(10*time.Hour - time.Millisecond), "before 2026-11-23T22:00:00Z", time.Second},
		"open":                     {closed, nil, later(10 * time.Hour), "", 0},
		"never":                    {never, nil, nil, "no run window of ZosEndpoint zos1 opens within five years: correct spec.runWindows", 15 * time.Second},
		"asked for this run":       {closed, nil, func(r *Request) { r.RunNow = true }, "", 0},
		"asked for those then":     {closed, runNow(now.Add(-time.Minute)), since(now.Add(-time.Minute)), "", 0},
		"not waiting then":         {closed, runNow(now.Add(-time.Minute)), since(now.Add(-59 * time.Second)), "before", 15 * time.Second},
		"no time of waiting":       {closed, runNow(now.Add(-time.Minute)), since(time.Time{}), "before", 15 * time.Second},
		"a clock that is ahead":    {closed, runNow(now.Add(time.Minute)), nil, "", 0},
		"for runs of the future":   {closed, runNow(now.Add(61 * time.Second)), nil, "before", 15 * time.Second},
		"asked for, but on hold":   {closed, hold("IPL"), func(r *Request) { r.RunNow = true }, "on hold", 15 * time.Second},
		"asked for all, but held":  {closed, func(e *Settings) { e.Hold, e.RunNow = "IPL", now }, nil, "on hold", 15 * time.Second},
		"held, with many ahead":    {nil, hold("IPL"), ahead(20), "on hold", 75 * time.Second},
		"held with a long message": {nil, hold(strings.Repeat("x", 3000)), nil, "on hold: xxx", 15 * time.Second},
	} {
		e := settings(func(e *Settings) { e.Windows = tc.windows })
		if tc.e != nil {
			tc.e(&e)
		}
		r := request("DataFile/a/hello", credential(""))
		if tc.r != nil {
			tc.r(&r)
		}
		got := (&State{}).Admit(e, r)
		switch {
		case tc.message == "" && got.Wait != nil:
			t.Errorf("%s: it waits: %+v", name, got.Wait)
		case tc.message != "" && (got.Wait == nil || !strings.Contains(got.Wait.Message, tc.message) || got.Wait.After != tc.after || len(got.Wait.Message) > maxMessage):
			t.Errorf("%s: %+v", name, got.Wait)
		}
	}
}

func TestOneRunTriesAnUnknownCredential(t *testing.T) {
	s := &State{}
	e := settings()
	first, second := request("DataFile/a/first"), request("DataFile/a/second")
	if got := s.Admit(e, first); got.Wait != nil || !got.Changed {
		t.Fatalf("the first run: %+v", got)
	}
	if got := s.Admit(e, first); got.Wait != nil || got.Changed {
		t.Errorf("the first run, asking again: %+v", got)
	}
	for name, tc := range map[string]struct {
		r    Request
		wait bool
	}{
		"the second":             {second, true},
		"the second, other case": {request("DataFile/a/second", func(r *Request) { r.User = "ibmuser" }), true},
		"another credential":     {request("DataFile/a/second", credential("c2")), true},
		"another user":           {request("DataFile/a/second", func(r *Request) { r.User = "OTHER" }), false},
		"another operator":       {request("DataFile/a/first", func(r *Request) { r.Operator, r.Pod = "b/op", "p2" }), true},
		"no logon":               {request("DataFile/a/second", credential("")), false},
		"after 15 minutes":       {request("DataFile/a/second", later(15*time.Minute)), true},
		"after more":             {request("DataFile/a/second", later(15*time.Minute+time.Second)), false},
		"the pod was replaced":   {request("DataFile/a/second", func(r *Request) { r.Pod = "p3" }), false},
		"a clock that is ahead":  {request("DataFile/a/second", later(-time.Minute)), true},
		"a time of the future":   {request("DataFile/a/second", later(-61*time.Second)), false},
		"the first has ended": {request("DataFile/a/second", func(r *Request) {
			r.Ended = func(resource, run string) bool { return resource == "DataFile/a/first" && run == "r1" }
		}), false},
		"another run has ended":    {request("DataFile/a/second", func(r *Request) { r.Ended = func(_, run string) bool { return run == "r2" } }), true},
		"the first, in a new run":  {request("DataFile/a/first", func(r *Request) { r.Run = "r2" }), false},
		"ended in another's view":  {request("DataFile/b/x", func(r *Request) { r.Operator, r.Pod, r.Ended = "b/op", "p2", func(_, _ string) bool { return true } }), true},
		"the same pod's other run": {request("DataFile/a/first", func(r *Request) { r.Resource = "DataFile/a/third" }), true},
	} {
		copied := clone(t, s)
		got := copied.Admit(e, tc.r)
		if waits := got.Wait != nil && got.Wait.Reason == ReasonCredentialUntested; waits != tc.wait || (got.Wait != nil && !waits) {
			t.Errorf("%s: %+v", name, got.Wait)
		}
	}
	if got := s.Admit(e, request("DataFile/a/second", ahead(9))); got.Wait == nil || got.Wait.After != 6*time.Second {
		t.Errorf("with nine ahead: %+v", got.Wait)
	}
	if !s.Release(e, first) || len(s.Logons) != 0 {
		t.Errorf("after the release: %s", s.Marshal())
	}
	if got := s.Admit(e, second); got.Wait != nil {
		t.Errorf("the second run: %+v", got.Wait)
	}
}

func TestObserveRemembersLogons(t *testing.T) {
	e, first, second := settings(), request("DataFile/a/first"), request("DataFile/a/second")
	reason := func(s *State, r Request) Reason {
		if wait := clone(t, s).Admit(e, r).Wait; wait != nil {
			return wait.Reason
		}
		return ""
	}
	s := &State{}
	s.Admit(e, first)
	if !s.Observe(e, first, ConnectionRefused, "permission denied\n(publickey)") || s.Observe(e, first, ConnectionRefused, "again") {
		t.Error("a refusal changes the state once")
	}
	want := Logons{"ibmuser": {User: "IBMUSER", Refused: map[string]Refusal{"c1": {At: now, Endpoint: "zos1", Message: "permission denied (publickey)"}}}}
	if diff := cmp.Diff(want, s.Logons); diff != "" {
		t.Error(diff)
	}
	if got := s.Logons.UserID("ibmuser"); got != "IBMUSER" {
		t.Errorf("the user ID is shown as %q", got)
	}
	s.Logons["forged"] = &Logon{User: "IBMUSER"}
	if got := s.Logons.UserID("forged"); got != "forged" {
		t.Errorf("the user ID of another logon is shown as %q", got)
	}
	delete(s.Logons, "forged")
	twin := settings(func(e *Settings) { e.Name, e.Address = "zos2", "zos2:22" })
	if wait := s.Admit(twin, second).Wait; wait == nil || wait.Reason != ReasonCredentialRefused {
		t.Errorf("another system of the domain gets the refused credential: %+v", wait)
	}
	changed := request("DataFile/a/second", credential("c2"))
	if got := s.Admit(e, changed); got.Wait != nil {
		t.Errorf("the changed credential: %+v", got.Wait)
	}
	if got := reason(s, first); got != ReasonCredentialRefused {
		t.Errorf("the refused credential while the other is tried: %q", got)
	}
	if !s.Observe(e, changed, ConnectionAccepted, "") || s.Observe(e, changed, ConnectionAccepted, "") {
		t.Error("an acceptance changes the state once")
	}
	if !s.Logons["ibmuser"].hasAccepted("c2") || s.Logons["ibmuser"].Trying != nil {
		t.Errorf("%+v", s.Logons["ibmuser"])
	}
	if got := reason(s, request("DataFile/a/third", credential("c2"))); got != "" {
		t.Errorf("the accepted credential: %q", got)
	}
	if !s.Observe(e, changed, ConnectionRefused, "revoked") || len(s.Logons["ibmuser"].Accepted) != 0 || len(s.Logons["ibmuser"].Refused) != 2 {
		t.Errorf("accepted before, refused now: %+v", s.Logons["ibmuser"])
	}
	s.AllowRetry("zos1", "")
	s.AllowRetry("zos1", "1")
	if got := reason(s, first); got != "" {
		t.Errorf("a retry is allowed: %q", got)
	}
	if s.Observe(e, first, ConnectionNone, "") || s.Observe(settings(local), first, ConnectionRefused, "no") {
		t.Error("nothing was learned, and the state has changed")
	}
}

func TestObserveForgetsTheOldestRefusal(t *testing.T) {
	s, e := &State{}, settings()
	for i := range 10 {
		s.Observe(e, request("DataFile/a/hello", credential(string(rune('a'+i))), later(time.Duration(-i)*time.Minute)), ConnectionRefused, "no")
	}
	logon := s.Logons["ibmuser"]
	if len(logon.Refused) != maxRefused || logon.Refused["j"].At.IsZero() || !logon.Refused["h"].At.IsZero() || logon.Refused["a"].At.IsZero() {
		t.Errorf("%d refused: %+v", len(logon.Refused), logon.Refused)
	}
}

func TestOutageOfARun(t *testing.T) {
	s := &State{Logons: map[string]*Logon{"ibmuser": {Accepted: accepted("c1")}}}
	e := settings()
	failed := request("DataFile/a/first")
	if !s.Observe(e, failed, ConnectionUnreachable, "no route to host") || s.Observe(e, failed, ConnectionUnreachable, "timeout") {
		t.Error("an outage begins once")
	}
	for name, tc := range map[string]struct {
		r      Request
		canary bool
		after  time.Duration
	}{
		"at once":        {request("DataFile/a/second"), false, 5 * time.Second},
		"with ten ahead": {request("DataFile/a/second", ahead(11)), false, 10 * time.Second},
		"with all ahead": {request("DataFile/a/second", ahead(500)), false, time.Minute},
		"before 5m":      {request("DataFile/a/second", later(5*time.Minute-time.Second)), false, 5 * time.Second},
		"after 5m":       {request("DataFile/a/second", later(5*time.Minute)), true, 0},
	} {
		got := clone(t, s).Admit(e, tc.r)
		if got.Canary != tc.canary || got.Changed != tc.canary || (got.Wait == nil) != tc.canary {
			t.Errorf("%s: %+v", name, got)
		}
		if got.Wait != nil && (got.Wait.Reason != ReasonUnreachable || got.Wait.After != tc.after) {
			t.Errorf("%s: %+v", name, got.Wait)
		}
	}
	canary := request("DataFile/a/second", later(6*time.Minute))
	s.Admit(e, canary)
	if got := s.Admit(e, request("DataFile/a/third", later(10*time.Minute))); got.Wait == nil {
		t.Errorf("a second attempt within five minutes: %+v", got)
	}
	if !s.Observe(e, canary, ConnectionAccepted, "") {
		t.Error("a run that reached the system changes nothing")
	}
	want := &System{RecoveredAt: canary.Now, ReachedAt: canary.Now}
	if diff := cmp.Diff(want, s.Systems[zos1]); diff != "" {
		t.Error(diff)
	}
	if got := s.Admit(e, request("DataFile/a/third", later(6*time.Minute))); got.Wait != nil {
		t.Errorf("after the outage: %+v", got.Wait)
	}
	settled := settings(func(e *Settings) { e.Settle = time.Minute })
	for after, wait := range map[time.Duration]time.Duration{
		6 * time.Minute: 5 * time.Second, 7*time.Minute - 2500*time.Millisecond: 3 * time.Second, 7 * time.Minute: 0,
	} {
		got := s.Admit(settled, request("DataFile/a/third", later(after)))
		if (got.Wait == nil) != (wait == 0) || (got.Wait != nil && (got.Wait.Reason != ReasonSettling || got.Wait.After != wait)) {
			t.Errorf("settling after %s: %+v", after, got.Wait)
		}
	}
}

func TestOutageOfTheManager(t *testing.T) {
	since := now.Add(-time.Minute)
	for name, tc := range map[string]struct {
		system        *System
		since         time.Time
		canary, begun bool
	}{
		"reachable":               {nil, time.Time{}, false, false},
		"unreachable":             {nil, since, true, true},
		"a run reached it before": {&System{ReachedAt: since.Add(-time.Second)}, since, true, true},
		"a run reached it since":  {&System{ReachedAt: since.Add(time.Second)}, since, false, false},
		"a probe did before":      {&System{RecoveredAt: since.Add(-time.Second)}, since, true, true},
		"a probe did since":       {&System{RecoveredAt: since.Add(time.Second)}, since, false, false},
		"a probe of the future":   {&System{RecoveredAt: now.Add(61 * time.Second)}, since, true, true},
		"both, one since":         {&System{ReachedAt: since.Add(-time.Hour), RecoveredAt: since.Add(time.Second)}, since, false, false},
	} {
		s := &State{Systems: map[string]*System{}}
		if tc.system != nil {
			s.Systems[zos1] = tc.system
		}
		got := s.Admit(settings(unreachableSince(tc.since.Local())), request("DataFile/a/hello", credential("")))
		outage := s.Systems.of(zos1).Outage
		if got.Wait != nil || got.Canary != tc.canary || (outage != nil) != tc.begun {
			t.Errorf("%s: %+v, outage %+v", name, got, outage)
		}
		want := Outage{Since: since, Message: "dial tcp: timeout", NextTry: now.Add(5 * time.Minute)}
		if outage != nil && !cmp.Equal(*outage, want) {
			t.Errorf("%s: %s", name, cmp.Diff(want, *outage))
		}
	}
	s := &State{Systems: map[string]*System{zos1: {Running: []Holder{{Operator: "a/op", Pod: "p1", Resource: "DataFile/a/other"}}}}}
	busy := settings(unreachableSince(since), func(e *Settings) { e.MaxRuns = 1 })
	if got := s.Admit(busy, request("DataFile/a/hello")); got.Wait == nil || got.Wait.Reason != ReasonBusy || !got.Changed || !s.Systems[zos1].Outage.NextTry.Equal(now) {
		t.Errorf("a run that must wait for another reason uses up the attempt: %+v", got)
	}
	if got := (&State{}).Admit(settings(local, unreachableSince(since)), request("DataFile/a/hello")); got != (Admission{}) {
		t.Errorf("local: %+v", got)
	}
}

// The manager may be unable to reach what runs reach, and its clock may be ahead.
func TestARunThatReachedTheSystemEndsTheOutageOfTheManager(t *testing.T) {
	for name, since := range map[string]time.Time{"before": now.Add(-time.Minute), "in the future": now.Add(time.Minute)} {
		s := &State{}
		e := settings(unreachableSince(since))
		first, second := request("DataFile/a/first"), request("DataFile/a/second")
		if got := s.Admit(e, first); !got.Canary {
			t.Errorf("%s: first %+v", name, got)
		}
		if got := s.Admit(e, second); got.Wait == nil || got.Wait.Reason != ReasonCredentialUntested {
			t.Errorf("%s: second %+v", name, got)
		}
		s.Observe(e, first, ConnectionRefused, "permission denied")
		if got := s.Admit(e, request("DataFile/a/second", credential("c2"))); got.Wait != nil || got.Canary {
			t.Errorf("%s: a refused logon reaches the system: %+v", name, got)
		}
		if s.Observe(e, request("DataFile/a/third", credential("")), ConnectionAccepted, "") {
			t.Errorf("%s: it is known already", name)
		}
	}
}

func TestRecover(t *testing.T) {
	s := &State{}
	e := settings(func(e *Settings) { e.Settle = time.Hour })
	if s.Recover(zos1, now) {
		t.Error("there is no outage")
	}
	s.Observe(e, request("DataFile/a/hello"), ConnectionUnreachable, "timeout")
	if !s.Recover(zos1, now) || s.Recover(zos1, now.Add(time.Hour)) {
		t.Error("an outage ends once")
	}
	if got := s.Admit(e, request("DataFile/a/hello")); got.Wait == nil || !got.Wait.Until.Equal(now.Add(time.Hour)) || got.Changed {
		t.Errorf("settling: %+v", got)
	}
	if got := s.Admit(e, request("DataFile/a/hello", later(time.Hour))); got.Wait != nil || got.Canary {
		t.Errorf("settled: %+v", got)
	}
}

func TestRunsBeyondTheLargestStateWait(t *testing.T) {
	s := &State{}
	admit := func(i int) Admission {
		e := settings(limit4, func(e *Settings) { e.Address = fmt.Sprintf("zos%d:22", i/4) })
		return s.Admit(e, request(fmt.Sprint("DataFile/a/", i), credential("")))
	}
	for i := range maxHolders {
		if got := admit(i); got.Wait != nil {
			t.Fatalf("run %d: %+v", i, got.Wait)
		}
	}
	if got := admit(maxHolders); got.Wait == nil || got.Wait.Reason != ReasonBusy || !strings.Contains(got.Wait.Message, "at most 400 runs") {
		t.Errorf("one more: %+v", got)
	}
	if len(s.Systems) != maxHolders/4 {
		t.Errorf("%d systems: one with runs was forgotten", len(s.Systems))
	}
}

// largestState has as many systems, runs and logons as there may be, all with the longest names.
func largestState() *State {
	long, quotes := strings.Repeat("x", 253), strings.Repeat("\"", maxStored)
	s := &State{Systems: map[string]*System{}, Logons: map[string]*Logon{}}
	holder := Holder{Operator: "ns/" + long, PodName: long, Pod: "0b5cd7a6-7a2f-4f6e-8d1c-111111111111", Resource: "Kind/ns/" + long, Run: "1234567890123456789", Since: now}
	for i := range maxHolders {
		s.Systems[fmt.Sprint(i, long)] = &System{
			Running: []Holder{holder}, Queue: []Waiter{{Operator: "ns/" + long, Since: now}}, Outage: &Outage{Since: now, Message: quotes, NextTry: now},
		}
	}
	for i := range maxUsers {
		refused, credentials := map[string]Refusal{}, map[string]time.Time{}
		for j := range maxRefused {
			refused[fmt.Sprintf("%032d", j)] = Refusal{At: now, Endpoint: long, Message: quotes}
			credentials[fmt.Sprintf("1%031d", j)] = now
		}
		s.Logons[fmt.Sprintf("user%060d", i)] = &Logon{Accepted: credentials, Refused: refused, Trying: &holder}
	}
	return s
}

func TestStateIsBounded(t *testing.T) {
	s := largestState()
	if len(s.Marshal()) <= maxState {
		t.Fatal("the state is not large")
	}
	r := request("DataFile/a/hello", later(time.Minute), func(r *Request) { r.User = strings.Repeat("new", 100) })
	s.Observe(settings(), r, ConnectionRefused, strings.Repeat("\"", 2000))
	if _, err := ParseState(s.Marshal()); err != nil {
		t.Error(err)
	}
	if s.Systems.holders() != maxHolders || len(s.Logons) != maxUsers {
		t.Errorf("%d holders, %d users", s.Systems.holders(), len(s.Logons))
	}
	if refused := s.Logons[userKey(strings.Repeat("new", 100)[:60]+" ...")]; refused == nil || len(refused.Refused) != 1 {
		t.Errorf("the latest refusal was forgotten: %+v", refused)
	}

	s = &State{}
	for i := range 3 * maxUsers {
		at := later(time.Duration(i) * time.Second)
		user := func(r *Request) { r.User, r.Credential = fmt.Sprint("user", i), fmt.Sprint("c", i) }
		s.Observe(settings(func(e *Settings) { e.Address = fmt.Sprintf("zos%d:22", i) }), request("DataFile/a/hello", at, user), ConnectionRefused, "no")
		s.Observe(settings(func(e *Settings) { e.Address = fmt.Sprintf("zos%d:22", i) }), request("DataFile/a/hello", at), ConnectionUnreachable, "no")
	}
	if len(s.Logons) != maxUsers || s.Logons["user191"] == nil || len(s.Systems) != maxSystems || s.Systems["zos191:22"] == nil {
		t.Errorf("%d users, %d systems, not the latest ones", len(s.Logons), len(s.Systems))
	}
}
