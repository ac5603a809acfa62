// Package runstatus is the status that a custom resource of a collection has: phase, conditions, and what its last runs did.
// It is pure. The gate writes it (internal/run/runner), and kubectl-collection shows it.
package runstatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Phase of a resource. It is also the reason of the condition Ready.
type Phase string

// The phases.
const (
	// PhasePending: no run has started yet.
	PhasePending Phase = "Pending"
	// PhaseWaiting: the playbook ended well and asked to run again, or the run waits.
	PhaseWaiting   Phase = "Waiting"
	PhaseRunning   Phase = "Running"
	PhaseSucceeded Phase = "Succeeded"
	PhaseFailed    Phase = "Failed"
	// PhaseOutdated: the last run was successful, and something has changed since that does not start a playbook by itself.
	PhaseOutdated Phase = "Outdated"
	PhaseDeleting Phase = "Deleting"
	// PhaseNoOperator: the operator was removed. The gate of the next operator replaces it.
	PhaseNoOperator Phase = "NoOperator"
)

// Conditions of a resource. ansible-operator's own are Running, Successful and Failure: clients rely on their form.
const (
	ConditionReady      = "Ready"
	ConditionRunning    = "Running"
	ConditionSuccessful = "Successful"
	ConditionFailure    = "Failure"
	// ConditionStalled is True if a failed resource is not tried again until it is changed or somebody asks (kstatus).
	ConditionStalled = "Stalled"
	// ConditionDrifted is the result of a drift check: True, False, or Unknown if not all tasks were checked or the check failed.
	ConditionDrifted = "Drifted"
	// ConditionFieldsIgnored is True if the spec has fields that this version of the collection does not declare.
	ConditionFieldsIgnored = "FieldsIgnored"
	// ConditionDefaultsKept is True if playbooks get fields with the default of a former version of the collection.
	ConditionDefaultsKept = "DefaultsKept"
	// ConditionDefaultsNew is True if the next run gets fields with a default that the last run did not get.
	ConditionDefaultsNew = "DefaultsNew"
)

// HistoryLimit is the number of runs in status.history.
const HistoryLimit = 5

// Status has the fields of a resource's status that the gate writes. Others are the author's.
type Status struct {
	Phase              Phase              `json:"phase,omitempty"`
	Message            string             `json:"message,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Waiting is set while a run waits.
	Waiting     *Waiting     `json:"waiting,omitempty"`
	LastRun     *Run         `json:"lastRun,omitempty"`
	LastSuccess *RunSummary  `json:"lastSuccess,omitempty"`
	History     []RunSummary `json:"history,omitempty"`
	// Migration is the last one that succeeded.
	Migration *Migration `json:"migration,omitempty"`
	Drift     *Drift     `json:"drift,omitempty"`
}

// Waiting is why a run waits. The reasons are those of package endpoint, those with which the gate waits for the ZosEndpoint
// itself, MigrationStopped, RunsAlone and CannotStart.
type Waiting struct {
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Since   metav1.Time `json:"since"`
	// Until is when the run starts at the earliest, absent if that is not known.
	Until *metav1.Time `json:"until,omitempty"`
}

// ReasonCannotStart is the reason of Waiting while an error keeps runs from starting.
const ReasonCannotStart = "CannotStart"

// Migration is a successful run of the migration playbook.
type Migration struct {
	// From and To are versions of the collection.
	From     string      `json:"from"`
	To       string      `json:"to"`
	Finished metav1.Time `json:"finished"`
}

// Drift is the result of the last drift check. The condition Drifted says whether there is any. After a successful run, only
// CheckedAt is left.
type Drift struct {
	CheckedAt metav1.Time `json:"checkedAt"`
	// Checked is the number of tasks on the endpoint that were checked, and Unchecked of those that were not.
	Checked   int `json:"checked,omitempty"`
	Unchecked int `json:"unchecked,omitempty"`
	// Diff is the beginning of the differences, as Ansible shows them, without tasks with no_log, if the kind declares showDiff.
	Diff string `json:"diff,omitempty"`
}

// Run is one run of a playbook.
type Run struct {
	ID      string       `json:"id"`
	Event   gate.Event   `json:"event"`
	Reason  gate.Reason  `json:"reason"`
	Attempt int          `json:"attempt,omitempty"`
	Started metav1.Time  `json:"started"`
	Outcome gate.Outcome `json:"outcome,omitempty"` // Empty while it runs.
	// Finished, NextRetry and RunAgainAt are absent if they do not apply.
	Finished   *metav1.Time `json:"finished,omitempty"`
	NextRetry  *metav1.Time `json:"nextRetry,omitempty"`
	RunAgainAt *metav1.Time `json:"runAgainAt,omitempty"`
	// Version and Digest of the collection.
	Version  string `json:"version,omitempty"`
	Digest   string `json:"digest,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Host     string `json:"host,omitempty"`
	User     string `json:"user,omitempty"`
	// Tasks counts the tasks on the endpoint.
	Tasks       *TaskCounts `json:"tasks,omitempty"`
	CurrentTask *Task       `json:"currentTask,omitempty"`
	Failure     *Failure    `json:"failure,omitempty"`
	Jobs        []Job       `json:"jobs,omitempty"`
}

// TaskCounts are Ansible's numbers of the endpoint's tasks.
type TaskCounts struct {
	OK          int `json:"ok"`
	Changed     int `json:"changed"`
	Failed      int `json:"failed"`
	Unreachable int `json:"unreachable"`
	Skipped     int `json:"skipped"`
}

// Task is the task that is running.
type Task struct {
	Name  string      `json:"name"`
	Since metav1.Time `json:"since"`
}

// Failure is the first task that failed. All texts are bounded, and empty if the task has no_log.
type Failure struct {
	// Message is one line for each failure, as in the condition Failure.
	Message string `json:"message"`
	Task    string `json:"task,omitempty"`
	// File is relative to the archive's root.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
	// ReturnCode of the command, if there was one.
	ReturnCode *int `json:"returnCode,omitempty"`
	// Output is the end of stderr, or of stdout if stderr is empty.
	Output string `json:"output,omitempty"`
}

// Job is a z/OS job that a module returned.
type Job struct {
	Name       string `json:"name,omitempty"`
	ID         string `json:"id"`
	ReturnCode string `json:"returnCode,omitempty"`
}

// RunSummary is a run in status.history.
type RunSummary struct {
	ID       string       `json:"id"`
	Event    gate.Event   `json:"event"`
	Reason   gate.Reason  `json:"reason,omitempty"`
	Started  metav1.Time  `json:"started"`
	Finished *metav1.Time `json:"finished,omitempty"`
	Outcome  gate.Outcome `json:"outcome"`
	Version  string       `json:"version,omitempty"`
	Message  string       `json:"message,omitempty"`
}

// Report is what the event plugin of the runtime image writes about a run, as JSON in a file. The file is replaced
// atomically at each change of the current task, and once the run has ended.
type Report struct {
	// Ended is ansible-runner's final status: successful, failed, canceled, timeout or error. Empty while it runs.
	Ended string `json:"ended,omitempty"`
	Host  string `json:"host,omitempty"`
	User  string `json:"user,omitempty"`
	// Tasks is absent if Ansible ended without statistics.
	Tasks       *TaskCounts `json:"tasks,omitempty"`
	CurrentTask *Task       `json:"currentTask,omitempty"`
	// Failures are why the run failed, the first cause first. Without any and with Ended successful, the run succeeded.
	Failures []Failure `json:"failures,omitempty"`
	Jobs     []Job     `json:"jobs,omitempty"`
	// Connection is what the run learned about its own endpoint: Accepted, Refused, Unreachable, or empty. It is in the file as
	// soon as it is known.
	Connection endpoint.Connection `json:"connection,omitempty"`
	// ConnectionMessage is why the endpoint refused the credential or could not be reached. It is written together with Connection.
	ConnectionMessage string `json:"connectionMessage,omitempty"`
	// ConnectionIgnored is true if the playbook went on although its endpoint could not be used (ignore_unreachable).
	ConnectionIgnored bool `json:"connectionIgnored,omitempty"`
	// Changes are what a run in check mode would change. Checked is the number of tasks on the endpoint that it checked, and Unchecked of
	// those that it did not.
	Changes   *Changes `json:"changes,omitempty"`
	Checked   int      `json:"checked,omitempty"`
	Unchecked int      `json:"unchecked,omitempty"`
	// RequeueAfter is the last period that requeue_after was called with, such as 1h30m, or empty.
	RequeueAfter string `json:"requeueAfter,omitempty"`
}

// Changes are what a run in check mode would have changed.
type Changes struct {
	// Tasks is the number of tasks on the endpoint that would change something, and Names has those of the first ones.
	Tasks int      `json:"tasks"`
	Names []string `json:"names,omitempty"`
	// Diff is bounded, and has nothing of tasks with no_log.
	Diff string `json:"diff,omitempty"`
}
