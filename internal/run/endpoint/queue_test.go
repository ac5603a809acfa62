package endpoint

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
)

// system returns a state in which runs of operators use zos1, and operators wait for it.
func system(running []string, queue ...Waiter) *State {
	y := &System{Queue: queue}
	for i, operator := range running {
		y.Running = append(y.Running, Holder{Operator: operator, Pod: "pod of " + types.UID(operator), Resource: string(rune('a' + i)), Run: "r0", Since: now})
	}
	return &State{Systems: map[string]*System{zos1: y}}
}

// by is a run of an operator that logs on nowhere.
func by(operator string, changes ...func(*Request)) Request {
	r := request("DataFile/a/hello", credential(""), func(r *Request) { r.Operator, r.Pod = operator, "pod of "+types.UID(operator) })
	for _, change := range changes {
		change(&r)
	}
	return r
}

func waiter(operator string) Waiter { return Waiter{Operator: operator, Since: now} }

func offered(operator string, ago time.Duration) Waiter {
	return Waiter{Operator: operator, Since: now, Offered: now.Add(-ago)}
}

func TestSlots(t *testing.T) {
	limit := func(n int) func(*Settings) { return func(e *Settings) { e.MaxRuns = n } }
	for name, tc := range map[string]struct {
		state *State
		limit int
		r     Request
		start bool
		queue []Waiter
	}{
		"the first":                      {&State{}, 4, by("a"), true, nil},
		"as many as there are places":    {system([]string{"a"}), 4, by("a", ahead(2)), true, nil},
		"one more":                       {system([]string{"a"}), 4, by("a", ahead(3)), false, nil},
		"all places are taken":           {system([]string{"a", "a"}), 2, by("a"), false, nil},
		"more than all":                  {system([]string{"a", "a", "a"}), 2, by("a"), false, nil},
		"by another":                     {system([]string{"a", "b"}), 2, by("a"), false, []Waiter{waiter("a")}},
		"another waits":                  {system([]string{"a", "a"}, waiter("b")), 2, by("a"), false, []Waiter{waiter("b"), waiter("a")}},
		"it waits already":               {system([]string{"b", "b"}, waiter("a"), waiter("c")), 2, by("a"), false, []Waiter{waiter("a"), waiter("c")}},
		"its turn":                       {system([]string{"b"}, waiter("a"), waiter("c")), 2, by("a"), true, []Waiter{waiter("c")}},
		"its turn, but not this run's":   {system([]string{"b"}, waiter("a"), waiter("c")), 2, by("a", ahead(1)), false, []Waiter{offered("a", 0), waiter("c")}},
		"not its turn":                   {system([]string{"b"}, waiter("c"), waiter("a")), 2, by("a"), false, []Waiter{offered("c", 0), waiter("a")}},
		"not its turn, and new":          {system([]string{"b"}, waiter("c")), 2, by("a"), false, []Waiter{offered("c", 0), waiter("a")}},
		"a place for both":               {system([]string{"b"}, waiter("c"), waiter("a")), 3, by("a"), true, []Waiter{waiter("c")}},
		"a place for one of two":         {system([]string{"b"}, waiter("c"), waiter("a")), 3, by("a", ahead(1)), false, []Waiter{offered("c", 0), offered("a", 0)}},
		"an offer is kept":               {system([]string{"b"}, offered("c", 10*time.Second)), 2, by("a"), false, []Waiter{offered("c", 10*time.Second), waiter("a")}},
		"an offer was not taken":         {system([]string{"b"}, offered("c", 11*time.Second)), 2, by("a"), true, []Waiter{offered("c", 11*time.Second)}},
		"the next is offered it":         {system([]string{"b"}, offered("c", 11*time.Second), waiter("d")), 2, by("a"), false, []Waiter{offered("c", 11*time.Second), offered("d", 0), waiter("a")}},
		"nobody else is there":           {system([]string{"b"}, offered("c", 11*time.Second), offered("d", 11*time.Second)), 2, by("a"), true, []Waiter{offered("c", 11*time.Second), offered("d", 11*time.Second)}},
		"it keeps its turn":              {system([]string{"b", "b"}, offered("c", time.Hour)), 2, by("a"), false, []Waiter{offered("c", time.Hour), waiter("a")}},
		"its turn again":                 {system([]string{"b", "b"}, offered("c", time.Hour), waiter("a")), 2, by("c"), false, []Waiter{waiter("c"), waiter("a")}},
		"late, and not this run":         {system([]string{"b"}, offered("a", time.Minute), waiter("c")), 2, by("a", ahead(1)), false, []Waiter{offered("a", time.Minute), offered("c", 0)}},
		"it did not come for an hour":    {system([]string{"b", "b"}, offered("c", time.Hour+time.Second)), 2, by("a"), false, []Waiter{waiter("a")}},
		"a clock that is ahead":          {system([]string{"b"}, offered("c", -time.Minute)), 2, by("a"), false, []Waiter{offered("c", -time.Minute), waiter("a")}},
		"an offer of the future":         {system([]string{"b"}, offered("c", -61*time.Second)), 2, by("a"), true, nil},
		"late, but it comes":             {system([]string{"b"}, offered("a", time.Minute)), 2, by("a"), true, nil},
		"an offer that is gone":          {system([]string{"b", "b"}, offered("c", 5*time.Second)), 2, by("a"), false, []Waiter{waiter("c"), waiter("a")}},
		"its pod was replaced":           {system([]string{"a", "a"}), 2, by("a", func(r *Request) { r.Pod = "new" }), true, nil},
		"a run has ended":                {system([]string{"a", "a"}), 2, by("a", func(r *Request) { r.Ended = func(resource, _ string) bool { return resource == "b" } }), true, nil},
		"another's run has ended":        {system([]string{"b", "b"}), 2, by("a", func(r *Request) { r.Ended = func(string, string) bool { return true } }), false, []Waiter{waiter("a")}},
		"ended, and reserved":            {system([]string{"a", "a"}, waiter("b")), 2, by("a", func(r *Request) { r.Ended = func(resource, _ string) bool { return resource == "b" } }), false, []Waiter{offered("b", 0), waiter("a")}},
		"the same resource":              {system([]string{"a", "b"}), 2, by("a", func(r *Request) { r.Resource = "a" }), true, nil},
		"another's resource of the name": {system([]string{"b", "b"}), 2, by("a", func(r *Request) { r.Resource = "a" }), false, []Waiter{waiter("a")}},
		"no limit":                       {system([]string{"b", "b"}, offered("c", time.Hour)), 0, by("a"), true, []Waiter{offered("c", time.Hour)}},
	} {
		e := settings(limit(tc.limit))
		before := clone(t, tc.state)
		got := tc.state.Admit(e, tc.r)
		if (got.Wait == nil) != tc.start || (got.Wait != nil && (got.Wait.Reason != ReasonBusy || !got.Wait.Brief)) {
			t.Errorf("%s: %+v", name, got.Wait)
		}
		if diff := cmp.Diff(tc.queue, tc.state.Systems.of(zos1).Queue, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if got.Changed == cmp.Equal(before, tc.state) {
			t.Errorf("%s: changed is %v: %s", name, got.Changed, cmp.Diff(before, tc.state))
		}
		holds := slices.ContainsFunc(tc.state.Systems.of(zos1).Running, tc.r.isRun)
		if holds != (tc.start && tc.limit > 0) {
			t.Errorf("%s: it holds a place: %v", name, holds)
		}
		if running := tc.state.Systems.of(zos1).Running; tc.start && tc.limit > 0 && len(running) > tc.limit {
			t.Errorf("%s: %d places are taken", name, len(running))
		}
		again := clone(t, tc.state)
		if repeated := again.Admit(e, tc.r); (repeated.Wait == nil) != tc.start || repeated.Changed {
			t.Errorf("%s, asking again: %+v", name, repeated)
		}
		if tc.state.Release(e, tc.r) != holds || slices.ContainsFunc(tc.state.Systems.of(zos1).Running, tc.r.isRun) {
			t.Errorf("%s: it was not released", name)
		}
	}
}

func TestTheLowestLimitApplies(t *testing.T) {
	for name, tc := range map[string]struct {
		own, shared, want int
		message           string
	}{
		"own":           {2, 0, 2, "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of ZosEndpoint zos1 is 2"},
		"shared":        {0, 2, 2, "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of another ZosEndpoint with this host and port is 2"},
		"own is lower":  {1, 2, 1, "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of ZosEndpoint zos1 is 1"},
		"own is higher": {3, 2, 2, "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of another ZosEndpoint with this host and port is 2"},
		"equal":         {2, 2, 2, "the run waits for its turn on zos1:22: spec.maxConcurrentRuns of ZosEndpoint zos1 is 2"},
		"none":          {0, 0, 100, ""},
	} {
		s := &State{}
		s.SetLimits(map[string]int{zos1: tc.shared})
		started, message := 0, ""
		for i := range 100 {
			got := s.Admit(settings(func(e *Settings) { e.MaxRuns = tc.own }), by("a", func(r *Request) { r.Resource = string(rune('a' + i)) }))
			if got.Wait == nil {
				started++
			} else {
				message = got.Wait.Message
			}
		}
		if started != tc.want || message != tc.message {
			t.Errorf("%s: %d have started, %q", name, started, message)
		}
	}
}

func TestBusyRunsAskAgainLaterTheMoreAreAhead(t *testing.T) {
	for _, tc := range []struct {
		ahead  int
		waited time.Duration
		want   time.Duration
	}{
		{0, 0, time.Second}, {1, 0, 2 * time.Second}, {3, 0, 5 * time.Second}, {10, 0, 16 * time.Second}, {79, 0, 119 * time.Second},
		{1000, 0, 2 * time.Minute}, {0, 19 * time.Second, time.Second}, {0, 20 * time.Second, 2 * time.Second},
		{0, time.Hour, 6 * time.Second}, {10, time.Hour, 21 * time.Second},
	} {
		since := func(r *Request) { r.Since = now.Add(-tc.waited) }
		got := system([]string{"a", "a", "a", "a"}).Admit(settings(limit4), by("a", ahead(tc.ahead), since))
		if got.Wait == nil || got.Wait.After != tc.want || got.Wait.After-time.Second >= offerTime && tc.ahead == 0 {
			t.Errorf("with %d ahead after %s: %+v", tc.ahead, tc.waited, got.Wait)
		}
	}
}

// Each time a run asks, the gate starts as a process.
func TestManyBusyRunsOfAPodAskRarely(t *testing.T) {
	for _, limit := range []int{1, 4, 50} {
		perSecond, all := 0.0, []string{}
		for range limit {
			all = append(all, "a")
		}
		for i := range 200 {
			since := func(r *Request) { r.Since = now.Add(-time.Minute) }
			got := system(all).Admit(settings(func(e *Settings) { e.MaxRuns = limit }), by("a", ahead(i), since))
			perSecond += 1 / got.Wait.After.Seconds()
		}
		if perSecond > 4 {
			t.Errorf("with limit %d, 200 runs ask %.1f times per second", limit, perSecond)
		}
	}
}

// simulatedRun is a run with its ticket.
type simulatedRun struct {
	request  Request
	next     time.Time
	duration time.Duration
	ends     time.Time
	released bool
}

// simulation is the life of some operators with runs on one system.
type simulation struct {
	t       *testing.T
	now     time.Time
	content []byte
	e       Settings
	runs    []*simulatedRun
	// releases says how long after its end a run gives its slot back.
	releases func(*simulatedRun) time.Duration
	starts   []string
	most     int
}

// ahead counts tickets as the gate does.
func (s *simulation) ahead(run *simulatedRun) int {
	n := 0
	for _, other := range s.runs {
		if other.request.Operator == run.request.Operator && other.ends.IsZero() && other.request.Since.Before(run.request.Since) &&
			s.now.Sub(other.next) <= 2*time.Second {
			n++
		}
	}
	return n
}

func (s *simulation) ended(resource, _ string) bool {
	return slices.ContainsFunc(s.runs, func(r *simulatedRun) bool {
		return r.request.Resource == resource && !r.ends.IsZero() && !s.now.Before(r.ends)
	})
}

// step lets the runs end, and those ask whose time it is. Each reads the state and writes it if it has changed.
func (s *simulation) step() {
	for _, run := range s.runs {
		if !run.released && !run.ends.IsZero() && !s.now.Before(run.ends.Add(s.releases(run))) {
			run.released = true
			if state := s.read(); state.Release(s.e, run.request) {
				s.content = state.Marshal()
			}
		}
	}
	for _, run := range s.runs {
		if !run.ends.IsZero() || s.now.Before(run.next) {
			continue
		}
		state := s.read()
		r := run.request
		r.Now, r.Ahead, r.Ended = s.now, s.ahead(run), s.ended
		admission := state.Admit(s.e, r)
		if admission.Changed {
			s.content = state.Marshal()
		}
		if admission.Wait != nil {
			run.next = s.now.Add(admission.Wait.After)
			continue
		}
		run.ends = s.now.Add(run.duration)
		s.starts = append(s.starts, r.Operator)
	}
	using := 0
	for _, run := range s.runs {
		if !run.ends.IsZero() && s.now.Before(run.ends) {
			using++
		}
	}
	s.most = max(s.most, using)
}

func (s *simulation) read() *State {
	state, err := ParseState(s.content)
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

func (s *simulation) waiting(operator string) bool {
	return slices.ContainsFunc(s.runs, func(r *simulatedRun) bool {
		return r.ends.IsZero() && r.request.Operator == operator && !s.now.Before(r.request.Since)
	})
}

// longestWait returns the largest number of slots that others got in a row while an operator was waiting.
func (s *simulation) longestWait(operators []string) int {
	longest, passed := 0, map[string]int{}
	for started := 0; slices.ContainsFunc(s.runs, func(r *simulatedRun) bool { return r.ends.IsZero() }); s.now = s.now.Add(time.Second) {
		if s.now.Sub(now) > 24*time.Hour {
			s.t.Fatalf("after a day only %d runs have started: %s", len(s.starts), s.content)
		}
		waiting := map[string]bool{}
		for _, operator := range operators {
			waiting[operator] = s.waiting(operator)
		}
		s.step()
		for ; started < len(s.starts); started++ {
			for _, operator := range operators {
				switch {
				case s.starts[started] == operator || !waiting[operator]:
					passed[operator] = 0
				default:
					passed[operator]++
					longest = max(longest, passed[operator])
				}
			}
		}
	}
	return longest
}

func TestNoOperatorStarves(t *testing.T) {
	operators := []string{"a/op", "b/op", "c/op"}
	atOnce := func(*simulatedRun) time.Duration { return 0 }
	for name, tc := range map[string]struct {
		limit    int
		seconds  int // the longest run
		arrive   func(operator, run int) time.Duration
		releases func(*simulatedRun) time.Duration
	}{
		"all at once":       {4, 20, func(int, int) time.Duration { return 0 }, atOnce},
		"one after another": {4, 20, func(operator, _ int) time.Duration { return time.Duration(operator) * time.Minute }, atOnce},
		"a steady stream":   {4, 20, func(operator, run int) time.Duration { return time.Duration(3*run+operator) * time.Second }, atOnce},
		"short runs":        {4, 1, func(int, int) time.Duration { return 0 }, atOnce},
		"one place":         {1, 5, func(int, int) time.Duration { return 0 }, atOnce},
		"some release late": {4, 20, func(int, int) time.Duration { return 0 }, func(r *simulatedRun) time.Duration { return 20 * (r.duration % (3 * time.Second)) }},
	} {
		for seed := range uint64(3) {
			random := rand.New(rand.NewPCG(seed, 1))
			s := &simulation{t: t, now: now, content: (&State{}).Marshal(), releases: tc.releases}
			s.e = settings(func(e *Settings) { e.MaxRuns = tc.limit })
			for o, operator := range operators {
				for i := range 40 {
					since := now.Add(tc.arrive(o, i)).Add(time.Duration(i) * time.Millisecond)
					r := by(operator, func(r *Request) { r.Resource, r.Since = operator+string(rune('A'+i)), since })
					s.runs = append(s.runs, &simulatedRun{request: r, next: since, duration: time.Duration(1+random.IntN(tc.seconds)) * time.Second})
				}
			}
			random.Shuffle(len(s.runs), func(i, j int) { s.runs[i], s.runs[j] = s.runs[j], s.runs[i] })
			longest := s.longestWait(operators)
			if len(s.starts) != 120 || s.most > tc.limit {
				t.Errorf("%s, seed %d: %d runs have started, up to %d at the same time", name, seed, len(s.starts), s.most)
			}
			if longest > 2*tc.limit+4 {
				t.Errorf("%s, seed %d: an operator was waiting while others got %d places", name, seed, longest)
			}
		}
	}
}
