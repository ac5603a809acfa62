package clitest

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// WithStatus is a resource with a status in YAML.
func WithStatus(t *testing.T, status string) *unstructured.Unstructured {
	t.Helper()
	var content map[string]any
	if err := yaml.Unmarshal([]byte(status), &content); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "suboperator.zoscb.ibm.com/v1minor0patch0", "kind": "DataFile",
		"metadata": map[string]any{"namespace": "zos", "name": "hello"},
		"spec":     map[string]any{"zosendpoint": "lpar1"},
		"status":   content,
	}}
}

// Parts of a status with runs, in YAML. RunningRun is open, so that tests can add to it.
const (
	EndedRun   = "lastRun: {id: one, event: create, reason: New, started: 2026-11-22T09:00:00Z, finished: 2026-11-22T09:00:05Z, outcome: Succeeded}"
	WaitingRun = "waiting: {reason: EndpointHeld, message: 'ZosEndpoint lpar1 is on hold: IPL', since: 2026-11-22T09:09:00Z}"
	RunningRun = "lastRun: {id: two, event: create, reason: Asked, attempt: 1, started: 2026-11-22T09:10:00Z, endpoint: lpar1"
	FailedRun  = `
lastRun:
  id: two
  event: create
  reason: Asked
  attempt: 1
  started: 2026-11-22T09:10:00Z
  finished: 2026-11-22T09:10:07Z
  nextRetry: 2026-11-22T09:10:17Z
  outcome: Failed
  tasks: {ok: 3, changed: 1, failed: 1, unreachable: 0, skipped: 2}
  failure:
    message: non-zero return code
    task: "Run \e[31mthe utility"
    file: playbooks/file.yml
    line: 12
    returnCode: 8
    output: "DFHCS001 first\nDFHCS002 second\n"
  jobs: [{name: CSDUP, id: JOB00123, returnCode: CC 0008}]
`
)
