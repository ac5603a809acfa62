package gate

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upgraded is the input for a resource without fields that ran with versionOne, and now has versionTwo with a migration playbook.
func upgraded(last *Record, spec map[string]any, set Set, accepts bool) (Input, Supply) {
	s, vars := supply(versionTwo, spec, set, last, accepts)
	return Input{
		Settings: &Settings{Version: "2.0.0", MigrationPlaybook: "/migrate.yml", RerunOn: DefaultRerunOn()}, Event: EventCreate, Record: last,
		Accepts: accepts, Defaults: s.RanWith(vars), Now: now,
		Current: s.Fingerprint(key, Facts{Event: EventCreate, Variables: vars, Digest: "sha256:2"}),
	}, s
}

func TestMigrationChangesNoDefaults(t *testing.T) {
	first := ranAs(versionOne, "sha256:1", nil)
	first.Applied = "1.0.0"
	former, _ := versionOne.Declared(nil)
	last := first
	for _, outcome := range []Outcome{OutcomeInterrupted, OutcomeSucceeded} {
		migration, _ := upgraded(last, nil, Set{}, false)
		record := Next(migration, migration.asMigration(run(ReasonMigrate, nil)), "2", outcome, now, 0)
		last = &record
		in, s := upgraded(last, nil, Set{}, false)
		vars, _ := s.Declared(nil)
		if diff := cmp.Diff(string(document(former)), string(document(s.WithoutNew(vars)))); diff != "" {
			t.Errorf("%s: what others depend on has changed (-before +after):\n%s", outcome, diff)
		}
		if got := names(s.New(key, nil)); got != "added gained" {
			t.Errorf("%s: new: %s", outcome, got)
		}
		if d := Decide(in); outcome == OutcomeSucceeded && d.Action != ActionSkip {
			t.Errorf("after the migration: %+v", d)
		}
	}
}

func TestAcceptedDefaultsOfListsAfterMigration(t *testing.T) {
	spec := func(b string) map[string]any { return map[string]any{"items": []any{item("1", b)}} }
	last := ranAs(versionOne, "sha256:1", spec("x"))
	last.Applied = "1.0.0"
	last.Fingerprint.Variables = map[string]string{}
	for _, accepts := range []bool{false, true} {
		in, _ := upgraded(last, spec("y"), Set{}, accepts)
		in.Current.Variables = map[string]string{}
		record := Next(in, Decide(in), "2", OutcomeSucceeded, now, 0)
		if record.Owed != accepts {
			t.Errorf("accepted: %t, the playbook is to run: %t", accepts, record.Owed)
		}
	}
}

func TestDefaultThatSomebodyHasSet(t *testing.T) {
	last := ranAs(versionOne, "sha256:1", map[string]any{"lost": int64(2)})
	last.Defaults = nil // As of an earlier gate.
	spec := map[string]any{"mode": "y", "lost": int64(2)}
	for name, tc := range map[string]struct {
		set  Set
		want Action
	}{
		"nobody":        {Set{}, ActionSkip},
		"owned":         {Set{owners: []map[string]any{{"f:mode": map[string]any{}}}}, ActionRun},
		"applied":       {Set{applied: map[string]any{"mode": "y"}}, ActionRun},
		"others only":   {Set{owners: []map[string]any{{"f:lost": map[string]any{}}}, applied: map[string]any{"title": "t"}}, ActionSkip},
		"a new default": {Set{owners: []map[string]any{{"f:gained": map[string]any{}}}}, ActionSkip},
	} {
		in, s := upgraded(last, spec, tc.set, false)
		in.Settings.MigrationPlaybook = ""
		if d := Decide(in); d.Action != tc.want {
			t.Errorf("%s: %+v", name, d)
		}
		record := Next(in, Decision{Action: ActionRun}, "2", OutcomeSucceeded, now, 0)
		var again Record
		if err := json.Unmarshal(document(record), &again); err != nil {
			t.Fatal(err)
		}
		in, _ = upgraded(&again, spec, s.set, false)
		in.Settings.MigrationPlaybook = ""
		if d := Decide(in); d.Action != ActionSkip {
			t.Errorf("%s: after the run: %+v", name, d)
		}
	}
}
