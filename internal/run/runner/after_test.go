package runner

import (
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/answer"
)

func TestAnswerAfterARun(t *testing.T) {
	plain, secret := gate.KindSettings{}, gate.KindSettings{Variables: []gate.Variable{{Name: "password", Secret: true}}}
	tests := map[string]struct {
		kind    gate.KindSettings
		event   gate.Event
		outcome gate.Outcome
		requeue time.Duration
		attempt int
		want    answer.Answer
	}{
		"success":                      {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, want: answer.Answer{Done: true}},
		"success, Secrets are checked": {kind: secret, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, want: answer.Again(gate.RecheckInterval)},
		"requeue_after":                {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, requeue: time.Minute, want: answer.Again(time.Minute)},
		"failure":                      {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeFailed, want: answer.Again(10 * time.Second)},
		"last retry":                   {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeFailed, attempt: 6, want: answer.Again(0)},
		"cancelled":                    {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeCancelled, want: answer.Again(0)},
		"delete":                       {kind: secret, event: gate.EventDelete, outcome: gate.OutcomeSucceeded, want: answer.Answer{Done: true}},
		"delete, requeue_after":        {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeSucceeded, requeue: time.Minute, want: answer.Again(time.Minute)},
		"delete failed":                {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeFailed, want: answer.Again(10 * time.Second)},
		"delete cancelled":             {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeCancelled, want: answer.Again(0)},
		"delete, last retry":           {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeFailed, attempt: 6, want: answer.Again(0)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := gate.Input{
				Settings: &gate.Settings{MaxRetries: 5, RerunOn: gate.DefaultRerunOn()}, Kind: test.kind, Event: test.event, UID: "a", Now: time.Now(),
				LastRun: &gate.LastRun{ID: "41", Started: time.Now()}, // The one before, in the same second.
			}
			d := gate.Decision{Action: gate.ActionRun, Attempt: max(test.attempt, 1)}
			record := gate.Next(in, d, "42", test.outcome, time.Now(), test.requeue)
			got := after(situation{input: in, decision: d}, record)
			// Records have whole seconds.
			if got.Done != test.want.Done || test.want.After-got.After > time.Second || got.After > test.want.After {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
