package suboperatorconfig

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

func TestWarningsOfInstallationsAreBounded(t *testing.T) {
	if got := boundWarnings(nil); got != nil {
		t.Errorf("warnings without a cause: %v", got)
	}
	if diff := cmp.Diff([]string{"a", "b"}, boundWarnings([]string{"b", "a", "b"})); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	var many []string
	for i := range upgradecheck.MaxWarnings + 5 {
		many = append(many, string(rune('a'+i)))
	}
	got := boundWarnings(many)
	if len(got) != upgradecheck.MaxWarnings+1 || got[upgradecheck.MaxWarnings] != "5 more warnings" {
		t.Errorf("%d warnings, the last is %q", len(got), got[len(got)-1])
	}
}

func TestReadySince(t *testing.T) {
	past := metav1.Unix(1000, 0)
	ready := &v2beta2.InstallationStatus{Digest: newArchive, Ready: true, ReadySince: &past}
	for name, test := range map[string]struct {
		was, is *v2beta2.InstallationStatus
		want    *metav1.Time // Nil and a time that is not past are now.
	}{
		"still":                   {ready, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, &past},
		"with another archive":    {ready, &v2beta2.InstallationStatus{Digest: oldArchive, Ready: true}, nil},
		"again":                   {&v2beta2.InstallationStatus{Digest: newArchive}, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
		"for the first time":      {nil, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
		"since before it counted": {&v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, &v2beta2.InstallationStatus{Digest: newArchive, Ready: true}, nil},
	} {
		got := readySince(test.was, test.is)
		if got == nil || test.want != nil && !got.Equal(test.want) || test.want == nil && time.Since(got.Time) > time.Minute {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got := readySince(ready, &v2beta2.InstallationStatus{Digest: newArchive}); got != nil {
		t.Errorf("not ready since %v", got)
	}
}

// Delays grow while an object waits for the same, and begin again when it waits for something else.
func TestWaits(t *testing.T) {
	w, begin := newWaits(), time.Now()
	for _, test := range []struct {
		text        string
		delay       time.Duration
		after, want time.Duration
	}{
		{"a", 5 * time.Second, 0, 5 * time.Second},
		{"a", 5 * time.Second, 10 * time.Second, 5 * time.Second},
		{"a", 5 * time.Second, 4 * time.Minute, time.Minute},
		{"a", 5 * time.Second, time.Hour, 5 * time.Minute},
		{"b", 5 * time.Second, time.Hour, 5 * time.Second},
		{"b", time.Minute, 2 * time.Hour, 5 * time.Minute},
		{"b", time.Second, 3 * time.Hour, time.Second},
		{"b", 0, 3 * time.Hour, 0},
		{"b", 5 * time.Second, 4 * time.Hour, 5 * time.Second},
	} {
		if got := w.delay(types.UID("u"), test.text, test.delay, begin.Add(test.after)); got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

func TestMigrationProgress(t *testing.T) {
	item := func(name string, state map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Thing", "metadata": map[string]any{"namespace": "team", "name": name}}}
		if state != nil {
			u.Object["status"] = state
		}
		return u
	}
	success := func(version string) map[string]any {
		return map[string]any{"lastSuccess": map[string]any{"id": "1", "event": "create", "outcome": "Succeeded", "version": version}}
	}
	done := map[string]any{"migration": map[string]any{"from": "1.0.0", "to": "2.0.0", "finished": "2026-11-22T10:00:00Z"}}
	attempt := func(outcome string) map[string]any {
		run := map[string]any{"id": "2", "event": "create", "reason": "Migrate", "version": "2.0.0", "started": "2026-11-22T10:00:00Z"}
		if outcome != "" {
			run["outcome"] = outcome
		}
		return map[string]any{"lastRun": run}
	}
	going := item("going", success("1.0.0"))
	going.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	notCounted := []*unstructured.Unstructured{
		going, item("new", nil), item("current", success("2.0.0")), item("newer", success("2.1.0")), item("odd", map[string]any{"lastRun": "x", "migration": 1}),
	}
	for name, tc := range map[string]struct {
		items        []*unstructured.Unstructured
		reason, text string
	}{
		"none":    {notCounted, "", "no custom resource has to be migrated to version 2.0.0"},
		"all":     {append(notCounted, item("a", done)), "", "1 of 1 custom resources are migrated to version 2.0.0"},
		"pending": {append(notCounted, item("a", done), item("b", success("1.0.0")), item("c", attempt("")), item("d", attempt("Unreachable"))), "Migrating", "1 of 4 custom resources are migrated"},
		"failed": {
			[]*unstructured.Unstructured{item("a", attempt("Failed")), item("b", attempt("TimedOut")), item("c", success("1.9.0"))}, "MigrationFailed",
			"0 of 3 custom resources are migrated; the migration playbook failed for Thing team/a, Thing team/b: see their status, and run it again with \"kubectl collection rerun\" or delete them, so that the others go on",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p migrationProgress
			for _, item := range tc.items {
				p.add(item, "2.0.0")
			}
			err := status.AsError(p.err())
			got := p.message("2.0.0")
			reason := ""
			if err != nil {
				reason, got = err.Reason, err.Error()
			}
			if reason != tc.reason || got != tc.text {
				t.Errorf("got %s: %s", reason, got)
			}
		})
	}
	var many migrationProgress
	for i := range 20 {
		many.add(item(fmt.Sprint(i), attempt("Failed")), "2.0.0")
	}
	if n := len(many.err().Error()); n > 400 {
		t.Errorf("the message has %d bytes", n)
	}
}
