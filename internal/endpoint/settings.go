// Package endpoint decides whether a run may use a z/OS system now: caps, windows, holds, refused credentials and outages. It is
// pure. The gate (internal/runner) reads the ZosEndpoint and the state of its security domain, calls Admit before each run,
// and writes the state that it returns; the manager (internal/controller) creates the state and reports it in status.
package endpoint

import (
	"time"

	"github.com/robfig/cron/v3"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// AnnotationRunNow on a ZosEndpoint, a time in RFC 3339, lets the runs that were waiting at that time start outside the run
// windows. On a custom resource, any value that was not served yet does the same for its next run.
const AnnotationRunNow = "zoscb.ibm.com/run-now"

// AnnotationRetry on a ZosEndpoint allows, whenever its value changes, another logon with the credentials that its security
// domain has refused.
const AnnotationRetry = "zoscb.ibm.com/retry"

// Settings are what a ZosEndpoint says about when runs may start.
type Settings struct {
	// Name of the ZosEndpoint.
	Name string
	// Address is the system that runs are counted by: host:port in lower case, or local/NAME.
	Address string
	// MaxRuns is the number of runs that may use Address at the same time, or 0 for no limit.
	MaxRuns int
	// Windows outside which no run starts. Empty means always.
	Windows []Window
	// Hold is why no run starts, or empty.
	Hold string
	// Settle is the time between the end of an outage and the first run.
	Settle time.Duration
	// RunNow is the value of AnnotationRunNow, or zero.
	RunNow time.Time
	// UnreachableSince is the time since which the manager's probes fail, or zero.
	UnreachableSince time.Time
}

// SettingsOf reads a ZosEndpoint. All problems of its windows are in the error.
func SettingsOf(e *v2beta2.ZosEndpoint) (Settings, error) { panic("not implemented") }

// Domain returns the security domain of a ZosEndpoint: spec.securityDomain, or else its host in lower case, or local/NAME.
func Domain(e *v2beta2.ZosEndpoint) string { panic("not implemented") }

// StateName returns the name of the Secret, in the namespace of the ZosEndpoint, with the State of its security domain: zosendpoint-
// and a hash.
func StateName(e *v2beta2.ZosEndpoint) string { panic("not implemented") }

// Window is a recurring time in which runs may start.
type Window struct {
	schedule cron.Schedule
	duration time.Duration
}

// ParseWindow parses a run window. Schedules have five fields, without seconds, descriptors (@daily) and TZ=.
func ParseWindow(w v2beta2.RunWindow) (Window, error) { panic("not implemented") }

// Open reports whether one of the windows is open, until when (zero if there are none), and when the next one opens if not
// (zero if none opens within five years).
func Open(windows []Window, now time.Time) (open bool, until, next time.Time) {
	panic("not implemented")
}
