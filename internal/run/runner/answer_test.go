package runner

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestAnswerAfterARun(t *testing.T) {
	plain, secret := gate.KindSettings{}, gate.KindSettings{Variables: []gate.Variable{{Name: "password", Secret: true}}}
	tests := map[string]struct {
		kind    gate.KindSettings
		event   gate.Event
		outcome gate.Outcome
		requeue time.Duration
		attempt int
		want    answer
	}{
		"success":                      {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, want: answer{done: true}},
		"success, Secrets are checked": {kind: secret, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, want: askAgain(gate.RecheckInterval)},
		"requeue_after":                {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeSucceeded, requeue: time.Minute, want: askAgain(time.Minute)},
		"failure":                      {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeFailed, want: askAgain(10 * time.Second)},
		"last retry":                   {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeFailed, attempt: 6, want: askAgain(0)},
		"cancelled":                    {kind: plain, event: gate.EventCreate, outcome: gate.OutcomeCancelled, want: askAgain(0)},
		"delete":                       {kind: secret, event: gate.EventDelete, outcome: gate.OutcomeSucceeded, want: answer{done: true}},
		"delete, requeue_after":        {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeSucceeded, requeue: time.Minute, want: askAgain(time.Minute)},
		"delete failed":                {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeFailed, want: askAgain(10 * time.Second)},
		"delete cancelled":             {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeCancelled, want: askAgain(0)},
		"delete, last retry":           {kind: plain, event: gate.EventDelete, outcome: gate.OutcomeFailed, attempt: 6, want: askAgain(0)},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := gate.Input{
				Settings: &gate.Settings{MaxRetries: 5, RerunOn: gate.DefaultRerunOn()}, Kind: test.kind, Event: test.event, UID: "a", Now: time.Now(),
				LastRun: &gate.LastRun{ID: "41", Started: time.Now()}, // The one before, in the same second.
			}
			d := gate.Decision{Action: gate.ActionRun, Attempt: max(test.attempt, 1)}
			record := gate.Next(in, d, "42", test.outcome, time.Now(), test.requeue)
			got := (&runner{}).after(situation{input: in, decision: d}, record)
			// Records have whole seconds.
			if got.done != test.want.done || test.want.after-roundUp(got.after) > time.Second || roundUp(got.after) > test.want.after {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFilesOfACall(t *testing.T) {
	vars := map[string]any{
		"ansible_operator_meta": map[string]any{"namespace": "team", "name": "one"}, "k8s_cr_kind": "Region", "k8s_cr_event": "create",
	}
	without := func(name string) map[string]any {
		rest := maps.Clone(vars)
		delete(rest, name)
		return rest
	}
	key := strings.Repeat("k", gate.RecordKeyBytes)
	settings := `{"kinds": {"Region": {"plural": "regions"}}}`
	tests := map[string]struct {
		settings, key string
		vars          map[string]any
		want          string
	}{
		"complete":     {settings, key, vars, ""},
		"no settings":  {"", key, vars, "runs.json"},
		"no JSON":      {"{", key, vars, "runs.json"},
		"other kind":   {`{"kinds": {}}`, key, vars, `kind "Region" is not in runs.json`},
		"no key":       {settings, "", vars, "record.key"},
		"short key":    {settings, "k", vars, "record.key has 1 bytes instead of 32"},
		"no event":     {settings, key, without("k8s_cr_event"), "the extra vars do not name a resource and an event"},
		"no resource":  {settings, key, without("ansible_operator_meta"), "the extra vars do not name a resource and an event"},
		"no variables": {settings, key, nil, "extravars"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("ZOSCB_SETTINGS", filepath.Join(dir, gate.SettingsFile))
			t.Setenv("ZOSCB_ENDPOINTS_DIR", dir)
			t.Setenv("ZOSCB_STATE_DIR", dir)
			apiserver.Must(t, os.Mkdir(filepath.Join(dir, "env"), 0o700))
			content := ""
			if test.vars != nil {
				encoded, err := json.Marshal(test.vars)
				apiserver.Must(t, err)
				content = string(encoded)
			}
			for path, content := range map[string]string{gate.SettingsFile: test.settings, gate.RecordKeyFile: test.key, "env/extravars": content} {
				if content != "" {
					apiserver.Must(t, os.WriteFile(filepath.Join(dir, path), []byte(content), 0o600))
				}
			}
			f, err := readFiles(dir)
			if test.want == "" {
				apiserver.Must(t, err)
				if f.kind.Plural != "regions" || f.namespace != "team" || f.name != "one" || f.event != gate.EventCreate {
					t.Errorf("got %+v", f)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}
