package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// refuseIfTerminating returns an error if this pod is to end. ansible-operator goes on with the resources in its queue after SIGTERM.
func (r *runner) refuseIfTerminating(ctx context.Context) error {
	termination, err := r.podLock.Termination(ctx)
	if err != nil {
		return err
	}
	if termination.Deleted {
		return fmt.Errorf("pod %s is terminating: the next pod starts it", r.podLock.PodName)
	}
	return nil
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
func (m *lastMoment) look(ctx context.Context, r *runner) {
	termination, err := r.podLock.Termination(ctx)
	if err != nil || !termination.Deleted || m.reached != nil && termination.Grace >= m.grace {
		return
	}
	if m.seen.IsZero() {
		m.seen = time.Now()
		r.out.note("the pod is terminating: the run has %s to end", max(0, termination.Grace-r.intervals.Reserve))
	}
	m.grace = termination.Grace
	m.reached = time.After(time.Until(m.seen.Add(m.grace - r.intervals.Reserve)))
}

// currentTask returns the name of the task that is running, or "".
func (r *runner) currentTask() string {
	report, err := readReport(r.reportFile())
	if err != nil || report.CurrentTask == nil {
		return ""
	}
	return report.CurrentTask.Name
}

// cutMessage says why a run was ended, and where.
func (r *runner) cutMessage(m lastMoment) string {
	task := r.currentTask()
	if task != "" {
		task = fmt.Sprintf(" in task %q", printable.Line(task, 256))
	}
	return fmt.Sprintf("the run was ended%s because pod %s was deleted and ends %d seconds later (runtime.terminationSeconds); it starts again in the next pod",
		task, r.podLock.PodName, int(m.grace.Seconds()))
}
