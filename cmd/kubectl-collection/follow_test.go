package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// withStatus is a resource with a status in YAML.
func withStatus(t *testing.T, status string) *unstructured.Unstructured {
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

const (
	endedRun   = "lastRun: {id: one, event: create, reason: New, started: 2026-11-22T09:00:00Z, finished: 2026-11-22T09:00:05Z, outcome: Succeeded}"
	waitingRun = "waiting: {reason: EndpointHeld, message: 'ZosEndpoint lpar1 is on hold: IPL', since: 2026-11-22T09:09:00Z}"
	runningRun = "lastRun: {id: two, event: create, reason: Asked, attempt: 1, started: 2026-11-22T09:10:00Z, endpoint: lpar1"
	failedRun  = `
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

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		before   string
		statuses []string
		want     string
		outcome  string
	}{
		"first run": {"", []string{"{}", runningRun + "}", runningRun + ", outcome: Succeeded}"},
			"Running: run two, attempt 1, endpoint lpar1\n", "Succeeded"},
		"the run before the request does not count": {"one", []string{endedRun, runningRun + "}", runningRun + ", outcome: Failed}"},
			"Running: run two, attempt 1, endpoint lpar1\n", "Failed"},
		"a run in progress at the request does not count": {"two",
			[]string{runningRun + "}", runningRun + ", outcome: Succeeded}", strings.ReplaceAll(runningRun, "two", "three") + ", outcome: Succeeded}"},
			"waiting until run two has ended\n", "Succeeded"},
		"a task is printed once": {"one",
			[]string{runningRun + ", currentTask: {name: Copy, since: 2026-11-22T09:10:01Z}}", runningRun + ", currentTask: {name: Copy, since: 2026-11-22T09:10:01Z}}",
				runningRun + ", currentTask: {name: \"Per\\emit\", since: 2026-11-22T09:10:02Z}}", runningRun + ", outcome: TimedOut}"},
			"Running: run two, attempt 1, endpoint lpar1, task Copy\nRunning: run two, attempt 1, endpoint lpar1, task Per\\x1bmit\n", "TimedOut"},
		"a run that waits for its endpoint": {"one",
			[]string{endedRun + "\n" + waitingRun, endedRun + "\n" + waitingRun, runningRun + "}", runningRun + ", outcome: Unreachable}"},
			"Waiting: ZosEndpoint lpar1 is on hold: IPL\nRunning: run two, attempt 1, endpoint lpar1\n", "Unreachable"},
		"a first run that waits for its endpoint": {"", []string{waitingRun, runningRun + ", outcome: Refused}"},
			"Waiting: ZosEndpoint lpar1 is on hold: IPL\n", "Refused"},
		"an author's phase and message are ignored": {"one", []string{"{phase: 7, message: [x], " + runningRun + ", outcome: Succeeded}}"}, "", "Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &progress{out: &out, before: test.before}
			for i, status := range test.statuses {
				if done := p.observe(withStatus(t, status)); done != (i == len(test.statuses)-1) {
					t.Fatalf("done is %t after status %d", done, i)
				}
			}
			if p.err != nil {
				t.Fatal(p.err)
			}
			if out.String() != test.want || string(p.run.Outcome) != test.outcome {
				t.Errorf("got %q and %s, want %q and %s", out.String(), p.run.Outcome, test.want, test.outcome)
			}
		})
	}
}

func TestProgressEnds(t *testing.T) {
	var out bytes.Buffer
	deleted := &progress{out: &out}
	if !deleted.observe(nil) || deleted.run != nil || out.String() != "Deleted\n" {
		t.Errorf("a deleted resource: %+v, %q", deleted, out.String())
	}
	unreadable := &progress{out: &out}
	if !unreadable.observe(withStatus(t, "lastRun: [1]")) || unreadable.err == nil {
		t.Errorf("a status of another form: %+v", unreadable)
	}
}

func TestPrintRun(t *testing.T) {
	status, err := statusOf(withStatus(t, failedRun))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	printRun(&out, status.LastRun)
	status.LastRun.NextRetry = nil
	printRun(&out, status.LastRun)
	expectGolden(t, "run.txt", out.String())
}

func TestWhen(t *testing.T) {
	for status, want := range map[string]string{
		runningRun + ", outcome: Unreachable}": "it is tried again when the endpoint can be reached",
		runningRun + ", outcome: Refused}": "it is tried again when the credential is changed, or when another logon is allowed by annotation " +
			"zoscb.ibm.com/retry on the ZosEndpoint",
		runningRun + ", outcome: Failed}":    "it is not tried again until the resource is changed or a run is requested",
		runningRun + ", outcome: Succeeded}": "",
	} {
		parsed, err := statusOf(withStatus(t, status))
		if err != nil {
			t.Fatal(err)
		}
		if got := when(parsed.LastRun); got != want {
			t.Errorf("%s: %q", parsed.LastRun.Outcome, got)
		}
	}
}

func TestEnding(t *testing.T) {
	history := "{history: [{id: one, event: create, started: 2026-11-22T09:00:00Z, outcome: Interrupted}], " + runningRun + "}}"
	for name, test := range map[string]struct {
		id, status string
		done       bool
		want       string
	}{
		"running":               {"two", runningRun + "}", false, ""},
		"cancelled":             {"two", runningRun + ", outcome: Cancelled}", true, "Cancelled: run two"},
		"ended by itself":       {"two", runningRun + ", outcome: Succeeded}", true, "Succeeded: run two ended before it was cancelled"},
		"found in history":      {"one", history, true, "Interrupted: run one ended before it was cancelled"},
		"dropped from history":  {"zero", history, true, "run zero has ended: status does not show it any more"},
		"status without a run ": {"two", "{}", true, "run two has ended: status does not show it any more"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &ending{id: test.id}
			if done := e.observe(withStatus(t, test.status)); done != test.done {
				t.Fatalf("done is %t", done)
			}
			if test.done && e.String() != test.want {
				t.Errorf("got %q, want %q", e.String(), test.want)
			}
		})
	}
}
