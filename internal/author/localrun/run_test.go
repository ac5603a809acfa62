package localrun

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

func run1(t *testing.T, o Options) Result {
	t.Helper()
	result, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A Secret in a file is as it will be in a cluster, where a run waits for its label.
func TestSecretsThatAPlaybookReads(t *testing.T) {
	t.Parallel()
	need(t)
	login := startSSHD(t)
	for name, c := range map[string]struct {
		objects string
		values  []SecretValue
		want    string
	}{
		"in a file": {
			objects: "---\n{apiVersion: v1, kind: Secret, metadata: {name: db}, stringData: {password: p}}\n",
			want:    `the playbook was not run: Secret "db" does not exist, or does not allow its use by operators`,
		},
		"in a file, labelled": {
			objects: "---\n{apiVersion: v1, kind: Secret, metadata: {name: db, labels: {zoscb.ibm.com/runtime: 'true'}}, stringData: {password: p}}\n", want: "Succeeded",
		},
		"in no file": {values: []SecretValue{{Secret: "db", Key: "password", Value: []byte("p")}}, want: "Succeeded"},
	} {
		o, output := options(t, login, filepath.Join(t.TempDir(), "file"))
		if err := unstructured.SetNestedField(o.Objects[0].Object, "db", "spec", "secret"); err != nil {
			t.Fatal(err)
		}
		if c.objects != "" {
			o.Objects = append(o.Objects, objectsOf(t, c.objects)...)
		}
		o.Secrets = c.values
		if result := run1(t, o); !strings.HasPrefix(result.Summary(), c.want) {
			t.Errorf("%s: %s\n%s", name, result.Summary(), output)
		}
	}
}

func TestARunCreatesChecksAndDeletes(t *testing.T) {
	t.Parallel()
	need(t)
	login := startSSHD(t)
	path := filepath.Join(t.TempDir(), "file")

	o, output := options(t, login, path)
	result := run1(t, o)
	if !result.Succeeded() || statusOf(result.Resource)["phase"] != string(runstatus.PhaseSucceeded) {
		t.Fatalf("status %v\n%s", statusOf(result.Resource), output)
	}
	content, err := os.ReadFile(path)
	if want := "2 suboperator.zoscb.ibm.com/v1minor0patch0 team/one\n"; err != nil || string(content) != want {
		t.Errorf("the host has %q, %v, want %q", content, err, want)
	}
	if len(result.Writes) != 1 || !cmp.Equal(result.Writes[0].Status, map[string]any{"region": "ready"}) || statusOf(result.Resource)["region"] != "ready" {
		t.Errorf("k8s_status wrote %+v, status %v", result.Writes, statusOf(result.Resource))
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	o, output = options(t, login, path)
	o.Check = true
	result = run1(t, o)
	if reason := result.drifted()["reason"]; !result.Succeeded() || reason != runstatus.ReasonDrifted {
		t.Errorf("the check says %v\n%s", result.drifted(), output)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the check has created the file")
	}

	writeFile(t, path, "")
	o, output = options(t, login, path)
	o.Event = gate.EventDelete
	result = run1(t, o)
	if _, err := os.Stat(path); err == nil || !result.Succeeded() || result.Again != 0 {
		t.Errorf("the file is still there, or the deletion failed: %v\n%s", statusOf(result.Resource), output)
	}
}

func TestAnUnreachableHostIsAFailure(t *testing.T) {
	t.Parallel()
	need(t)
	login := startSSHD(t)
	known, err := os.ReadFile(login.KnownHosts)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing listens on port 1.
	_, hostKey, _ := strings.Cut(string(known), " ")
	writeFile(t, login.KnownHosts, "[127.0.0.1]:1 "+hostKey)
	login.Host = "somebody@127.0.0.1:1"
	o, output := options(t, login, "/nonexistent")
	result := run1(t, o)
	lastRun, _ := statusOf(result.Resource)["lastRun"].(map[string]any)
	if result.Succeeded() || !result.Ran || lastRun["outcome"] != string(gate.OutcomeUnreachable) {
		t.Errorf("status %v\n%s", statusOf(result.Resource), output)
	}
}

// lineWatcher cancels a run when its output has a text.
type lineWatcher struct {
	strings.Builder
	text   string
	cancel func()
}

func (w *lineWatcher) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.cancel()
	}
	return w.Builder.Write(p)
}

func TestAnInterruptCancelsTheRun(t *testing.T) {
	t.Parallel()
	need(t)
	login := startSSHD(t)
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "") // What the playbook starts ends with it.
	o, _ := options(t, login, file)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Source = sourceOf(t, "- hosts: all\n  gather_facts: false\n  tasks:\n    - name: Wait\n      ansible.builtin.shell: while test -e {{ path | quote }}; do sleep 1; done\n")
	watcher := &lineWatcher{text: "TASK [Wait]", cancel: cancel}
	o.Output = watcher
	result, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	lastRun, _ := statusOf(result.Resource)["lastRun"].(map[string]any)
	if result.Succeeded() || lastRun["outcome"] != string(gate.OutcomeCancelled) {
		t.Errorf("status %v\n%s", statusOf(result.Resource), watcher)
	}
}

func TestARunNeedsAHostKey(t *testing.T) {
	need(t)
	o, _ := options(t, startSSHD(t), "/x")
	o.Login.KnownHosts = os.DevNull
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "the host key of [127.0.0.1]:") {
		t.Errorf("got %v", err)
	}
}
