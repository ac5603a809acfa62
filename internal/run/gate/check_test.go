package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Changes of inputs.
var (
	supportsChecks = func(in *Input) { in.Kind.CheckMode = true }
	checkAsked     = func(in *Input) { in.Kind.CheckMode, in.CheckAsked = true, "c2" }
)

// checkEvery lets resources be checked at an interval.
func checkEvery(d time.Duration) func(*Input) {
	return func(in *Input) {
		in.Kind.CheckMode, in.Settings.DriftCheckPeriodSeconds = true, int64(d/time.Second)
	}
}

// checked returns a record with a drift check in the past.
func checked(when time.Time) *Record {
	return record(func(r *Record) { r.Checked, r.CheckAsked = when, "c1" })
}

func checks(after time.Duration, changed ...Trigger) Decision {
	return Decision{Action: ActionCheck, After: after, Changed: changed}
}

func TestDecideOnARequestedCheck(t *testing.T) {
	requeued := record(func(r *Record) { r.Outcome, r.Due = OutcomeRequeued, now.Add(time.Hour) })
	checkDecisions(t, map[string]decideCase{
		"asked":                               {input(record(nil), checkAsked), checks(0)},
		"asked, with a Secret":                {input(record(nil), checkAsked, withSecret), checks(RecheckInterval)},
		"asked again":                         {input(checked(ago(time.Minute)), checkAsked), checks(0)},
		"asked, and served":                   {input(checked(ago(time.Minute)), supportsChecks, func(in *Input) { in.CheckAsked = "c1" }), skips(0)},
		"annotation removed":                  {input(checked(ago(time.Minute)), supportsChecks), skips(0)},
		"asked, not supported":                {input(record(nil), func(in *Input) { in.CheckAsked = "c2" }), skips(0)},
		"asked, the period is not over":       {input(checked(ago(time.Minute)), checkEvery(time.Hour), checkAsked), checks(0)},
		"asked, outdated":                     {input(record(nil), checkAsked, changed(TriggerCollection)), checks(0, TriggerCollection)},
		"asked, changed":                      {input(record(nil), checkAsked, changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"asked, a run is asked too":           {input(record(nil), checkAsked, asked), runs(ReasonAsked)},
		"asked, a run is due":                 {input(record(nil), checkAsked, period(time.Hour)), runs(ReasonDue)},
		"asked, a run is due later":           {input(record(nil), checkAsked, period(2*time.Hour)), checks(time.Hour)},
		"asked, new":                          {input(nil, checkAsked), runs(ReasonNew)},
		"asked, to be adopted":                {input(nil, checkAsked, baseline), Decision{Action: ActionAdopt}},
		"asked, failed":                       {input(failed(2, now.Add(time.Minute)), checkAsked), skips(time.Minute)},
		"asked, rests":                        {input(failed(6, time.Time{}), checkAsked), skips(0)},
		"asked, waits":                        {input(requeued, checkAsked), skips(time.Hour)},
		"asked, being deleted":                {input(record(nil), checkAsked, deleting), runs(ReasonChanged, TriggerSpec)},
		"asked, stale":                        {input(record(nil), checkAsked, stale), Decision{Action: ActionWait, After: time.Second}},
		"asked, another run has not ended":    {input(record(nil), checkAsked, running), Decision{Action: ActionWait, After: 10 * time.Second}},
		"asked, of a resource created again":  {input(record(nil), checkAsked, recreated), runs(ReasonNew)},
		"asked, restored with the operator":   {input(record(nil), checkAsked, restored), checks(0)},
		"asked, a deletion rests":             {input(deletion(func(r *Record) { r.Outcome = OutcomeFailed }), checkAsked, deleting), skips(0)},
		"asked, the record is an earlier one": {input(record(func(r *Record) { r.RunID, r.Finished = "r0", ago(2*time.Hour) }), checkAsked), runs(ReasonNew)},
	})
}

func TestDecideOnAPeriodicCheck(t *testing.T) {
	checkDecisions(t, map[string]decideCase{
		"due since the last run":        {input(record(nil), checkEvery(time.Hour)), checks(0)},
		"due since the last check":      {input(checked(ago(10*time.Minute)), checkEvery(10*time.Minute)), checks(0)},
		"not due":                       {input(record(nil), checkEvery(61*time.Minute)), skips(time.Minute)},
		"not due since the last check":  {input(checked(ago(10*time.Minute)), checkEvery(time.Hour)), skips(50 * time.Minute)},
		"run since the last check":      {input(checked(ago(5*time.Hour)), checkEvery(2*time.Hour)), skips(time.Hour)},
		"part of a second":              {input(checked(ago(10*time.Minute-time.Millisecond)), checkEvery(10*time.Minute)), skips(time.Second)},
		"with a Secret":                 {input(record(nil), checkEvery(2*time.Hour), withSecret), skips(RecheckInterval)},
		"soon, with a Secret":           {input(record(nil), checkEvery(62*time.Minute), withSecret), skips(2 * time.Minute)},
		"before the next run":           {input(record(nil), checkEvery(2*time.Hour), period(3*time.Hour)), skips(time.Hour)},
		"after the next run":            {input(record(nil), checkEvery(3*time.Hour), period(2*time.Hour)), skips(time.Hour)},
		"a run is due too":              {input(record(nil), checkEvery(time.Hour), period(time.Hour)), runs(ReasonDue)},
		"no period":                     {input(record(nil), supportsChecks), skips(0)},
		"negative period":               {input(record(nil), checkEvery(-time.Hour)), skips(0)},
		"not supported":                 {input(record(nil), checkEvery(time.Hour), func(in *Input) { in.Kind.CheckMode = false }), skips(0)},
		"period too short":              {input(checked(ago(4*time.Minute)), checkEvery(time.Second)), skips(time.Minute)},
		"due, outdated":                 {input(record(nil), checkEvery(time.Hour), changed(TriggerEndpoint)), skips(0, TriggerEndpoint)},
		"due, failed":                   {input(failed(6, time.Time{}), checkEvery(time.Hour)), skips(0)},
		"skewed clocks":                 {input(checked(now.Add(time.Second)), checkEvery(time.Hour)), skips(time.Hour + time.Second)},
		"clock was ahead at a check":    {input(checked(now.Add(2*time.Minute)), checkEvery(2*time.Hour)), skips(time.Hour)},
		"clock was ahead at a run":      {input(record(func(r *Record) { r.Finished = now.Add(time.Hour) }), checkEvery(time.Hour)), checks(0)},
		"clock was ahead, then checked": {input(checkedAfterSkew(), checkEvery(time.Hour)), skips(59 * time.Minute)},
		"adopted, not supported": {
			input(nil, baseline, checkEvery(time.Hour), func(in *Input) { in.Kind.CheckMode = false }), Decision{Action: ActionAdopt},
		},
		"adopted": {
			input(nil, baseline, checkEvery(time.Hour), period(2*time.Hour)), Decision{Action: ActionAdopt, After: time.Hour},
		},
	})
}

// checkedAfterSkew is the record of a run that ended in the future, and of a check since.
func checkedAfterSkew() *Record {
	r := checked(ago(time.Minute))
	r.Finished = now.Add(time.Hour)
	return r
}

func TestRefusesCheck(t *testing.T) {
	asked := func(in *Input) { in.CheckAsked = "c2" }
	for name, tc := range map[string]struct {
		in   Input
		want bool
	}{
		"asked":               {input(record(nil), asked), true},
		"asked, failed":       {input(failed(6, time.Time{}), asked), true},
		"supported":           {input(record(nil), checkAsked), false},
		"supported, failed":   {input(failed(6, time.Time{}), checkAsked), false},
		"served":              {input(checked(time.Time{}), func(in *Input) { in.CheckAsked = "c1" }), false},
		"not asked":           {input(record(nil)), false},
		"to run":              {input(record(nil), asked, changed(TriggerSpec)), false},
		"to be adopted":       {input(nil, asked, baseline), false},
		"a deletion rests":    {input(deletion(func(r *Record) { r.Outcome = OutcomeFailed }), asked, deleting), false},
		"a run has not ended": {input(record(nil), asked, running), false},
	} {
		if got := RefusesCheck(tc.in, Decide(tc.in)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	in := input(record(nil), asked)
	served := ServeCheck(in)
	if want := record(func(r *Record) { r.CheckAsked = "c2" }); !cmp.Equal(*want, served) {
		t.Errorf("record (-want +got):\n%s", cmp.Diff(*want, served))
	}
	in.Record = &served
	if RefusesCheck(in, Decide(in)) {
		t.Error("a request that was refused is refused again")
	}
}

func TestChecked(t *testing.T) {
	before := checked(ago(time.Hour))
	in := input(before, checkAsked)
	after := record(func(r *Record) { r.Checked, r.CheckAsked = now, "c2" })
	for outcome, want := range map[Outcome]*Record{
		OutcomeSucceeded: after, OutcomeFailed: after, OutcomeTimedOut: after, OutcomeCancelled: after,
		OutcomeUnreachable: before, OutcomeRefused: before, OutcomeInterrupted: before,
	} {
		got := Checked(in, outcome, now.Add(time.Millisecond).Local())
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Errorf("%s: record (-want +got):\n%s", outcome, diff)
		}
	}
	if diff := cmp.Diff(checked(ago(time.Hour)), before); diff != "" {
		t.Errorf("the last record was changed (-want +got):\n%s", diff)
	}
}

// A check is neither a run nor the end of one: what is decided afterwards depends on it in no other way.
func TestDecideAfterACheck(t *testing.T) {
	after := Checked(input(record(nil), checkAsked), OutcomeSucceeded, now)
	rerun := Next(input(&after, checkAsked), Decision{Attempt: 1}, "r2", OutcomeSucceeded, now, 0)
	if rerun.Checked != now || rerun.CheckAsked != "c2" {
		t.Errorf("after a run: checked at %s, served %q", rerun.Checked, rerun.CheckAsked)
	}
	lastRun := func(in *Input) { in.LastRun.ID = "r2" }
	checkDecisions(t, map[string]decideCase{
		"served":                     {input(&after, checkAsked), skips(0)},
		"next one":                   {input(&after, checkAsked, checkEvery(time.Hour), func(in *Input) { in.CheckAsked = "c2" }), skips(time.Hour)},
		"the period of runs goes on": {input(&after, checkAsked, period(61*time.Minute)), skips(time.Minute)},
		"changed":                    {input(&after, checkAsked, changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"created again":              {input(&after, checkAsked, recreated), runs(ReasonNew)},
		"a run forgets no check":     {input(&rerun, checkAsked, lastRun), skips(0)},
		"unreachable": {
			input(new(Checked(input(record(nil), checkAsked), OutcomeUnreachable, now)), checkAsked), checks(0),
		},
	})
}

func TestAdoptServesChecks(t *testing.T) {
	for name, tc := range map[string]struct {
		last *LastRun
		want string
	}{
		"no gate before": {nil, ""},
		"record lost":    {&LastRun{ID: "r1", Version: "1.0.0", Digest: "sha256:d"}, "c2"},
	} {
		if got := Baseline(input(nil, baseline, checkAsked, func(in *Input) { in.LastRun = tc.last })); got.CheckAsked != tc.want {
			t.Errorf("%s: served %q, want %q", name, got.CheckAsked, tc.want)
		}
	}
}
