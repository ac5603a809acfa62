package runs

import (
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// These fail before a cluster is asked.
func TestArgumentsOfRerun(t *testing.T) {
	for _, args := range [][]string{
		{"rerun", "--outdated", "datafile/hello"},
		{"rerun", "--failed", "datafile", "hello"},
		{"rerun", "datafile/hello", "-A"},
	} {
		if code, _, stderr := tool(t, args...); code != kit.ExitFailure || !strings.Contains(stderr, "--outdated") {
			t.Errorf("%q: %d, %q", args, code, stderr)
		}
	}
}

func TestEnding(t *testing.T) {
	history := "{history: [{id: one, event: create, started: 2026-11-22T09:00:00Z, outcome: Interrupted}], " + clitest.RunningRun + "}}"
	for name, test := range map[string]struct {
		id, status string
		done       bool
		want       string
	}{
		"running":               {"two", clitest.RunningRun + "}", false, ""},
		"cancelled":             {"two", clitest.RunningRun + ", outcome: Cancelled}", true, "Cancelled: run two"},
		"ended by itself":       {"two", clitest.RunningRun + ", outcome: Succeeded}", true, "Succeeded: run two ended before it was cancelled"},
		"found in history":      {"one", history, true, "Interrupted: run one ended before it was cancelled"},
		"dropped from history":  {"zero", history, true, "run zero has ended: status does not show it any more"},
		"status without a run ": {"two", "{}", true, "run two has ended: status does not show it any more"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &ending{id: test.id}
			if done, err := e.observe(clitest.WithStatus(t, test.status)); done != test.done || err != nil {
				t.Fatalf("done is %t, %v", done, err)
			}
			if test.done && e.String() != test.want {
				t.Errorf("got %q, want %q", e.String(), test.want)
			}
		})
	}
}
