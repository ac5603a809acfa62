package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

var (
	now     = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	current = Fingerprint{Spec: "s", Secret: "p", Collection: "c", Endpoint: "e"}
)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func record(change func(*Record)) *Record {
	r := &Record{
		Fingerprint: current, Event: EventCreate, Outcome: OutcomeSucceeded, RunID: "r1", Finished: ago(time.Hour), Requested: "a1",
		UID: "u1", Installation: "i1",
	}
	if change != nil {
		change(r)
	}
	return r
}

func failed(attempt int, nextRetry time.Time) *Record {
	return record(func(r *Record) { r.Outcome, r.Attempt, r.NextRetry = OutcomeFailed, attempt, nextRetry })
}

func deletion(change func(*Record)) *Record {
	return record(func(r *Record) {
		r.Event = EventDelete
		change(r)
	})
}

func input(r *Record, changes ...func(*Input)) Input {
	in := Input{
		Settings: &Settings{Version: "1.0.0", Digest: "sha256:d", RerunOn: DefaultRerunOn(), MaxRetries: 5},
		Now:      now, Event: EventCreate, Current: current, UID: "u1", Installation: "i1", Requested: "a1", Record: r,
		LastRun: &LastRun{ID: "r1", Started: ago(time.Hour), Version: "1.0.0", Digest: "sha256:d"},
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

// Changes of inputs.
var (
	running  = func(in *Input) { in.Running = true }
	stale    = func(in *Input) { in.Stale = true }
	baseline = func(in *Input) { in.Baseline = true }
	deleting = func(in *Input) { in.Event = EventDelete }
	asked    = func(in *Input) { in.Requested = "a2" }
	abandon  = func(in *Input) { in.Abandon = true }
	noUID    = func(in *Input) { in.UID, in.Record.UID = "", "" }
	// a resource of the same name, in the same installation or in a restored one
	recreated = func(in *Input) { in.UID, in.LastRun = "u2", nil }
	restored  = func(in *Input) { in.UID, in.Installation, in.LastRun = "u2", "i2", nil }
	// kinds whose changes ansible-operator is not told of
	withSecret    = func(in *Input) { in.Kind.Variables = []Variable{{Name: "password", Secret: true}} }
	withReference = func(in *Input) {
		in.Kind.Variables = []Variable{{Name: "o", Fields: []Variable{{Name: "queue", Reference: "queues"}}}}
	}
)

func period(d time.Duration) func(*Input) { return func(in *Input) { in.Period = d } }

func kindPeriod(d time.Duration) func(*Input) {
	return func(in *Input) { in.Kind.ReconcilePeriodSeconds = int64(d / time.Second) }
}

func rerunOn(triggers ...Trigger) func(*Input) {
	return func(in *Input) { in.Settings.RerunOn = triggers }
}

func changed(triggers ...Trigger) func(*Input) {
	return func(in *Input) {
		parts := map[Trigger]*string{
			TriggerSpec: &in.Current.Spec, TriggerSecret: &in.Current.Secret,
			TriggerCollection: &in.Current.Collection, TriggerEndpoint: &in.Current.Endpoint,
		}
		for _, t := range triggers {
			*parts[t] += " changed"
		}
	}
}

func runs(reason Reason, changed ...Trigger) Decision {
	return Decision{Action: ActionRun, Reason: reason, Attempt: 1, Changed: changed}
}

func skips(after time.Duration, changed ...Trigger) Decision {
	return Decision{Action: ActionSkip, After: after, Changed: changed}
}

type decideCase struct {
	in   Input
	want Decision
}

func checkDecisions(t *testing.T, cases map[string]decideCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Decide(tc.in)); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecideWithoutComparing(t *testing.T) {
	deleted := deletion(func(r *Record) { r.Deleted = "u1" })
	checkDecisions(t, map[string]decideCase{
		"another run has not ended":       {input(record(nil), running, stale, asked), Decision{Action: ActionWait, After: 10 * time.Second}},
		"stale":                           {input(nil, stale), Decision{Action: ActionWait, After: time.Second}},
		"stale, deleted already":          {input(deleted, deleting, stale), Decision{Action: ActionWait, After: time.Second}},
		"no record":                       {input(nil), runs(ReasonNew)},
		"no record, deleting":             {input(nil, deleting), runs(ReasonNew)},
		"no record, successful":           {input(nil, baseline), Decision{Action: ActionAdopt}},
		"no record, successful, deleting": {input(nil, baseline, deleting), runs(ReasonNew)},
		"successful, with a period":       {input(nil, baseline, period(time.Hour)), Decision{Action: ActionAdopt, After: time.Hour}},
		"successful, with a Secret": {
			input(nil, baseline, period(time.Hour), withSecret), Decision{Action: ActionAdopt, After: RecheckInterval},
		},
		"baseline does not count beside a record": {input(failed(6, time.Time{}), baseline), skips(0)},
		"deleted":                                {input(deleted, deleting), Decision{Action: ActionFinish}},
		"deleted, asked and changed since":       {input(deleted, deleting, asked, changed(TriggerSpec)), Decision{Action: ActionFinish}},
		"deleted, another resource of that name": {input(deletion(func(r *Record) { r.Deleted = "u0" }), deleting), runs(ReasonNew)},
		"deleted, created again":                 {input(deletion(func(r *Record) { r.Deleted = "u0" })), runs(ReasonChanged, TriggerSpec)},
		"an empty UID is no UID":                 {input(deletion(func(*Record) {}), deleting, noUID), runs(ReasonNew)},
	})
}

func TestDecideAskedOrChanged(t *testing.T) {
	resting := failed(6, time.Time{})
	all := []Trigger{TriggerSpec, TriggerSecret, TriggerCollection, TriggerEndpoint}
	checkDecisions(t, map[string]decideCase{
		"asked":                     {input(record(nil), asked), runs(ReasonAsked)},
		"asked, resting":            {input(resting, asked), runs(ReasonAsked)},
		"asked, a deletion rests":   {input(deletion(func(r *Record) { r.Outcome = OutcomeFailed }), deleting, asked), runs(ReasonAsked)},
		"asked, retry is later":     {input(failed(2, now.Add(time.Minute)), asked), runs(ReasonAsked)},
		"asked and changed":         {input(record(nil), asked, changed(TriggerCollection)), runs(ReasonAsked, TriggerCollection)},
		"annotation removed":        {input(record(nil), func(in *Input) { in.Requested = "" }), skips(0)},
		"spec changed":              {input(record(nil), changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"spec changed, resting":     {input(resting, changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"Secret changed":            {input(record(nil), changed(TriggerSecret)), runs(ReasonChanged, TriggerSecret)},
		"collection changed":        {input(record(nil), changed(TriggerCollection)), skips(0, TriggerCollection)},
		"endpoint changed":          {input(record(nil), changed(TriggerEndpoint)), skips(0, TriggerEndpoint)},
		"collection changed, rerun": {input(record(nil), changed(TriggerCollection), rerunOn(TriggerCollection)), runs(ReasonChanged, TriggerCollection)},
		"endpoint changed, rerun":   {input(record(nil), changed(TriggerEndpoint), rerunOn(TriggerEndpoint)), runs(ReasonChanged, TriggerEndpoint)},
		"all changed, in order":     {input(record(nil), changed(all...)), runs(ReasonChanged, all...)},
		"nothing starts it":         {input(record(nil), changed(TriggerSpec), rerunOn()), skips(0, TriggerSpec)},
		"deleted, nothing else starts it": {
			input(record(nil), deleting, changed(TriggerSpec), rerunOn()), runs(ReasonChanged, TriggerSpec),
		},
		"spec changed during a deletion, nothing else starts it": {
			input(deletion(func(r *Record) { r.Outcome = OutcomeFailed }), deleting, changed(TriggerSpec), rerunOn()),
			runs(ReasonChanged, TriggerSpec),
		},
		"collection changed during a deletion": {
			input(deletion(func(r *Record) { r.Outcome = OutcomeFailed }), deleting, changed(TriggerCollection)), skips(0, TriggerCollection),
		},
		"deleted, same fingerprint": {input(record(nil), deleting), runs(ReasonChanged, TriggerSpec)},
		"deleted, retry is later":   {input(failed(2, now.Add(time.Hour)), deleting), runs(ReasonChanged, TriggerSpec)},
	})
}

func TestDecideAfterAFailure(t *testing.T) {
	retried := runs(ReasonRetry)
	retried.Attempt = 3
	retriedOutdated := runs(ReasonRetry, TriggerCollection)
	retriedOutdated.Attempt = 3
	outcome := func(o Outcome, next time.Time) *Record {
		return record(func(r *Record) { r.Outcome, r.Attempt, r.NextRetry = o, 2, next })
	}
	checkDecisions(t, map[string]decideCase{
		"retry due":                       {input(failed(2, now)), retried},
		"retry due long ago":              {input(failed(2, ago(48*time.Hour))), retried},
		"retry due, other version":        {input(failed(2, now), changed(TriggerCollection)), retriedOutdated},
		"timed out":                       {input(outcome(OutcomeTimedOut, now)), retried},
		"interrupted":                     {input(outcome(OutcomeInterrupted, now)), Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 2}},
		"retry later":                     {input(failed(2, now.Add(30*time.Second))), skips(30 * time.Second)},
		"retry later, with a Secret":      {input(failed(6, now.Add(20*time.Minute)), withSecret), skips(RecheckInterval)},
		"part of a second":                {input(failed(2, now.Add(time.Millisecond))), skips(time.Second)},
		"rounded up":                      {input(failed(2, now.Add(1500*time.Millisecond))), skips(2 * time.Second)},
		"rests":                           {input(failed(6, time.Time{})), skips(0)},
		"rests, although a period":        {input(failed(6, time.Time{}), period(time.Hour)), skips(0)},
		"rests, with a Secret":            {input(failed(6, time.Time{}), withSecret), skips(RecheckInterval)},
		"cancelled":                       {input(outcome(OutcomeCancelled, ago(time.Hour))), skips(0)},
		"cancelled, changed":              {input(outcome(OutcomeCancelled, time.Time{}), changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"unknown outcome of a newer gate": {input(outcome("Odd", time.Time{})), skips(0)},
		"clock was ahead":                 {input(failed(2, now.Add(31*time.Minute+time.Second))), retried},
		"longest delay, skewed clocks":    {input(failed(6, now.Add(31*time.Minute))), skips(31 * time.Minute)},
		"deletion, retry later": {
			input(deletion(func(r *Record) { r.Outcome, r.Attempt, r.NextRetry = OutcomeFailed, 1, now.Add(10*time.Second) }), deleting),
			skips(10 * time.Second),
		},
	})
}

// A run that could not use its endpoint is repeated without a limit. Whether it may start is not decided here.
func TestDecideAfterAnOutage(t *testing.T) {
	outcome := func(o Outcome, next time.Time) *Record {
		return record(func(r *Record) { r.Outcome, r.Attempt, r.NextRetry = o, 6, next })
	}
	again := runs(ReasonRetry)
	again.Attempt = 6
	outdated := again
	outdated.Changed = []Trigger{TriggerCollection}
	deletionRefused := deletion(func(r *Record) { r.Outcome, r.Attempt = OutcomeRefused, 6 })
	checkDecisions(t, map[string]decideCase{
		"unreachable":            {input(outcome(OutcomeUnreachable, time.Time{})), again},
		"unreachable, due":       {input(outcome(OutcomeUnreachable, now)), again},
		"unreachable, later":     {input(outcome(OutcomeUnreachable, now.Add(30*time.Second))), skips(30 * time.Second)},
		"unreachable, changed":   {input(outcome(OutcomeUnreachable, now.Add(30*time.Second)), changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"unreachable, outdated":  {input(outcome(OutcomeUnreachable, time.Time{}), changed(TriggerCollection)), outdated},
		"unreachable, no retry":  {input(outcome(OutcomeUnreachable, time.Time{}), func(in *Input) { in.Settings.MaxRetries = 0 }), again},
		"refused":                {input(outcome(OutcomeRefused, time.Time{})), again},
		"refused, asked":         {input(outcome(OutcomeRefused, time.Time{}), asked), runs(ReasonAsked)},
		"refused, in a deletion": {input(deletionRefused, deleting), again},
	})
}

func TestDecideToAbandon(t *testing.T) {
	abandons := Decision{Action: ActionAbandon}
	deleted := deletion(func(r *Record) { r.Deleted = "u1" })
	resting := deletion(func(r *Record) { r.Outcome = OutcomeFailed })
	checkDecisions(t, map[string]decideCase{
		"successful":               {input(record(nil), deleting, abandon), abandons},
		"never run":                {input(nil, deleting, abandon), abandons},
		"the deletion has failed":  {input(resting, deleting, abandon), abandons},
		"asked too":                {input(resting, deleting, abandon, asked), abandons},
		"not being deleted":        {input(record(nil), abandon), skips(0)},
		"a run has not ended":      {input(record(nil), deleting, abandon, running), Decision{Action: ActionWait, After: 10 * time.Second}},
		"stale":                    {input(record(nil), deleting, abandon, stale), Decision{Action: ActionWait, After: time.Second}},
		"the deletion has ended":   {input(deleted, deleting, abandon), Decision{Action: ActionFinish}},
		"another one was deleted":  {input(deletion(func(r *Record) { r.Deleted = "u0" }), deleting, abandon), abandons},
		"an empty UID is no UID":   {input(deletion(func(*Record) {}), deleting, noUID, abandon), abandons},
		"a baseline, not a record": {input(nil, baseline, deleting, abandon), abandons},
	})
}

func TestDecideAfterASuccess(t *testing.T) {
	requeued := func(due time.Time) *Record {
		return record(func(r *Record) { r.Outcome, r.Due = OutcomeRequeued, due })
	}
	day := 24 * time.Hour
	checkDecisions(t, map[string]decideCase{
		"unchanged":                        {input(record(nil)), skips(0)},
		"unchanged for a year":             {input(record(func(r *Record) { r.Finished = ago(365 * day) })), skips(0)},
		"unchanged, with a Secret":         {input(record(nil), withSecret), skips(RecheckInterval)},
		"unchanged, with a reference":      {input(record(nil), withReference), skips(RecheckInterval)},
		"unchanged, endpoints start plays": {input(record(nil), rerunOn(TriggerSpec, TriggerEndpoint)), skips(RecheckInterval)},
		"period over":                      {input(record(nil), period(time.Hour)), runs(ReasonDue)},
		"period not over":                  {input(record(nil), period(61*time.Minute)), skips(time.Minute)},
		"period of the kind":               {input(record(nil), kindPeriod(2*time.Hour)), skips(time.Hour)},
		"period of the resource first":     {input(record(nil), kindPeriod(time.Hour), period(3*time.Hour)), skips(2 * time.Hour)},
		"negative period":                  {input(record(nil), kindPeriod(2*time.Hour), period(-time.Hour)), skips(time.Hour)},
		"period with a Secret":             {input(record(nil), period(3*time.Hour), withSecret), skips(RecheckInterval)},
		"short rest of a period":           {input(record(nil), period(62*time.Minute), withSecret), skips(2 * time.Minute)},
		"period too short": {
			input(record(func(r *Record) { r.Finished = ago(4 * time.Minute) }), period(time.Millisecond)), skips(time.Minute),
		},
		"period, outdated": {input(record(nil), period(2*time.Hour), changed(TriggerEndpoint)), skips(time.Hour, TriggerEndpoint)},
		"period, clock was ahead": {
			input(record(func(r *Record) { r.Finished = now.Add(2 * time.Minute) }), period(time.Hour)), runs(ReasonDue),
		},
		"period, skewed clocks": {
			input(record(func(r *Record) { r.Finished = now.Add(time.Second) }), period(time.Hour)), skips(time.Hour + time.Second),
		},
		"requeued, due":         {input(requeued(now)), runs(ReasonDue)},
		"requeued, later":       {input(requeued(now.Add(3 * day))), skips(3 * day)},
		"requeued, with Secret": {input(requeued(now.Add(3*day)), withSecret), skips(RecheckInterval)},
		"requeued, period over": {input(requeued(now.Add(3*day)), period(time.Hour)), skips(3 * day)},
		"requeued, changed":     {input(requeued(now.Add(day)), changed(TriggerSecret)), runs(ReasonChanged, TriggerSecret)},
		"requeued, deleted":     {input(requeued(now.Add(day)), deleting), runs(ReasonChanged, TriggerSpec)},
		"requeued deletion, later": {
			input(deletion(func(r *Record) { r.Outcome, r.Due = OutcomeRequeued, now.Add(time.Minute) }), deleting), skips(time.Minute),
		},
		"requeued deletion, due": {
			input(deletion(func(r *Record) { r.Outcome, r.Due = OutcomeRequeued, ago(time.Minute) }), deleting), runs(ReasonDue),
		},
	})
}

func TestRetryDelay(t *testing.T) {
	for attempt, want := range map[int]time.Duration{
		-1: 10 * time.Second, 0: 10 * time.Second, 1: 10 * time.Second, 2: 30 * time.Second, 3: 90 * time.Second,
		4: 270 * time.Second, 5: 810 * time.Second, 6: 30 * time.Minute, 1000000: 30 * time.Minute,
	} {
		if got := RetryDelay(attempt); got != want {
			t.Errorf("after attempt %d: %s, want %s", attempt, got, want)
		}
	}
}

func TestNext(t *testing.T) {
	finished := now.Add(500 * time.Millisecond)
	base := Record{
		Fingerprint: current, Event: EventCreate, Outcome: OutcomeSucceeded, RunID: "r2", Finished: now,
		Version: "1.0.0", Digest: "sha256:d", Requested: "a1", UID: "u1", Installation: "i1",
	}
	with := func(changes ...func(*Record)) Record {
		r := base
		for _, change := range changes {
			change(&r)
		}
		return r
	}
	ends := func(o Outcome, attempt int, nextRetry time.Time) func(*Record) {
		return func(r *Record) { r.Outcome, r.Attempt, r.NextRetry = o, attempt, nextRetry }
	}
	due := func(d time.Duration) func(*Record) {
		return func(r *Record) { r.Outcome, r.Due = OutcomeRequeued, now.Add(d) }
	}
	deleted := func(uid types.UID) func(*Record) {
		return func(r *Record) { r.Event, r.Deleted = EventDelete, uid }
	}
	old := deletion(func(r *Record) { r.Deleted = "u0" })
	for name, tc := range map[string]struct {
		in      Input
		attempt int
		outcome Outcome
		requeue time.Duration
		want    Record
	}{
		"success":               {input(nil), 1, OutcomeSucceeded, 0, base},
		"success after retries": {input(failed(3, now)), 4, OutcomeSucceeded, 0, base},
		"asked":                 {input(record(nil), asked), 1, OutcomeSucceeded, 0, with(func(r *Record) { r.Requested = "a2" })},
		"requeued":              {input(nil), 1, OutcomeSucceeded, time.Hour, with(due(time.Hour))},
		"requeued at once":      {input(nil), 1, OutcomeSucceeded, time.Nanosecond, with(due(time.Second))},
		"requeued never":        {input(nil), 1, OutcomeRequeued, 0, base},
		"requeued far away":     {input(nil), 1, OutcomeRequeued, 1 << 62, with(due(7 * 24 * time.Hour))},
		"failed":                {input(nil), 1, OutcomeFailed, time.Hour, with(ends(OutcomeFailed, 1, now.Add(10*time.Second)))},
		"failed twice":          {input(failed(1, now)), 2, OutcomeTimedOut, 0, with(ends(OutcomeTimedOut, 2, now.Add(30*time.Second)))},
		"last retry to come":    {input(failed(4, now)), 5, OutcomeFailed, 0, with(ends(OutcomeFailed, 5, now.Add(810*time.Second)))},
		"last retry failed":     {input(failed(5, now)), 6, OutcomeFailed, 0, with(ends(OutcomeFailed, 6, time.Time{}))},
		"no retries":            {input(nil, func(in *Input) { in.Settings.MaxRetries = 0 }), 1, OutcomeFailed, 0, with(ends(OutcomeFailed, 1, time.Time{}))},
		"no attempt":            {input(nil), 0, OutcomeInterrupted, 0, with(ends(OutcomeInterrupted, 1, now.Add(10*time.Second)))},
		"interrupted at last":   {input(failed(5, now)), 6, OutcomeInterrupted, 0, with(ends(OutcomeInterrupted, 6, now.Add(10*time.Second)))},
		"cancelled":             {input(nil), 1, OutcomeCancelled, 0, with(ends(OutcomeCancelled, 1, time.Time{}))},
		"deleted":               {input(record(nil), deleting), 1, OutcomeSucceeded, 0, with(deleted("u1"))},
		"deletion requeued":     {input(old, deleting), 1, OutcomeSucceeded, time.Minute, with(deleted("u0"), due(time.Minute))},
		"deletion failed":       {input(record(nil), deleting), 1, OutcomeFailed, 0, with(deleted(""), ends(OutcomeFailed, 1, now.Add(10*time.Second)))},
		"created again":         {input(old), 1, OutcomeSucceeded, 0, base},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.outcome.Succeeded() && tc.want.Event == EventCreate {
				tc.want.Applied = "1.0.0"
			}
			got := Next(tc.in, Decision{Action: ActionRun, Attempt: tc.attempt}, "r2", tc.outcome, finished, tc.requeue)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextAfterAnOutage(t *testing.T) {
	last := func(o Outcome, attempt, unreached int) *Record {
		return record(func(r *Record) { r.Outcome, r.Attempt, r.Unreached = o, attempt, unreached })
	}
	retry := Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 3}
	canary := retry
	canary.Canary = true
	for name, tc := range map[string]struct {
		last    *Record
		d       Decision
		outcome Outcome
		want    Record
	}{
		"first run":                  {nil, runs(ReasonNew), OutcomeUnreachable, Record{Attempt: 1, Unreached: 1}},
		"after failures":             {last(OutcomeFailed, 2, 0), retry, OutcomeUnreachable, Record{Attempt: 3, Unreached: 1}},
		"again":                      {last(OutcomeUnreachable, 3, 1), retry, OutcomeUnreachable, Record{Attempt: 3, Unreached: 2, NextRetry: now.Add(10 * time.Second)}},
		"and again":                  {last(OutcomeUnreachable, 3, 3), retry, OutcomeUnreachable, Record{Attempt: 3, Unreached: 4, NextRetry: now.Add(90 * time.Second)}},
		"for days":                   {last(OutcomeUnreachable, 3, 999), retry, OutcomeUnreachable, Record{Attempt: 3, Unreached: 1000, NextRetry: now.Add(30 * time.Minute)}},
		"after a change":             {last(OutcomeUnreachable, 3, 3), runs(ReasonChanged), OutcomeUnreachable, Record{Attempt: 1, Unreached: 1}},
		"a canary":                   {last(OutcomeUnreachable, 3, 3), canary, OutcomeUnreachable, Record{Attempt: 3, Unreached: 3}},
		"the first run, a canary":    {nil, Decision{Action: ActionRun, Reason: ReasonNew, Attempt: 1, Canary: true}, OutcomeUnreachable, Record{Attempt: 1}},
		"the pod ends":               {last(OutcomeUnreachable, 3, 3), retry, OutcomeInterrupted, Record{Attempt: 3, Unreached: 3, NextRetry: now.Add(10 * time.Second)}},
		"the pod has ended":          {last(OutcomeInterrupted, 3, 3), retry, OutcomeUnreachable, Record{Attempt: 3, Unreached: 4, NextRetry: now.Add(90 * time.Second)}},
		"a canary's playbook failed": {last(OutcomeUnreachable, 3, 3), canary, OutcomeFailed, Record{Attempt: 3, NextRetry: now.Add(90 * time.Second)}},
		"then refused":               {last(OutcomeUnreachable, 3, 3), retry, OutcomeRefused, Record{Attempt: 3}},
		"cancelled":                  {last(OutcomeUnreachable, 3, 3), retry, OutcomeCancelled, Record{Attempt: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			r := Next(input(tc.last), tc.d, "r2", tc.outcome, now, 0)
			if got := (Record{Attempt: r.Attempt, Unreached: r.Unreached, NextRetry: r.NextRetry}); !cmp.Equal(tc.want, got) {
				t.Errorf("record (-want +got):\n%s", cmp.Diff(tc.want, got))
			}
		})
	}
}

func TestRunsThatAreLostAgainAndAgain(t *testing.T) {
	retry := Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 2}
	soon := now.Add(10 * time.Second)
	for name, tc := range map[string]struct {
		last  *Record
		d     Decision
		alone bool
		want  Record
	}{
		"at first":       {nil, run(ReasonNew, nil), false, Record{Lost: 1, NextRetry: soon}},
		"again":          {&Record{Lost: 1}, retry, false, Record{Lost: 2, NextRetry: soon}},
		"too often":      {&Record{Lost: 2}, retry, true, Record{Lost: 3}},
		"after a change": {&Record{Lost: 3}, run(ReasonChanged, nil), false, Record{Lost: 1, NextRetry: soon}},
	} {
		in := input(tc.last)
		r := Lost(in, tc.d, "r2", now)
		if got := (Record{Lost: r.Lost, NextRetry: r.NextRetry}); !cmp.Equal(tc.want, got) || r.Outcome != OutcomeInterrupted {
			t.Errorf("%s: record (-want +got):\n%s", name, cmp.Diff(tc.want, got))
		}
		if got := RunsAlone(in, tc.d); got != tc.alone {
			t.Errorf("%s: runs alone %v", name, got)
		}
	}
	for outcome, want := range map[Outcome]int{
		OutcomeSucceeded: 0, OutcomeFailed: 0, OutcomeUnreachable: 0, OutcomeRefused: 0, OutcomeCancelled: 0,
		OutcomeInterrupted: 2, // The pod was deleted: the playbook is not the reason.
	} {
		if got := Next(input(&Record{Lost: 2}), retry, "r2", outcome, now, 0).Lost; got != want {
			t.Errorf("%s: %d lost, want %d", outcome, got, want)
		}
	}
	rests := Decide(input(record(func(r *Record) { r.Outcome, r.Lost = OutcomeInterrupted, MaxLost })))
	if rests.Action != ActionSkip {
		t.Errorf("after the last one: %+v", rests)
	}
}

func TestRunsThatAreRefusedAgainAndAgain(t *testing.T) {
	retry := Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 2}
	for name, tc := range map[string]struct {
		last    *Record
		d       Decision
		outcome Outcome
		want    Record
	}{
		"at first":         {nil, run(ReasonNew, nil), OutcomeRefused, Record{Refused: 1}},
		"again":            {&Record{Refused: 1}, retry, OutcomeRefused, Record{Refused: 2, NextRetry: now.Add(10 * time.Second)}},
		"and again":        {&Record{Refused: 2}, retry, OutcomeRefused, Record{Refused: 3, NextRetry: now.Add(30 * time.Second)}},
		"after a change":   {&Record{Refused: 2}, run(ReasonChanged, nil), OutcomeRefused, Record{Refused: 1}},
		"the pod ends":     {&Record{Refused: 2}, retry, OutcomeInterrupted, Record{Refused: 2, NextRetry: now.Add(10 * time.Second)}},
		"then unreachable": {&Record{Refused: 2}, retry, OutcomeUnreachable, Record{}},
		"then successful":  {&Record{Refused: 2}, retry, OutcomeSucceeded, Record{}},
	} {
		r := Next(input(tc.last), tc.d, "r2", tc.outcome, now, 0)
		if got := (Record{Refused: r.Refused, NextRetry: r.NextRetry}); !cmp.Equal(tc.want, got) {
			t.Errorf("%s: record (-want +got):\n%s", name, cmp.Diff(tc.want, got))
		}
	}
}

// A request to run outside the windows is served by the next run that does not end because of its pod or its endpoint.
func TestNextServesRunNow(t *testing.T) {
	requested := func(in *Input) { in.RunNow = "n1" }
	in := input(nil, requested)
	served := input(record(func(r *Record) { r.RunNow = "n0" }), requested)
	for name, tc := range map[string]struct {
		got  Record
		want string
	}{
		"a run":           {Next(in, runs(ReasonNew), "r2", OutcomeSucceeded, now, 0), "n1"},
		"a failure":       {Next(in, runs(ReasonNew), "r2", OutcomeFailed, now, 0), "n1"},
		"a timeout":       {Next(in, runs(ReasonNew), "r2", OutcomeTimedOut, now, 0), "n1"},
		"its start":       {Next(in, runs(ReasonNew), "r2", OutcomeInterrupted, now, 0), ""},
		"unreachable":     {Next(in, runs(ReasonNew), "r2", OutcomeUnreachable, now, 0), ""},
		"refused":         {Next(in, runs(ReasonNew), "r2", OutcomeRefused, now, 0), ""},
		"its adoption":    {Baseline(in), "n1"},
		"again":           {Next(served, runs(ReasonAsked), "r2", OutcomeRequeued, now, 0), "n1"},
		"again, refused":  {Next(served, runs(ReasonAsked), "r2", OutcomeRefused, now, 0), "n0"},
		"again, at start": {Next(served, runs(ReasonAsked), "r2", OutcomeInterrupted, now, 0), "n0"},
	} {
		if tc.got.RunNow != tc.want {
			t.Errorf("%s: %q is served, want %q", name, tc.got.RunNow, tc.want)
		}
	}
}

// A pod that ends at any time leaves a record, and the next pod decides by it.
func TestRestart(t *testing.T) {
	in := input(nil)
	run := Decide(in)
	failure := Next(in, run, "r1", OutcomeFailed, now, 0)
	success := Next(in, run, "r1", OutcomeSucceeded, now, 0)
	adopted := Baseline(input(nil, baseline))
	gone := Next(input(&success, deleting), run, "r2", OutcomeSucceeded, now, 0)
	checkDecisions(t, map[string]decideCase{
		"new, ended before the outcome":     {input(nil), runs(ReasonNew)},
		"failed":                            {input(&failure), skips(10 * time.Second)},
		"successful":                        {input(&success), skips(0)},
		"adopted":                           {input(&adopted), skips(0)},
		"asked, and served":                 {input(&success), skips(0)},
		"asked, ended before the outcome":   {input(&success, asked), runs(ReasonAsked)},
		"changed, ended before the outcome": {input(&success, changed(TriggerSpec)), runs(ReasonChanged, TriggerSpec)},
		"delete play ended well":            {input(&gone, deleting), Decision{Action: ActionFinish}},
		"restored with its installation":    {input(&success, restored), skips(0)},
		"restored alone":                    {input(&success, recreated, baseline), runs(ReasonNew)},
		"created again":                     {input(&success, recreated), runs(ReasonNew)},
	})
}

// An annotation that somebody has put back is no record: status is newer.
func TestOlderRecord(t *testing.T) {
	older := record(func(r *Record) { r.RunID, r.Finished = "r0", ago(2*time.Hour) })
	status := func(last *LastRun) func(*Input) { return func(in *Input) { in.LastRun = last } }
	checkDecisions(t, map[string]decideCase{
		"after a failure":              {input(older), runs(ReasonNew)},
		"after a success":              {input(older, baseline), Decision{Action: ActionAdopt}},
		"before a deletion":            {input(older, deleting), runs(ReasonNew)},
		"status is lost":               {input(older, status(nil)), skips(0)},
		"status is restored and older": {input(record(nil), status(&LastRun{ID: "r0", Started: ago(2 * time.Hour)})), skips(0)},
		"status has not been written":  {input(record(nil), status(&LastRun{ID: "r0", Started: ago(time.Hour + time.Second)})), skips(0)},
	})
}

func TestAdopt(t *testing.T) {
	adopted := func(change func(*Record)) Record {
		return *record(func(r *Record) {
			r.RunID, r.Finished, r.Version, r.Digest, r.Applied = "", now, "1.0.0", "sha256:d", "1.0.0"
			change(r)
		})
	}
	for name, tc := range map[string]struct {
		last *LastRun
		want Record
	}{
		"no gate before": {nil, adopted(func(r *Record) { r.Requested = "" })},
		"record lost":    {&LastRun{ID: "r1", Version: "1.0.0", Digest: "sha256:d"}, adopted(func(*Record) {})},
		"record lost, before": {&LastRun{ID: "r1", Version: "0.9.0", Digest: "sha256:c"}, adopted(func(r *Record) {
			r.Version, r.Applied, r.Digest, r.Fingerprint.Collection = "0.9.0", "0.9.0", "sha256:c", ""
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got := Baseline(input(nil, baseline, func(in *Input) { in.LastRun = tc.last }))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
		})
	}
}
