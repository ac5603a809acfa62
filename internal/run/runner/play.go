package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/process"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// withoutSlot tells the engine that the installation had no such endpoint when the run was admitted. The endpoint may have come since:
// without a slot, its windows, its limits and its refused credentials would not count.
const withoutSlot = "ZOSCB_WITHOUT_PLACE"

// realRunner is the environment variable with the path of the real ansible-runner.
const realRunner = "ZOSCB_ANSIBLE_RUNNER"

// skippedModules is the variable with the modules that the engine does not run in a check, besides those that it knows.
const skippedModules = "ZOSCB_SKIPPED_MODULES"

// play is one call of the real ansible-runner.
type play struct {
	*scope
	permit
	// checking is true during a drift check.
	checking bool
}

// command is the call of the real ansible-runner, which inherits the lock of the folder.
func (r *play) command(lock *os.File) *exec.Cmd {
	command := exec.Command(os.Getenv(realRunner), "run", r.call.Dir, "-p", r.call.Playbook, "-i", r.call.Ident)
	var err error
	if command.Env, err = environment.PodOf(os.Getenv).Complete(os.Environ()); err != nil {
		r.out.Note("the trusted authorities or the proxy are not up to date: %v", err)
	}
	command.Env = append(command.Env, "ZOSCB_RUN_REPORT="+r.call.ReportFile())
	if r.checking {
		r.useCheckMode(command)
	}
	if r.personal != nil {
		command.Env = append(command.Env, r.personal.Environment()...)
	}
	if r.slot == nil {
		command.Env = append(command.Env, withoutSlot+"=true")
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.ExtraFiles = []*os.File{lock}
	return command
}

// run runs the real ansible-runner until its end.
func (r *play) run(ctx context.Context, lock *os.File) (runstatus.Report, gate.Outcome) {
	if r.personal != nil {
		defer secrets{r.scope}.forget(r.personal)
		if err := r.personal.Write(r.files.EndpointsDir); err != nil {
			return runstatus.Evaluate(runstatus.Report{}, fmt.Sprintf("the credential cannot be given to the run: %v", err))
		}
	}
	command := r.command(lock)
	ended, err := process.Start(command, r.out)
	if err != nil {
		return runstatus.Evaluate(runstatus.Report{}, fmt.Sprintf("ansible-runner cannot be started: %v", err))
	}
	stopped := r.watch(ctx, command, ended)
	report, err := r.call.Report()
	if err != nil || report.Ended == "" {
		if err := process.KillOrphans(r.intervals.Grace, false); err != nil {
			r.out.Note("end the rest of the run: %v", err)
		}
	}
	if err == nil && report.Ended != "" && (stopped == nil || report.Ended == "successful") {
		return runstatus.Evaluate(report, "")
	}
	if stopped != nil {
		report.Failures = []runstatus.Failure{{Message: stopped.message, Task: stopped.task}}
		return report, stopped.outcome
	}
	return runstatus.Evaluate(report, r.problem(command, err))
}

// useCheckMode lets Ansible report what it would change without changing it. The options are one argument with --cmdline: alone,
// --check would be taken for one of ansible-runner.
func (r *play) useCheckMode(command *exec.Cmd) {
	options := "--cmdline=--check"
	if r.files.Kind.ShowDiff {
		options += " --diff"
	}
	command.Args = append(command.Args, options)
	command.Env = append(command.Env, skippedModules+"="+strings.Join(r.files.Settings.DriftCheckSkipModules, ","))
}

// problem describes a run that ended without a complete report.
func (r *play) problem(command *exec.Cmd, err error) string {
	message := fmt.Sprintf("the run ended without a report: ansible-runner: %s", command.ProcessState)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		message += fmt.Sprintf(": %v", err)
	}
	if len(r.out.Last) > 0 {
		message += ": " + strings.Join(r.out.Last, " ")
	}
	return printable.Line(podFolders.ReplaceAllString(message, ""), 1000)
}

// podFolders are folders of the pod, which say nothing to those who read a message.
var podFolders = regexp.MustCompile(`/opt/ansible/(?:content/|(?:[^\s/'":,;]+/)*)`)

// stop is why a run was ended.
type stop struct {
	outcome gate.Outcome
	message string
	// task is the one that was running, or "".
	task string
}

// watch returns when the command has ended, and why it was ended, if it was. It writes the current task to status.
func (r *play) watch(ctx context.Context, command *exec.Cmd, ended <-chan struct{}) *stop {
	var timeout, kill <-chan time.Time
	if seconds := r.files.Settings.RunTimeoutSeconds; seconds > 0 {
		timer := time.NewTimer(time.Duration(seconds) * time.Second)
		defer timer.Stop()
		timeout = timer.C
	}
	ticker := time.NewTicker(r.intervals.Poll)
	defer ticker.Stop()
	progress, observer := progress{play: r, started: time.Now()}, observer{play: r}
	var connection <-chan time.Time
	if r.slot != nil {
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
			limit := time.Duration(r.files.Settings.RunTimeoutSeconds) * time.Second
			end(gate.OutcomeTimedOut, fmt.Sprintf("the run was ended because it took longer than runTimeout (%s)", limit), r.intervals.Grace)
		case <-last.reached:
			end(gate.OutcomeInterrupted, r.cutMessage(last), r.intervals.ReserveGrace)
		case <-kill:
			_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		case <-connection:
			observer.first(ctx)
		case <-ticker.C:
			observer.again(ctx)
			last.look(ctx, r.scope)
			live, err := r.resource.get(ctx)
			if err != nil {
				continue // Nothing is lost: the next poll reads it again.
			}
			if live.GetAnnotations()[gate.AnnotationCancel] == r.call.Ident {
				end(gate.OutcomeCancelled, "the run was cancelled by annotation "+gate.AnnotationCancel, r.intervals.Grace)
			}
			progress.write(ctx, live)
		}
	}
}

// progress writes the current task of a run to status, and that the run is long.
type progress struct {
	play    *play
	started time.Time
	task    string
	written time.Time
}

// write writes what has changed, unless something was written just before.
func (p *progress) write(ctx context.Context, live *unstructured.Unstructured) {
	r := p.play
	report, err := r.call.Report()
	if err != nil || report.CurrentTask == nil || report.Ended != "" || time.Since(p.written) < r.intervals.Progress {
		return
	}
	resource := r.statusResource(live)
	task := fmt.Sprint(report.CurrentTask.Name, report.CurrentTask.Since, runstatus.IsLong(p.started, resource.Now))
	if task == p.task {
		return
	}
	if id, _, _ := unstructured.NestedString(live.Object, "status", "lastRun", "id"); id != r.call.Ident {
		return
	}
	// A conflict or an API server that is away costs nothing: the next poll tries again.
	if _, err := r.resource.setStatus(ctx, live, runstatus.Progress(statusOf(live), resource, report)); err == nil {
		p.task, p.written = task, time.Now()
	}
}

// observer tells the state at once what a run learns about its endpoint.
type observer struct {
	play  *play
	known bool
}

// first looks at the report until the connection is known.
func (o *observer) first(ctx context.Context) {
	if !o.known {
		o.again(ctx)
	}
}

// again looks at the report. A write that fails is repeated by the next call.
func (o *observer) again(ctx context.Context) {
	r := o.play
	if r.slot == nil {
		return
	}
	report, err := r.call.Report()
	if err != nil || report.Ended != "" || report.Connection == r.slot.Reported {
		return
	}
	o.known = true
	if err := (endpoints{r.scope}).observe(ctx, r.slot, report); err != nil {
		return
	}
	r.slot.Reported, r.slot.ToldAt = report.Connection, time.Now()
	if err := r.journal.UpdateSlot(r.slot); err != nil {
		r.out.Note("journal: %v", err)
	}
}

// lastMoment tells when a run has to end because its pod does.
type lastMoment struct {
	// seen is when the pod was first seen to be terminating. The clock of the API server may differ.
	seen  time.Time
	grace time.Duration
	// reached delivers once that time has come. It is nil as long as the pod is not terminating.
	reached <-chan time.Time
}

// look reads the pod again. While it cannot be read, nothing changes. The grace period may become shorter.
func (m *lastMoment) look(ctx context.Context, r *scope) {
	termination, err := r.podLock.Termination(ctx)
	if err != nil || !termination.Deleted || m.reached != nil && termination.Grace >= m.grace {
		return
	}
	if m.seen.IsZero() {
		m.seen = time.Now()
		r.out.Note("the pod is terminating: the run has %s to end", max(0, termination.Grace-r.intervals.Reserve))
	}
	m.grace = termination.Grace
	m.reached = time.After(time.Until(m.seen.Add(m.grace - r.intervals.Reserve)))
}

// currentTask returns the name of the task that is running, or "".
func (r *play) currentTask() string {
	report, err := r.call.Report()
	if err != nil || report.CurrentTask == nil {
		return ""
	}
	return report.CurrentTask.Name
}

// cutMessage says why a run was ended, and where.
func (r *play) cutMessage(m lastMoment) string {
	task := r.currentTask()
	if task != "" {
		task = fmt.Sprintf(" in task %q", printable.Line(task, 256))
	}
	return fmt.Sprintf("the run was ended%s because pod %s was deleted and ends %d seconds later (runtime.terminationSeconds); it starts again in the next pod",
		task, r.podLock.PodName, int(m.grace.Seconds()))
}
