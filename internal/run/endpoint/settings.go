// Package endpoint decides whether a run may use a z/OS system now: caps, windows, holds, refused credentials and outages. It is
// pure. The gate (internal/run/runner) reads the ZosEndpoint and the state of its security domain, calls Admit before each run,
// and writes the state that it returns; the manager (internal/controller) creates the state and reports it in status.
package endpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// AnnotationRunNow on a ZosEndpoint, a time in RFC 3339, lets the runs that were waiting at that time start outside the run
// windows. On a custom resource, any value that was not served yet does the same for its next run.
const AnnotationRunNow = "zoscb.ibm.com/run-now"

// AnnotationRetry on a ZosEndpoint allows, whenever its value changes, another logon with the credentials that its security
// domain has refused.
const AnnotationRetry = "zoscb.ibm.com/retry"

// LabelCredential, with the value "true", marks a Secret of any type as a credential that may be sent to endpoints and servers.
const LabelCredential = "zoscb.ibm.com/credential"

// Settings are what a ZosEndpoint says about when runs may start.
type Settings struct {
	// Name of the ZosEndpoint.
	Name string
	// Address is the system that runs are counted by, see Address.
	Address string
	// MaxRuns is the number of runs that may use Address at the same time, or 0 for no limit. It is what this ZosEndpoint says:
	// if others have the same Address, System.Limit has the lowest value of all.
	MaxRuns int
	// Windows outside which no run starts. Empty means always.
	Windows []Window
	// Hold is why no run starts, or empty.
	Hold string
	// Settle is the time between the end of an outage and the first run.
	Settle time.Duration
	// RunNow is the value of AnnotationRunNow, or zero if it is absent or not a time.
	RunNow time.Time
	// UnreachableSince is the time since which the manager's probes fail, or zero, and UnreachableMessage says why.
	UnreachableSince   time.Time
	UnreachableMessage string
}

// SettingsOf reads a ZosEndpoint. All problems of its windows are in the error.
func SettingsOf(e *v2beta2.ZosEndpoint) (Settings, error) {
	settings := Settings{Name: e.Name, Address: Address(e), Hold: e.Spec.Hold}
	var errs []error
	for i, w := range e.Spec.RunWindows {
		window, err := ParseWindow(w)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.runWindows[%d]: %w", i, err))
		}
		settings.Windows = append(settings.Windows, window)
	}
	if len(errs) > 0 {
		return Settings{}, errors.Join(errs...)
	}
	if e.Spec.MaxConcurrentRuns != nil {
		settings.MaxRuns = max(0, int(*e.Spec.MaxConcurrentRuns))
	}
	if e.Spec.Settle != nil {
		settings.Settle = max(0, e.Spec.Settle.Duration)
	}
	if runNow, err := time.Parse(time.RFC3339, e.Annotations[AnnotationRunNow]); err == nil {
		settings.RunNow = runNow
	}
	reachable := meta.FindStatusCondition(e.Status.Conditions, v2beta2.ConditionReachable)
	if reachable != nil && reachable.Status == metav1.ConditionFalse && reachable.Reason == v2beta2.ReasonHostUnreachable {
		settings.UnreachableSince, settings.UnreachableMessage = reachable.LastTransitionTime.Time, reachable.Message
	}
	return settings, nil
}

// isLocal reports whether playbooks run in the operator's own pod: there is no logon, and nothing to reach.
func (e *Settings) isLocal() bool { return strings.HasPrefix(e.Address, localPrefix) }

// localPrefix begins the address of a local endpoint. No host contains a slash.
const localPrefix = "local/"

// Address returns the system that runs are counted by: host:port in lower case, or local/NAME.
func Address(e *v2beta2.ZosEndpoint) string {
	if e.Spec.EndpointType == v2beta2.EndpointLocal {
		return localPrefix + e.Name
	}
	host := strings.ToLower(e.Spec.Host)
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(e.Spec.EffectivePort()))
}

// Domain returns the security domain of a ZosEndpoint: spec.securityDomain, or else its host in lower case, or local/NAME.
func Domain(e *v2beta2.ZosEndpoint) string {
	if e.Spec.EndpointType == v2beta2.EndpointLocal {
		return cmp.Or(e.Spec.SecurityDomain, localPrefix+e.Name)
	}
	return cmp.Or(e.Spec.SecurityDomain, strings.ToLower(e.Spec.Host))
}

// prefixState begins the names of Secrets with states.
const prefixState = "zosendpoint-"

// StateName returns the name of the Secret, in the namespace of the ZosEndpoint, with the State of its security domain: zosendpoint-
// and a hash.
func StateName(e *v2beta2.ZosEndpoint) string {
	hash := sha256.Sum256([]byte(Domain(e)))
	return prefixState + hex.EncodeToString(hash[:16])
}
