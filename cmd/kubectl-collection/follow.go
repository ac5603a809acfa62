package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// statusOf returns the gate's part of a resource's status. Phase and message may be the author's, and are left out.
func statusOf(object *unstructured.Unstructured) (*runstatus.Status, error) {
	content, _, err := unstructured.NestedMap(object.Object, "status")
	if err != nil {
		return nil, err
	}
	delete(content, "phase")
	delete(content, "message")
	status := &runstatus.Status{}
	return status, runtime.DefaultUnstructuredConverter.FromUnstructured(content, status)
}

// state returns the reason and the message of the condition Ready. A resource without it has not passed a gate yet.
func state(status *runstatus.Status) (runstatus.Phase, string) {
	ready := meta.FindStatusCondition(status.Conditions, runstatus.ConditionReady)
	if ready == nil {
		return runstatus.PhasePending, ""
	}
	return runstatus.Phase(ready.Reason), ready.Message
}

// summaryOf returns a run that has ended, or nil.
func summaryOf(status *runstatus.Status, id string) *runstatus.RunSummary {
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

// lastRunID is empty if there was no run.
func lastRunID(status *runstatus.Status) string {
	if status.LastRun == nil {
		return ""
	}
	return status.LastRun.ID
}

// progress prints what happens to a resource until a run that starts after a request has ended.
type progress struct {
	out io.Writer
	// before is the ID of the last run at the time of the request.
	before string
	// printed is the last line, which is not repeated.
	printed string
	// run is the run that ended.
	run *runstatus.Run
	// err is why a status could not be read.
	err error
}

// observe prints what is new, and reports whether there is nothing to wait for any more. A nil object was deleted.
func (p *progress) observe(object *unstructured.Unstructured) bool {
	if object == nil {
		p.print("Deleted")
		return true
	}
	var status *runstatus.Status
	if status, p.err = statusOf(object); p.err != nil {
		return true
	}
	run := status.LastRun
	if run == nil || run.ID == p.before {
		switch {
		case run != nil && run.Outcome == "":
			p.print("waiting until run " + run.ID + " has ended")
		case status.Waiting != nil:
			p.print("Waiting: " + status.Waiting.Message)
		}
		return false
	}
	if run.Outcome == "" {
		p.print(running(run))
		return false
	}
	p.run = run
	return true
}

func (p *progress) print(line string) {
	if line = printable.Escape(line); line != p.printed {
		p.printed = line
		fmt.Fprintln(p.out, line)
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

// printRun prints the end of a run, and why it failed.
func printRun(out io.Writer, run *runstatus.Run) {
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
		fmt.Fprintf(out, "  %-8s %s\n", name, plain(line))
		name = ""
	}
}

// when says whether and when the playbook runs again by itself.
func when(run *runstatus.Run) string {
	switch {
	case run.Outcome.AwaitsEndpoint():
		return run.NextAfterEndpoint()
	case run.NextRetry != nil:
		return "next attempt at " + clock(*run.NextRetry)
	case run.RunAgainAt != nil:
		return "runs again at " + clock(*run.RunAgainAt)
	case run.Outcome.Succeeded() || run.Outcome == gate.OutcomeInterrupted:
		return ""
	}
	return "it is not tried again until the resource is changed or a run is requested"
}

func clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
