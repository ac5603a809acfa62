package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// withoutPlace tells the engine that the installation had no such endpoint when the run was admitted. The endpoint may have come since:
// without a place, its windows, its limits and its refused credentials would not count.
const withoutPlace = "ZOSCB_WITHOUT_PLACE"

func (r *runner) reportFile() string { return filepath.Join(r.call.dir, "report.json") }

// command is the call of the real ansible-runner, which inherits the lock of the folder.
func (r *runner) command(lock *os.File) *exec.Cmd {
	command := exec.Command(os.Getenv(realRunner), "run", r.call.dir, "-p", r.call.playbook, "-i", r.call.ident)
	var err error
	if command.Env, err = environment.PodOf(os.Getenv).Complete(os.Environ()); err != nil {
		r.out.note("the trusted authorities or the proxy are not up to date: %v", err)
	}
	command.Env = append(command.Env, "ZOSCB_RUN_REPORT="+r.reportFile())
	if r.checking {
		r.useCheckMode(command)
	}
	if r.personal != nil {
		command.Env = append(command.Env, r.personal.environment()...)
	}
	if r.place == nil {
		command.Env = append(command.Env, withoutPlace+"=true")
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.ExtraFiles = []*os.File{lock}
	return command
}

// play runs the real ansible-runner until its end.
func (r *runner) play(ctx context.Context, lock *os.File) (runstatus.Report, gate.Outcome) {
	if r.personal != nil {
		defer r.forgetPersonal()
		if err := r.personal.write(r.files.endpointsDir); err != nil {
			return evaluate(runstatus.Report{}, fmt.Sprintf("the credential cannot be given to the run: %v", err))
		}
	}
	command := r.command(lock)
	ended, err := r.start(command)
	if err != nil {
		return evaluate(runstatus.Report{}, fmt.Sprintf("ansible-runner cannot be started: %v", err))
	}
	stopped := r.watch(ctx, command, ended)
	report, err := readReport(r.reportFile())
	if err != nil || report.Ended == "" {
		if err := killOrphans(r.intervals.Grace, false); err != nil {
			r.out.note("end the rest of the run: %v", err)
		}
	}
	if err == nil && report.Ended != "" && (stopped == nil || report.Ended == "successful") {
		return evaluate(report, "")
	}
	if stopped != nil {
		report.Failures = []runstatus.Failure{{Message: stopped.message, Task: stopped.task}}
		return report, stopped.outcome
	}
	return evaluate(report, r.problem(command, err))
}

// problem describes a run that ended without a complete report.
func (r *runner) problem(command *exec.Cmd, err error) string {
	message := fmt.Sprintf("the run ended without a report: ansible-runner: %s", command.ProcessState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		message += fmt.Sprintf(": %v", err)
	}
	if len(r.out.last) > 0 {
		message += ": " + strings.Join(r.out.last, " ")
	}
	return printable.Line(message, 1000)
}

// start starts the command with its output in r.out. The channel is closed when the command has ended.
func (r *runner) start(command *exec.Cmd) (<-chan struct{}, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	_ = writer.Close()
	if err != nil {
		_ = reader.Close()
		return nil, err
	}
	copied := make(chan struct{})
	go func() {
		r.out.copyLines(reader)
		close(copied)
	}()
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // The report and ProcessState say how it ended.
		// Processes that outlive the run, such as ssh's multiplexing masters, may hold the pipe.
		select {
		case <-copied:
		case <-time.After(time.Second):
			_ = reader.Close()
			<-copied
		}
		close(ended)
	}()
	return ended, nil
}

// stop is why a run was ended.
type stop struct {
	outcome gate.Outcome
	message string
	// task is the one that was running, or "".
	task string
}

// watch returns when the command has ended, and why it was ended, if it was. It writes the current task to status.
func (r *runner) watch(ctx context.Context, command *exec.Cmd, ended <-chan struct{}) *stop {
	var timeout, kill <-chan time.Time
	if seconds := r.files.settings.RunTimeoutSeconds; seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		timeout = timer.C
	}
	ticker := time.NewTicker(r.intervals.Poll)
	defer ticker.Stop()
	progress, observer := progress{runner: r}, observer{runner: r}
	var connection <-chan time.Time
	if r.place != nil {
		observing := time.NewTicker(r.intervals.Observe)
		defer observing.Stop()
		connection = observing.C
	}
	var stopped *stop
	end := func(outcome gate.Outcome, message string, grace time.Duration) {
		if stopped == nil {
			stopped = &stop{outcome, message, r.currentTask()}
			_ = command.Process.Signal(syscall.SIGTERM)
			kill = time.After(grace)
		}
	}
	var last lastMoment
	for {
		select {
		case <-ended:
			return stopped
		case <-timeout:
			limit := time.Duration(r.files.settings.RunTimeoutSeconds) * time.Second
			end(gate.OutcomeTimedOut, fmt.Sprintf("the run was ended because it took longer than runTimeout (%s)", limit), r.intervals.Grace)
		case <-last.reached:
			end(gate.OutcomeInterrupted, r.cutMessage(last), r.intervals.ReserveGrace)
		case <-kill:
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		case <-connection:
			observer.first(ctx)
		case <-ticker.C:
			observer.again(ctx)
			last.look(ctx, r)
			live, err := r.resource.get(ctx)
			if err != nil {
				continue // Nothing is lost: the next poll reads it again.
			}
			if live.GetAnnotations()[gate.AnnotationCancel] == r.call.ident {
				end(gate.OutcomeCancelled, "the run was cancelled by annotation "+gate.AnnotationCancel, r.intervals.Grace)
			}
			progress.write(ctx, live)
		}
	}
}

// progress writes the current task of a run to status.
type progress struct {
	runner  *runner
	task    string
	written time.Time
}

// write writes the current task if it has changed, unless it was written just before.
func (p *progress) write(ctx context.Context, live *unstructured.Unstructured) {
	r := p.runner
	report, err := readReport(r.reportFile())
	if err != nil || report.CurrentTask == nil || report.Ended != "" || time.Since(p.written) < r.intervals.Progress {
		return
	}
	task := report.CurrentTask.Name + " " + report.CurrentTask.Since.String()
	if task == p.task {
		return
	}
	if id, _, _ := unstructured.NestedString(live.Object, "status", "lastRun", "id"); id != r.call.ident {
		return
	}
	// A conflict or an API server that is away costs nothing: the next poll tries again.
	if _, err := r.resource.setStatus(ctx, live, runstatus.Progress(statusOf(live), report)); err == nil {
		p.task, p.written = task, time.Now()
	}
}
