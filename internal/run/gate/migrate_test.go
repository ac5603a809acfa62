package gate

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// migrating makes 2.0.0 the installed version, which has a migration playbook.
func migrating(in *Input) {
	in.Settings.Version, in.Settings.MigrationPlaybook = "2.0.0", "/opt/ansible/content/migrate.yml"
	in.Current.Collection = "c2"
}

// at returns a record whose last success was by a version.
func at(version string, changes ...func(*Record)) *Record {
	return record(func(r *Record) {
		r.Version, r.Applied = version, version
		for _, change := range changes {
			change(r)
		}
	})
}

// attempted is the record of a migration from 1.0.0 to 2.0.0 that ended with an outcome.
func attempted(outcome Outcome, changes ...func(*Record)) *Record {
	return at("1.0.0", append([]func(*Record){func(r *Record) {
		r.Version, r.Outcome, r.Attempt = "2.0.0", outcome, 1
		r.Migration = &Migration{From: "1.0.0", To: "2.0.0", Fingerprint: Fingerprint{Spec: "before"}}
		r.Fingerprint.Collection = "c2"
	}}, changes...)...)
}

func migrates(d Decision, m Migration) Decision {
	d.Migration = &m
	return d
}

func TestDecideMigration(t *testing.T) {
	fresh := Migration{From: "1.0.0", To: "2.0.0", Fingerprint: current}
	again := Migration{From: "1.0.0", To: "2.0.0", Fingerprint: Fingerprint{Spec: "before"}}
	owed := func(m Migration) Migration {
		m.Owed = true
		return m
	}
	unset := func(r *Record) { r.Applied = "" }
	lost := func(in *Input) { in.Applied, in.LastRun = "1.0.0", nil }
	failedBefore := func(r *Record) { r.Outcome, r.NextRetry = OutcomeFailed, ago(time.Minute) }
	due := func(r *Record) { r.NextRetry = ago(time.Second) }
	later := func(r *Record) { r.NextRetry = ago(-time.Minute) }
	other := func(version string) func(*Input) { return func(in *Input) { in.Settings.Version = version } }
	without := func(in *Input) { in.Settings.MigrationPlaybook = "" }
	checkDecisions(t, map[string]decideCase{
		"nothing else is to run":              {input(at("1.0.0"), migrating), migrates(runs(ReasonMigrate), fresh)},
		"record of an earlier gate":           {input(at("1.0.0", unset), migrating), migrates(runs(ReasonMigrate), fresh)},
		"spec changed":                        {input(at("1.0.0"), migrating, changed(TriggerSpec)), migrates(runs(ReasonMigrate), fresh)},
		"run requested":                       {input(at("1.0.0"), migrating, asked), migrates(runs(ReasonMigrate), owed(fresh))},
		"run failed before":                   {input(at("1.0.0", failedBefore), migrating), migrates(runs(ReasonMigrate), owed(fresh))},
		"playbook asked to run again":         {input(at("1.0.0", func(r *Record) { r.Outcome = OutcomeRequeued }), migrating), migrates(runs(ReasonMigrate), owed(fresh))},
		"status alone has the last success":   {input(nil, migrating, lost), migrates(runs(ReasonMigrate), owed(Migration{From: "1.0.0", To: "2.0.0", Fingerprint: Fingerprint{Spec: "s", Secret: "p", Collection: "c2", Endpoint: "e"}}))},
		"status alone has the present run":    {input(nil, migrating, lost, baseline), migrates(runs(ReasonMigrate), Migration{From: "1.0.0", To: "2.0.0", Fingerprint: Fingerprint{Spec: "s", Secret: "p", Collection: "c2", Endpoint: "e"}})},
		"status alone has the last run":       {input(nil, migrating, baseline), migrates(runs(ReasonMigrate), Migration{From: "1.0.0", To: "2.0.0", Fingerprint: Fingerprint{Spec: "s", Secret: "p", Collection: "c2", Endpoint: "e"}})},
		"another run has not ended":           {input(at("1.0.0"), migrating, running), Decision{Action: ActionWait, After: 10 * time.Second}},
		"new":                                 {input(nil, migrating), runs(ReasonNew)},
		"no success yet":                      {input(at("", failedBefore), migrating), Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 1, Changed: []Trigger{TriggerCollection}}},
		"successful without a known version":  {input(nil, migrating, baseline, func(in *Input) { in.LastRun = nil }), Decision{Action: ActionAdopt}},
		"created again":                       {input(at("1.0.0"), migrating, recreated, func(in *Input) { in.Applied = "1.0.0" }), runs(ReasonNew)},
		"deleting":                            {input(at("1.0.0"), migrating, deleting), runs(ReasonChanged, TriggerSpec, TriggerCollection)},
		"same version":                        {input(at("2.0.0"), migrating), skips(0, TriggerCollection)},
		"newer version":                       {input(at("2.1.0"), migrating), skips(0, TriggerCollection)},
		"version without a playbook":          {input(at("1.0.0"), migrating, without), skips(0, TriggerCollection)},
		"failed, retry due":                   {input(attempted(OutcomeFailed, due), migrating), migrates(Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 2}, again)},
		"failed, retry later":                 {input(attempted(OutcomeFailed, later), migrating), skips(time.Minute)},
		"failed, no more retries":             {input(attempted(OutcomeFailed), migrating), skips(0)},
		"failed, edited":                      {input(attempted(OutcomeFailed), migrating, changed(TriggerSpec)), migrates(runs(ReasonChanged, TriggerSpec), again)},
		"failed, requested":                   {input(attempted(OutcomeFailed), migrating, asked), migrates(runs(ReasonAsked), again)},
		"failed, a drift check is due":        {input(attempted(OutcomeFailed), migrating, func(in *Input) { in.Kind.CheckMode, in.CheckAsked = true, "c1" }), skips(0)},
		"failed, another version":             {input(attempted(OutcomeFailed), migrating, other("3.0.0")), migrates(runs(ReasonMigrate), Migration{From: "1.0.0", To: "3.0.0", Fingerprint: Fingerprint{Spec: "before"}})},
		"failed, deleting":                    {input(attempted(OutcomeFailed), migrating, deleting), runs(ReasonChanged, TriggerSpec)},
		"failed, returned to the version":     {input(attempted(OutcomeFailed), migrating, other("1.0.0")), runs(ReasonRetry)},
		"unreachable":                         {input(attempted(OutcomeUnreachable), migrating), migrates(Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 1}, again)},
		"interrupted, retry due":              {input(attempted(OutcomeInterrupted, due), migrating), migrates(Decision{Action: ActionRun, Reason: ReasonRetry, Attempt: 1}, again)},
		"asked to run again":                  {input(attempted(OutcomeRequeued, func(r *Record) { r.Due = ago(-time.Minute) }), migrating), skips(time.Minute)},
		"asked to run again, due":             {input(attempted(OutcomeRequeued, func(r *Record) { r.Due = ago(time.Minute) }), migrating), migrates(runs(ReasonDue), again)},
		"migrated, the playbook is still due": {input(at("2.0.0", func(r *Record) { r.Owed = true }), migrating), runs(ReasonRetry, TriggerCollection)},
	})
}

func TestNextAfterMigration(t *testing.T) {
	base := Fingerprint{Spec: "s", Secret: "p", Collection: "c", Endpoint: "e"}
	d := migrates(runs(ReasonMigrate), Migration{From: "1.0.0", To: "2.0.0", Fingerprint: base})
	done := func(collection string, owed bool) *Record {
		return at("2.0.0", func(r *Record) {
			r.RunID, r.Finished, r.Digest = "r2", now, "sha256:d"
			r.Fingerprint.Collection, r.Owed = collection, owed
			r.Migrated = &Migrated{From: "1.0.0", To: "2.0.0", RunID: "r2", Finished: now}
		})
	}
	for name, tc := range map[string]struct {
		in      Input
		outcome Outcome
		want    *Record
		next    Decision
	}{
		"succeeded": {input(at("1.0.0"), migrating), OutcomeSucceeded, done("c2", false), skips(0)},
		"succeeded, new versions start playbooks": {
			input(at("1.0.0"), migrating, rerunOn(TriggerCollection)), OutcomeSucceeded, done("c", true), runs(ReasonChanged, TriggerCollection),
		},
		"succeeded, edited before": {
			input(at("1.0.0"), migrating, changed(TriggerSpec)), OutcomeSucceeded, done("c2", true), runs(ReasonChanged, TriggerSpec),
		},
		"failed": {
			input(at("1.0.0"), migrating), OutcomeFailed,
			attempted(OutcomeFailed, func(r *Record) {
				r.RunID, r.Finished, r.Digest, r.NextRetry = "r2", now, "sha256:d", now.Add(10*time.Second)
				r.Migration.Fingerprint = base
			}),
			skips(10 * time.Second),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Next(tc.in, d, "r2", tc.outcome, now, 0)
			if diff := cmp.Diff(*tc.want, got); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			if !got.OfMigration() {
				t.Error("the record does not say that the run was a migration")
			}
			in := tc.in
			in.Record, in.LastRun = &got, nil
			if diff := cmp.Diff(tc.next, Decide(in)); diff != "" {
				t.Errorf("next decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMigrationIsForgottenByAnOlderRun(t *testing.T) {
	migrated := &Migrated{From: "1.0.0", To: "2.0.0", RunID: "r1", Finished: now}
	for version, want := range map[string]*Migrated{"1.0.0": nil, "2.0.0": migrated, "2.1.0": migrated} {
		in := input(at("2.0.0", func(r *Record) { r.Migrated = migrated }), func(in *Input) { in.Settings.Version = version })
		got := Next(in, runs(ReasonAsked), "r2", OutcomeSucceeded, now, 0)
		if diff := cmp.Diff(want, got.Migrated); diff != "" || got.Applied != version || got.OfMigration() {
			t.Errorf("%s: applied %s, migration %v", version, got.Applied, got.Migrated)
		}
		failed := Next(in, runs(ReasonAsked), "r2", OutcomeFailed, now, 0)
		if failed.Migrated != migrated || failed.Applied != "2.0.0" {
			t.Errorf("%s: a failed run has changed the versions: %+v", version, failed)
		}
	}
}

func TestAnotherResourceHasNoVersion(t *testing.T) {
	got := Next(input(at("1.0.0"), recreated), runs(ReasonNew), "r2", OutcomeFailed, now, 0)
	if got.Applied != "" || got.Migrated != nil {
		t.Errorf("a resource that was created again has version %q, migration %v", got.Applied, got.Migrated)
	}
}

func TestAdoptedResourceIsNotOneOfAMigration(t *testing.T) {
	in := input(nil, baseline, func(in *Input) {
		in.Applied, in.Migrated = "1.0.0", &Migrated{From: "0.9.0", To: "1.0.0", Finished: now}
	})
	if got := Baseline(in); got.OfMigration() || got.Migrated != in.Migrated {
		t.Errorf("got %+v", got)
	}
}

func TestStopsMigrations(t *testing.T) {
	migration := migrates(runs(ReasonMigrate), Migration{})
	for outcome, want := range map[Outcome]bool{
		OutcomeFailed: true, OutcomeTimedOut: true, OutcomeCancelled: true,
		OutcomeSucceeded: false, OutcomeRequeued: false, OutcomeInterrupted: false, OutcomeUnreachable: false, OutcomeRefused: false,
	} {
		if got := migration.StopsMigrations(outcome); got != want {
			t.Errorf("%s: got %t", outcome, got)
		}
		if runs(ReasonRetry).StopsMigrations(outcome) {
			t.Errorf("%s of another playbook stops migrations", outcome)
		}
	}
	if migration.RunReason() != ReasonMigrate || runs(ReasonRetry).RunReason() != ReasonRetry {
		t.Error("wrong reasons in status")
	}
}

func TestMigrationVars(t *testing.T) {
	given := map[string]any{"size": 1, "zoscb_playbook": "/author.yml", "k8s_cr_event": "create"}
	got := Migration{From: "1.0.0", To: "2.0.0"}.Vars(given, "/migrate.yml")
	want := map[string]any{
		"size": 1, "zoscb_playbook": "/migrate.yml", "k8s_cr_event": "create",
		"zoscb_migrate": map[string]any{"from": map[string]any{unsafeKey: "1.0.0"}, "to": map[string]any{unsafeKey: "2.0.0"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	if given["zoscb_playbook"] != "/author.yml" {
		t.Error("the given variables have changed")
	}
	vars, ignored := KindSettings{Variables: []Variable{{Name: "zoscb_migrate"}}}.Declared(map[string]any{"zoscb_migrate": "evil"})
	if _, set := vars["zoscb_migrate"]; set || len(ignored) != 1 {
		t.Errorf("a resource can set zoscb_migrate: %v, ignored %v", vars, ignored)
	}
}
