package kube

import (
	"bytes"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		before   string
		statuses []string
		want     string
		outcome  string
	}{
		"first run": {"", []string{"{}", clitest.RunningRun + "}", clitest.RunningRun + ", outcome: Succeeded}"},
			"Running: run two, attempt 1, endpoint lpar1\n", "Succeeded"},
		"the run before the request does not count": {"one", []string{clitest.EndedRun, clitest.RunningRun + "}", clitest.RunningRun + ", outcome: Failed}"},
			"Running: run two, attempt 1, endpoint lpar1\n", "Failed"},
		"a run in progress at the request does not count": {"two",
			[]string{clitest.RunningRun + "}", clitest.RunningRun + ", outcome: Succeeded}", strings.ReplaceAll(clitest.RunningRun, "two", "three") + ", outcome: Succeeded}"},
			"waiting until run two has ended\n", "Succeeded"},
		"a task is printed once": {"one",
			[]string{clitest.RunningRun + ", currentTask: {name: Copy, since: 2026-11-22T09:10:01Z}}", clitest.RunningRun + ", currentTask: {name: Copy, since: 2026-11-22T09:10:01Z}}",
				clitest.RunningRun + ", currentTask: {name: \"Per\\emit\", since: 2026-11-22T09:10:02Z}}", clitest.RunningRun + ", outcome: TimedOut}"},
			"Running: run two, attempt 1, endpoint lpar1, task Copy\nRunning: run two, attempt 1, endpoint lpar1, task Per\\x1bmit\n", "TimedOut"},
		"a run that waits for its endpoint": {"one",
			[]string{clitest.EndedRun + "\n" + clitest.WaitingRun, clitest.EndedRun + "\n" + clitest.WaitingRun, clitest.RunningRun + "}", clitest.RunningRun + ", outcome: Unreachable}"},
			"Waiting: ZosEndpoint lpar1 is on hold: IPL\nRunning: run two, attempt 1, endpoint lpar1\n", "Unreachable"},
		"a first run that waits for its endpoint": {"", []string{clitest.WaitingRun, clitest.RunningRun + ", outcome: Refused}"},
			"Waiting: ZosEndpoint lpar1 is on hold: IPL\n", "Refused"},
		"an author's phase and message are ignored": {"one", []string{"{phase: 7, message: [x], " + clitest.RunningRun + ", outcome: Succeeded}}"}, "", "Succeeded"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			p := &Progress{Out: &out, Before: test.before}
			for i, status := range test.statuses {
				if done, err := p.Observe(clitest.WithStatus(t, status)); err != nil || done != (i == len(test.statuses)-1) {
					t.Fatalf("done is %t after status %d: %v", done, i, err)
				}
			}
			if out.String() != test.want || string(p.Run.Outcome) != test.outcome {
				t.Errorf("got %q and %s, want %q and %s", out.String(), p.Run.Outcome, test.want, test.outcome)
			}
		})
	}
}

func TestProgressEnds(t *testing.T) {
	var out bytes.Buffer
	deleted := &Progress{Out: &out}
	if done, err := deleted.Observe(nil); !done || err != nil || deleted.Run != nil || out.String() != "Deleted\n" {
		t.Errorf("a deleted resource: %+v, %q", deleted, out.String())
	}
	unreadable := &Progress{Out: &out}
	if _, err := unreadable.Observe(clitest.WithStatus(t, "lastRun: [1]")); err == nil {
		t.Errorf("a status of another form: %+v", unreadable)
	}
}

func TestPrintRun(t *testing.T) {
	status, err := StatusOf(clitest.WithStatus(t, clitest.FailedRun))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	PrintRun(&out, status.LastRun)
	status.LastRun.NextRetry = nil
	PrintRun(&out, status.LastRun)
	clitest.Golden(t, "run.txt", out.String())
}

func TestWhen(t *testing.T) {
	for status, want := range map[string]string{
		clitest.RunningRun + ", outcome: Unreachable}": "it is tried again when the endpoint can be reached",
		clitest.RunningRun + ", outcome: Refused}": "it is tried again when the credential is changed, or when another logon is allowed by annotation " +
			"zoscb.ibm.com/retry on the ZosEndpoint",
		clitest.RunningRun + ", outcome: Failed}":    "it is not tried again until the resource is changed or a run is requested",
		clitest.RunningRun + ", outcome: Succeeded}": "",
	} {
		parsed, err := StatusOf(clitest.WithStatus(t, status))
		if err != nil {
			t.Fatal(err)
		}
		if got := when(parsed.LastRun); got != want {
			t.Errorf("%s: %q", parsed.LastRun.Outcome, got)
		}
	}
}
