package runstatus

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func isMigrate(run *Run) { run.Reason, run.Version = gate.ReasonMigrate, "2.0.0" }

func migratedTo2(r *gate.Record) {
	r.Version, r.Migrated = "2.0.0", &gate.Migrated{From: "1.0.0", To: "2.0.0", RunID: "r2", Finished: t0}
}

func TestStatusOfAMigration(t *testing.T) {
	ok := Report{Ended: "successful"}
	found := EndCheck(nil, resource(), check(drifted, gate.OutcomeSucceeded))
	started := Start(found, resource(), newRun(isMigrate))
	if started["phase"] != "Running" || started["message"] != "the migration playbook is running" {
		t.Errorf("started: %v: %v", started["phase"], started["message"])
	}
	ended := End(started, resource(), newRun(isMigrate), ok, newRecord(gate.OutcomeSucceeded, migratedTo2))
	want := map[string]any{"from": "1.0.0", "to": "2.0.0", "finished": "2026-11-22T09:00:00Z"}
	if diff := cmp.Diff(want, ended["migration"]); diff != "" || ended["phase"] != "Succeeded" {
		t.Errorf("ended as %v: %s", ended["phase"], diff)
	}
	if typedStatus(t, ended).Drift.Checked == 0 {
		t.Error("a migration need not correct drift")
	}
	if got := MigrationTo("2.0.0", ended); got != MigrationDone {
		t.Errorf("state %q", got)
	}

	owed := End(started, resource(), newRun(isMigrate), ok, newRecord(gate.OutcomeSucceeded, migratedTo2, func(r *gate.Record) { r.Owed = true }))
	if owed["phase"] != "Waiting" {
		t.Errorf("ready before its playbook ran: %v", owed["phase"])
	}
	if generation := resource().Generation; IsBaseline(owed, generation) || !IsBaseline(ended, generation) {
		t.Error("without a record, the playbook would not run after the migration, or run although nothing has changed")
	}

	pending := func(r *gate.Record) {
		r.Version, r.Migration = "2.0.0", &gate.Migration{From: "1.0.0", To: "2.0.0"}
	}
	if again := End(started, resource(), newRun(isMigrate), ok, newRecord(gate.OutcomeRequeued, pending)); Applied(again) != "" || MigrationTo("2.0.0", again) != MigrationPending {
		t.Errorf("a migration that asked to run again: version %q", Applied(again))
	}
	failed := End(started, resource(), newRun(isMigrate), Report{Ended: "failed", Failures: []Failure{{Message: "in use"}}}, newRecord(gate.OutcomeFailed, pending, nextRetry))
	message, _ := failed["message"].(string)
	if failed["phase"] != "Failed" || !strings.HasPrefix(message, "migration: in use; attempt 1 of 6") || MigrationTo("2.0.0", failed) != MigrationFailed {
		t.Errorf("failed: %v: %s", failed["phase"], message)
	}
}

func TestLostStatusOfAMigration(t *testing.T) {
	restored := Skip(nil, resource(), newRecord(gate.OutcomeSucceeded, migratedTo2), gate.Decision{Action: gate.ActionSkip})
	run := runOf(restored)
	if run == nil || run.Reason != gate.ReasonMigrate || MigrationTo("2.0.0", restored) != MigrationDone {
		t.Errorf("restored: %+v", restored)
	}
	if again := Skip(restored, resource(), newRecord(gate.OutcomeSucceeded, migratedTo2), gate.Decision{Action: gate.ActionSkip}); !Equal(restored, again) {
		t.Error("it is written again")
	}
	if m := LastMigration(restored); m == nil || m.From != "1.0.0" || m.To != "2.0.0" || !m.Finished.Equal(t0) {
		t.Errorf("migration %+v", m)
	}
	if version := Applied(restored); version != "2.0.0" {
		t.Errorf("version %q", version)
	}

	older := End(restored, resource(), newRun(func(run *Run) { run.ID = "r3" }), Report{Ended: "successful"},
		newRecord(gate.OutcomeSucceeded, func(r *gate.Record) { r.RunID, r.Finished = "r3", t0.Add(time.Minute) }))
	if older["migration"] != nil {
		t.Error("the record has no migration any more")
	}
}

func TestMigrationFieldOfAnAuthor(t *testing.T) {
	for _, theirs := range []string{`migration: theirs`, `migration: {step: 2}`, `migration: {to: 2.0.0}`} {
		status := Skip(parse(t, theirs), resource(), newRecord(gate.OutcomeSucceeded), gate.Decision{Action: gate.ActionSkip})
		if diff := cmp.Diff(parse(t, theirs)["migration"], status["migration"]); diff != "" {
			t.Errorf("%s was changed: %s", theirs, diff)
		}
		if m := LastMigration(status); m != nil {
			t.Errorf("%s was read as %+v", theirs, m)
		}
	}
}
