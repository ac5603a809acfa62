package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/test/fixture"
)

const manager = "system:serviceaccount:ns:manager"

// event is one of the audit log.
func event(user, verb, uri, resource, name string, code int) fixture.AuditEvent {
	e := fixture.AuditEvent{Verb: verb, RequestURI: uri}
	e.User.Username, e.ResponseStatus.Code = user, code
	e.ObjectRef.Resource, e.ObjectRef.Namespace, e.ObjectRef.Name = resource, "ns", name
	return e
}

func counted() *fixture.Requests {
	requests := fixture.NewRequests()
	requests.Add(manager, []fixture.AuditEvent{
		event(manager, "get", "/api/v1/namespaces/ns/secrets/one", "secrets", "one", 404),
		event(manager, "patch", "/api/v1/namespaces/ns/secrets/one?dryRun=All", "secrets", "one", 200),
		event(manager, "patch", "/api/v1/namespaces/ns/secrets/one", "secrets", "one", 201),
		event(manager, "patch", "/api/v1/namespaces/ns/secrets/one", "secrets", "one", 200),
		event(manager, "patch", "/api/v1/namespaces/ns/secrets/two", "secrets", "two", 409),
		event(manager, "create", "/api/v1/namespaces/ns/events", "events", "", 201),
		event(manager, "get", "/apis?timeout=32s", "", "", 200),
		event("somebody", "create", "/api/v1/namespaces/ns/secrets", "secrets", "three", 201),
	})
	return requests
}

func TestRequests(t *testing.T) {
	p := Phase{Name: "install"}
	p.SetRequests(counted())
	if p.Total() != 7 || p.Objects != 1 || p.Writes != 2 || p.PerObject() != 7 {
		t.Errorf("got %d requests, %d objects, %d writes", p.Total(), p.Objects, p.Writes)
	}
	table := p.RequestTable(2)
	for _, want := range []string{"| 3 | 1.50 | patch | secrets |", "| 1 | 0.50 | patch (dry run) | secrets |", "| 1 | 0.50 | get | /apis |"} {
		if !strings.Contains(table, want+"\n") {
			t.Errorf("want %s in\n%s", want, table)
		}
	}
}

func TestResults(t *testing.T) {
	folder := t.TempDir()
	for round, seconds := range map[string]float64{"1": 10, "2": 30, "3": 20} {
		install := Phase{Name: "install", Seconds: seconds, CPUSeconds: 5, PeakBytes: 100 << 20}
		install.SetRequests(counted())
		scale := Scale{Collections: 10, Machine: Machine{Cores: 2, Processor: "Some", Kubernetes: "v1.36.3"}, Phases: []Phase{install, {Name: "a quiet minute", PeakBytes: 90 << 20}}}
		write(t, filepath.Join(folder, "install-10-"+round+".json"), scale)
	}
	write(t, filepath.Join(folder, "kubectl-10-1.json"), Peer{Name: "kubectl", Collections: 10, Objects: 100, Applied: 2, Available: 3, Established: 16})
	write(t, filepath.Join(folder, "waiting-10-1.json"), Scale{Collections: 10, Phases: []Phase{{Name: "another minute", Seconds: 60, Requests: []Requests{
		{fixture.Request{Verb: "patch", Resource: "secrets", DryRun: true}, 30}, {fixture.Request{Verb: "get", Resource: "secrets"}, 30},
	}}}})
	if err := os.WriteFile(filepath.Join(folder, "profile-cpu-10.txt"), []byte("Showing nodes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	results, err := Read(folder)
	if err != nil {
		t.Fatal(err)
	}
	text := results.Markdown("benchmarks/scale")
	for _, want := range []string{
		"Measured on 2 cores of Some",
		"| 10 | 100 | 20.0 s (10.0 s to 30.0 s) | 2.0 s | 16.0 s | 1.25 | - |\n",
		"| 10 | 7.0 (7.0 to 7.0) | 0.50 s (0.50 s to 0.50 s) | 100 MiB (100 MiB to 100 MiB) | 0 (0 to 0), 90 MiB (90 MiB to 90 MiB) | - | - | - | - |\n",
		"| 10 | - | 1.00 | 0.50 | 0.0 s | - | - | - |\n",
		"[profile-cpu-10.txt](benchmarks/scale/profile-cpu-10.txt):\n\n```\nShowing nodes\n```\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("want %s in\n%s", want, text)
		}
	}
	if svg := results.SVG("dark"); !strings.Contains(svg, "kubectl apply") {
		t.Error(svg)
	}
}

func TestReplaceSection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "text.md")
	if err := os.WriteFile(file, []byte("before\n<!-- begin one -->\nold\n<!-- end one -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := ReplaceSection(file, "one", "new\n"); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "before\n<!-- begin one -->\n\nnew\n\n<!-- end one -->\nafter\n"; string(content) != want {
		t.Errorf("got %q", content)
	}
	if err := ReplaceSection(file, "two", "new"); err == nil {
		t.Error("a section that is not there was replaced")
	}
}

func write(t *testing.T, file string, measurement any) {
	t.Helper()
	if err := Write(file, measurement); err != nil {
		t.Fatal(err)
	}
}
