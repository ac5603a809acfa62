package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Read returns the resource that a user means by KIND/NAME, and its status.
func (c *Cluster) Read(ctx context.Context, argument string) (Resource, *runstatus.Status, error) {
	r, err := c.Resource(argument)
	if err != nil {
		return r, nil, err
	}
	object, err := c.Client(r).Get(ctx, r.Name, metav1.GetOptions{})
	if err != nil {
		return r, nil, err
	}
	status, err := StatusOf(object)
	if err != nil {
		return r, nil, fmt.Errorf("%s: status: %w", r, err)
	}
	return r, status, nil
}

// Follow calls a function with each state of a resource, the present one first, until it returns true or an error. It is called with nil
// when the resource is deleted.
func (c *Cluster) Follow(ctx context.Context, r Resource, done func(*unstructured.Unstructured) (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	client := c.Client(r)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, r.Name).String()
	// Without permission there is no sense in trying again, as the informer does.
	check := func(err error) {
		if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
			cancel(err)
		}
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			list, err := client.List(ctx, options)
			check(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			watcher, err := client.Watch(ctx, options)
			check(err)
			return watcher, err
		},
	}
	gone := func(store cache.Store) (bool, error) {
		if len(store.List()) > 0 {
			return false, nil
		}
		return done(nil)
	}
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, gone, func(event watch.Event) (bool, error) {
		object, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return false, fmt.Errorf("watch %s: %w", r, apierrors.FromObject(event.Object))
		}
		if event.Type == watch.Deleted {
			object = nil
		}
		return done(object)
	})
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return fmt.Errorf("%s: timed out: the run is not affected", r)
	case cause != nil:
		return fmt.Errorf("follow %s: %w", r, cause)
	}
	return err
}

// StatusOf returns the gate's part of a resource's status. Phase and message may be the author's, and are left out.
func StatusOf(object *unstructured.Unstructured) (*runstatus.Status, error) {
	content, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return nil, err
	}
	delete(content, "phase")
	delete(content, "message")
	status := &runstatus.Status{}
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, status)
}

// State returns the reason and the message of the condition Ready. A resource without it has not passed a gate yet.
func State(status *runstatus.Status) (runstatus.Phase, string) {
	ready := meta.FindStatusCondition(status.Conditions, runstatus.ConditionReady)
	if ready == nil {
		return runstatus.PhasePending, ""
	}
	return runstatus.Phase(ready.Reason), ready.Message
}

// SummaryOf returns a run that has ended, or nil.
func SummaryOf(status *runstatus.Status, id string) *runstatus.RunSummary {
	if last := status.LastRun; last != nil && last.ID == id && last.Outcome != "" {
		return &runstatus.RunSummary{ID: id, Event: last.Event, Started: last.Started, Finished: last.Finished, Outcome: last.Outcome}
	}
	for i := range status.History {
		if run := &status.History[i]; run.ID == id && run.Outcome != "" {
			return run
		}
	}
	return nil
}

// LastRunID is empty if there was no run.
func LastRunID(status *runstatus.Status) string {
	if status.LastRun == nil {
		return ""
	}
	return status.LastRun.ID
}

// Progress prints what happens to a resource until a run that starts after a request has ended.
type Progress struct {
	Out io.Writer
	// before is the ID of the last run at the time of the request.
	Before string
	// printed is the last line, which is not repeated.
	printed string
	// Run is the run that ended.
	Run *runstatus.Run
}

// Observe prints what is new, and reports whether there is nothing to wait for any more. A nil object was deleted. The error is why a
// status cannot be read.
func (p *Progress) Observe(object *unstructured.Unstructured) (done bool, err error) {
	if object == nil {
		p.Print("Deleted")
		return true, nil
	}
	status, err := StatusOf(object)
	if err != nil {
		return false, err
	}
	run := status.LastRun
	if run == nil || run.ID == p.Before {
		switch {
		case run != nil && run.Outcome == "":
			p.Print("waiting until run " + run.ID + " has ended")
		case status.Waiting != nil:
			p.Print("Waiting: " + status.Waiting.Message)
		}
		return false, nil
	}
	if run.Outcome == "" {
		p.Print(running(run))
		return false, nil
	}
	p.Run = run
	return true, nil
}

// Print prints a line, unless it is the last one again.
func (p *Progress) Print(line string) {
	if line = printable.Escape(line); line != p.printed {
		p.printed = line
		fmt.Fprintln(p.Out, line)
	}
}

// running describes a run that has not ended.
func running(run *runstatus.Run) string {
	line := fmt.Sprintf("Running: run %s, attempt %d", run.ID, max(run.Attempt, 1))
	if run.Endpoint != "" {
		line += ", endpoint " + run.Endpoint
	}
	if run.CurrentTask != nil {
		line += ", task " + run.CurrentTask.Name
	}
	return line
}

// PrintRun prints the end of a run, and why it failed.
func PrintRun(out io.Writer, run *runstatus.Run) {
	line := fmt.Sprintf("%s: run %s", run.Outcome, run.ID)
	if run.Finished != nil {
		line += fmt.Sprintf(", after %s", run.Finished.Sub(run.Started.Time).Round(time.Second))
	}
	if t := run.Tasks; t != nil {
		line += fmt.Sprintf(", ok=%d changed=%d failed=%d unreachable=%d skipped=%d", t.OK, t.Changed, t.Failed, t.Unreachable, t.Skipped)
	}
	fmt.Fprintln(out, printable.Escape(line))
	if run.Failure != nil {
		printFailure(out, run.Failure)
	}
	for _, job := range run.Jobs {
		printField(out, "job", strings.Join(strings.Fields(job.Name+" "+job.ID+" "+job.ReturnCode), " "))
	}
	if at := when(run); at != "" {
		fmt.Fprintln(out, "  "+at)
	}
}

func printFailure(out io.Writer, failure *runstatus.Failure) {
	printField(out, "message", failure.Message)
	printField(out, "task", failure.Task)
	if failure.File != "" {
		printField(out, "file", fmt.Sprintf("%s:%d", failure.File, failure.Line))
	}
	if failure.ReturnCode != nil {
		printField(out, "rc", fmt.Sprint(*failure.ReturnCode))
	}
	printField(out, "output", failure.Output)
}

// printField prints the lines of a text, the first one behind its name.
func printField(out io.Writer, name, text string) {
	for line := range strings.Lines(text) {
		fmt.Fprintf(out, "  %-8s %s\n", name, kit.Plain(line))
		name = ""
	}
}

// when says whether and when the playbook runs again by itself.
func when(run *runstatus.Run) string {
	switch {
	case run.Outcome.AwaitsEndpoint():
		return run.NextAfterEndpoint()
	case run.NextRetry != nil:
		return "next attempt at " + kit.Clock(*run.NextRetry)
	case run.RunAgainAt != nil:
		return "runs again at " + kit.Clock(*run.RunAgainAt)
	case run.Outcome.Succeeded() || run.Outcome == gate.OutcomeInterrupted:
		return ""
	}
	return "it is not tried again until the resource is changed or a run is requested"
}

// RunToEnd follows a resource until a run has ended that is not the one with the ID before, prints what happens, and returns the run. It is
// nil if the resource was deleted.
func (c *Cluster) RunToEnd(ctx context.Context, r Resource, out io.Writer, before string) (*runstatus.Run, error) {
	p := &Progress{Out: out, Before: before}
	if err := c.Follow(ctx, r, p.Observe); err != nil || p.Run == nil {
		return nil, err
	}
	PrintRun(out, p.Run)
	return p.Run, nil
}

// FollowCollection is Follow for an OperatorCollection.
func (c *Cluster) FollowCollection(ctx context.Context, r Resource, done func(*v2beta2.OperatorCollection) (bool, error)) error {
	return c.Follow(ctx, r, func(object *unstructured.Unstructured) (bool, error) {
		if object == nil {
			return done(nil)
		}
		oc := &v2beta2.OperatorCollection{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, oc); err != nil {
			return false, err
		}
		return done(oc)
	})
}
