package runs

import (
	"bytes"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

const (
	hostKey      = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJtN5hrV/0df2F4fj+AGh+1zWYoH+SspTza3KU5DiGdu"
	otherHostKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJgthQLZuK8DhVz5hdiCNA0aC0ls6w0zHmZouP4NkwI1"
)

// zosEndpoints are the endpoints of a namespace, as the API server returns them.
var zosEndpoints = []string{`
metadata: {namespace: zos, name: lpar1}
spec:
  host: LPAR1.example.com
  hostKeys: ["` + hostKey + `", "` + otherHostKey + ` of the spare"]
  maxConcurrentRuns: 4
  runWindows: [{schedule: 0 8 * * *, duration: 2h}]
status:
  latency: 12ms
  conditions:
  - {type: Reachable, status: "True", reason: Succeeded, message: it answers, lastTransitionTime: 2026-11-20T09:00:00Z}
  - {type: CredentialAccepted, status: "True", reason: Succeeded, message: runs logged on as ibmuser, lastTransitionTime: 2026-11-21T09:00:00Z}
`, `
metadata: {namespace: zos, name: lpar1-batch}
spec: {host: lpar1.example.com, maxConcurrentRuns: 2, hostKeys: [not a key], runWindows: [{schedule: 0 22 * * 1-5, duration: 2h}]}
`, `
metadata: {namespace: zos, name: lpar2}
spec: {host: "2001:db8::1", port: 2022, hold: "IPL\e[31m at noon\nsecond line"}
status:
  pinnedFor: "[2001:db8::1]:2022"
  hostKeys: ["` + hostKey + `"]
  conditions:
  - {type: Reachable, status: "False", reason: HostUnreachable, message: connection refused, lastTransitionTime: 2026-11-22T09:05:00Z}
  - {type: CredentialAccepted, status: "False", reason: CredentialRefused, message: user ibmuser was refused, lastTransitionTime: 2026-11-22T08:00:00Z}
`, `
metadata: {namespace: zos, name: moved}
spec: {host: new.example.com, runWindows: [{schedule: 0 0 30 2 *, duration: 1h}]}
status: {pinnedFor: "old.example.com:22", hostKeys: ["` + hostKey + `"]}
`, `
metadata: {namespace: zos, name: pod}
spec: {endpointType: local, runWindows: [{schedule: "@daily", duration: 1h}]}
`}

// usingResources are custom resources that name an endpoint.
var usingResources = []struct{ endpoint, status string }{
	{"lpar1", "{" + clitest.RunningRun + ", user: IBMUSER}}"},
	{"lpar1", "{" + clitest.EndedRun + "}"},
	{"lpar1", "{waiting: {reason: EndpointBusy, message: it waits, since: 2026-11-22T09:00:00Z}}"},
	{"lpar1", "{waiting: {reason: EndpointBusy, message: it waits, since: 2026-11-22T09:00:00Z}, lastRun: {id: old, event: create, reason: New, started: 2026-11-22T08:00:00Z, outcome: Failed, endpoint: lpar1, user: OLDUSER}}"},
	// It was moved to another endpoint while its playbook is running.
	{"moved", "{" + clitest.RunningRun + "}, waiting: {reason: EndpointHeld, message: it waits, since: 2026-11-22T09:00:00Z}}"},
	{"lpar2", "{" + "lastRun: {id: one, event: create, reason: New, started: 2026-11-22T09:00:00Z, outcome: Refused, endpoint: lpar2, user: \"ibm\\euser\"}}"},
	{"lpar2", "{lastRun: 1}"},
	{"lpar2", "{}"},
	{"unknown", "{" + clitest.EndedRun + "}"},
}

func sampleEndpoints(t *testing.T, now time.Time, names ...string) *endpointsReport {
	t.Helper()
	uses := endpointUses{}
	for _, resource := range usingResources {
		uses.add(resource.endpoint, clitest.WithStatus(t, resource.status))
	}
	var all []*v2beta2.ZosEndpoint
	for _, text := range zosEndpoints {
		e := &v2beta2.ZosEndpoint{}
		if err := yaml.UnmarshalStrict([]byte(text), e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return describeEndpoints(all, names, map[string]endpointUses{"zos": uses}, now)
}

func TestEndpoints(t *testing.T) {
	now := time.Date(2026, 11, 22, 9, 12, 0, 0, time.UTC)
	report := sampleEndpoints(t, now)
	var table, wide, object bytes.Buffer
	if err := report.print(&table, false, now); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "endpoints.txt", table.String())
	report.Endpoints = report.Endpoints[:1]
	if err := report.print(&wide, true, now); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "endpoints-all.txt", wide.String())
	report = sampleEndpoints(t, now)
	report.Problems = []string{"you may not list datafiles in namespace zos"}
	if err := kit.EncodeJSON(&object, report); err != nil {
		t.Fatal(err)
	}
	clitest.Golden(t, "endpoints.json", object.String())
}

// The limit of an endpoint is that of all with its host, also if only one is shown.
func TestOneEndpoint(t *testing.T) {
	report := sampleEndpoints(t, time.Now(), "lpar1")
	if len(report.Endpoints) != 1 || report.Endpoints[0].Limit != 2 {
		t.Errorf("%+v", report.Endpoints)
	}
}
