package runner

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// newPlay returns a play whose ansible-runner is a shell script. Nothing of it is polled.
func newPlay(t *testing.T, script string) *play {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "ansible-runner")
	apiserver.Must(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script), 0o700))
	t.Setenv(realRunner, program)
	return &play{scope: &scope{
		call: podfiles.Call{Dir: dir, Playbook: "/entry.yml", Ident: "42"}, out: &process.Output{},
		files: &podfiles.Files{Settings: &gate.Settings{}}, intervals: Intervals{Poll: time.Hour, Grace: time.Hour},
	}}
}

// play runs it with the lock of its folder, which is released here at the end.
func (r *play) playLocked(t *testing.T) (runstatus.Report, gate.Outcome) {
	t.Helper()
	lock, err := podfiles.LockFolder(r.call.Dir)
	apiserver.Must(t, err)
	defer lock.Close()
	return r.run(t.Context(), lock)
}

const writeReport = `report() { echo "$1" >"$ZOSCB_RUN_REPORT.new" && mv "$ZOSCB_RUN_REPORT.new" "$ZOSCB_RUN_REPORT"; }
`

func TestRunsEnd(t *testing.T) {
	tests := map[string]struct {
		script string
		want   gate.Outcome
		says   []string
	}{
		"well":       {script: `report '{"ended": "successful"}'`, want: gate.OutcomeSucceeded},
		"well, exit": {script: `report '{"ended": "successful"}'; exit 2`, want: gate.OutcomeSucceeded},
		"failed":     {script: `report '{"ended": "failed", "failures": [{"message": "no space"}]}'; exit 2`, want: gate.OutcomeFailed, says: []string{"no space"}},
		"requeued":   {script: `report '{"ended": "successful", "requeueAfter": "1h"}'`, want: gate.OutcomeSucceeded},
		"without a report": {
			script: `echo "Traceback"; echo "KeyError" >&2; exit 3`, want: gate.OutcomeFailed,
			says: []string{"the run ended without a report: ansible-runner: exit status 3: Traceback KeyError"},
		},
		"without a report, with a path of the pod": {
			script: `echo "cannot read /opt/ansible/content/playbooks/main.yml"; exit 3`, want: gate.OutcomeFailed,
			says: []string{"exit status 3: cannot read playbooks/main.yml"},
		},
		"killed": {
			script: `report '{"currentTask": {"name": "Copy"}}'; kill -9 $$`, want: gate.OutcomeFailed,
			says: []string{"the run ended without a report: ansible-runner: signal: killed"},
		},
		"garbled": {
			script: `report 'no JSON'`, want: gate.OutcomeFailed,
			says: []string{"the run ended without a report: ansible-runner: exit status 0: "},
		},
		"with other arguments": {
			script: `[ "$*" = "run $(dirname "$0") -p /entry.yml -i 42" ] && report '{"ended": "successful"}'`, want: gate.OutcomeSucceeded,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			report, outcome := newPlay(t, writeReport+test.script).playLocked(t)
			if outcome != test.want || len(report.Failures) != len(test.says) {
				t.Fatalf("%s, %+v", outcome, report.Failures)
			}
			for i, says := range test.says {
				if !strings.Contains(report.Failures[i].Message, says) {
					t.Errorf("%q, want %q", report.Failures[i].Message, says)
				}
			}
		})
	}
}

func TestRunnerThatCannotBeStarted(t *testing.T) {
	r := newPlay(t, "")
	t.Setenv(realRunner, filepath.Join(t.TempDir(), "absent"))
	report, outcome := r.playLocked(t)
	if outcome != gate.OutcomeFailed || !strings.Contains(report.Messages(), "ansible-runner cannot be started") {
		t.Errorf("%s: %s", outcome, report.Messages())
	}
}

func TestRunTimeout(t *testing.T) {
	tests := map[string]struct {
		script string
		want   gate.Outcome
		says   string
	}{
		"ends on SIGTERM":    {`trap 'report "{\"ended\": \"canceled\"}"; kill $!; exit 1' TERM; sleep 1000 & wait`, gate.OutcomeTimedOut, "the run was ended because it took longer than runTimeout (1s)"},
		"ignores SIGTERM":    {`trap '' TERM; sleep 1000 & wait; wait`, gate.OutcomeTimedOut, "the run was ended because it took longer than runTimeout (1s)"},
		"had ended anyway":   {`trap 'report "{\"ended\": \"successful\"}"; kill $!; exit 0' TERM; sleep 1000 & wait`, gate.OutcomeSucceeded, ""},
		"crashes on SIGTERM": {`trap 'kill -9 0' TERM; sleep 1000 & wait`, gate.OutcomeTimedOut, "runTimeout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newPlay(t, writeReport+test.script)
			r.files.Settings.RunTimeoutSeconds = 1
			if r.intervals.Grace = time.Minute; name == "ignores SIGTERM" {
				r.intervals.Grace = 100 * time.Millisecond
			}
			report, outcome := r.playLocked(t)
			if outcome != test.want || !strings.Contains(report.Messages(), test.says) {
				t.Errorf("%s: %q", outcome, report.Messages())
			}
		})
	}
}

func TestLockIsHeldUntilTheRunnerEnds(t *testing.T) {
	r := newPlay(t, `echo $$ >"$(dirname "$0")/pid"; sleep 1000 & wait`)
	lock, err := podfiles.LockFolder(r.call.Dir)
	apiserver.Must(t, err)
	ended, err := process.Start(r.command(lock), r.out)
	apiserver.Must(t, err)
	pid := 0
	waitFor(t, func() bool {
		pid = readPID(filepath.Join(r.call.Dir, "pid"))
		return pid != 0
	})
	apiserver.Must(t, lock.Close()) // As if the gate had ended.
	if again, err := podfiles.LockFolder(r.call.Dir); again != nil || err != nil {
		t.Fatalf("the lock was taken while the runner ran: %v", err)
	}
	apiserver.Must(t, syscall.Kill(-pid, syscall.SIGKILL))
	<-ended
	again, err := podfiles.LockFolder(r.call.Dir)
	if again == nil || err != nil {
		t.Fatalf("the lock is not free after the end: %v", err)
	}
	apiserver.Must(t, again.Close())
}

// ansible-runner starts ansible-playbook in a session of its own.
func TestPlaybookOfAKilledRunnerEnds(t *testing.T) {
	apiserver.Must(t, process.AdoptOrphans())
	r := newPlay(t, `cd "$(dirname "$0")"; setsid sh -c 'sleep 1000 & echo $! >task.new; echo $$ >playbook; mv task.new task; wait' &
until [ -e task ]; do :; done; kill -9 $$`)
	if _, outcome := r.playLocked(t); outcome != gate.OutcomeFailed {
		t.Errorf("outcome %s", outcome)
	}
	for _, name := range []string{"playbook", "task"} {
		if pid := readPID(filepath.Join(r.call.Dir, name)); pid == 0 || syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d, the %s, goes on", pid, name)
		}
	}
}

func TestOutputOfProcessesThatOutliveTheRun(t *testing.T) {
	r := newPlay(t, writeReport+`sleep 1000 & echo $! >"$(dirname "$0")/pid"; report '{"ended": "successful"}'`)
	started := time.Now()
	if _, outcome := r.playLocked(t); outcome != gate.OutcomeSucceeded || time.Since(started) > 30*time.Second {
		t.Errorf("%s after %s", outcome, time.Since(started))
	}
	apiserver.Must(t, syscall.Kill(readPID(filepath.Join(r.call.Dir, "pid")), syscall.SIGKILL))
}

func readPID(path string) int {
	content, _ := os.ReadFile(path)
	pid := 0
	for _, digit := range strings.TrimSpace(string(content)) {
		pid = 10*pid + int(digit-'0')
	}
	return pid
}

// waitFor waits until the condition is true.
func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		select {
		case <-t.Context().Done():
			t.Fatal("the test ended")
		case <-ticker.C:
		}
	}
}
