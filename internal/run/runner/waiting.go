package runner

import (
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Reasons of waiting that the state of an endpoint does not know.
const (
	// reasonEndpointNotFound means that the ZosEndpoint does not exist any more.
	reasonEndpointNotFound endpoint.Reason = "EndpointNotFound"
	// reasonStateUnavailable means that the operator may not read the ZosEndpoint, or cannot use the state.
	reasonStateUnavailable endpoint.Reason = "EndpointStateUnavailable"
	// reasonCredentialUnknown means that the manager has not identified the credential.
	reasonCredentialUnknown endpoint.Reason = "CredentialUnknown"
	// reasonEndpointInvalid means that the run windows of the ZosEndpoint cannot be used.
	reasonEndpointInvalid endpoint.Reason = "EndpointInvalid"
	// reasonPersonalMissing means that the resource names no Secret.
	reasonPersonalMissing endpoint.Reason = "PersonalCredentialMissing"
	// reasonPersonalInvalid means that the Secret does not exist, or is not a credential.
	reasonPersonalInvalid endpoint.Reason = "PersonalCredentialInvalid"
	// reasonPersonalUnreadable means that the operator may not read the Secret.
	reasonPersonalUnreadable endpoint.Reason = "PersonalCredentialUnreadable"
	// reasonPersonalUnprotected means that anybody who may change the resource could name the Secret of somebody else.
	reasonPersonalUnprotected endpoint.Reason = "PersonalCredentialUnprotected"
	// reasonMigrationStopped means that the migration of another resource has failed.
	reasonMigrationStopped endpoint.Reason = "MigrationStopped"
	// reasonRunsAlone means that the last runs of the resource, or those of another one whose run is in progress, ended for an unknown reason.
	reasonRunsAlone endpoint.Reason = "RunsAlone"
	// reasonSecretNotAllowed means that playbooks may not read a Secret that the resource names, or that does not exist.
	reasonSecretNotAllowed endpoint.Reason = v2beta2.ReasonRuntimeObjectNotAllowed
)

// waitError says why a run may not start now, and since when that is so.
type waitError struct {
	endpoint.Wait
	since time.Time
}

func (e *waitError) Error() string { return e.Message }

// withoutAddress is the folder of the tickets of runs that wait because their ZosEndpoint, its state or its credential cannot be
// used. It is no address: those have a port.
const withoutAddress = "none"

// waitFor lets a run wait for something that the manager, a user or another resource has to do, for which no state is asked.
func (r *scope) waitFor(live *unstructured.Unstructured, reason endpoint.Reason, message string) error {
	now, uid := time.Now(), live.GetUID()
	since := r.waitingSince(live, withoutAddress, now)
	after := r.untilNextLook(now.Sub(since))
	if _, err := r.tickets.Ahead(withoutAddress, uid, podfiles.Ticket{}, now); err != nil { // It removes old ones.
		return err
	}
	// After an installation, the manager may need seconds.
	brief := !slices.Contains([]endpoint.Reason{
		reasonEndpointInvalid, reasonMigrationStopped, reasonSecretNotAllowed, reasonPersonalMissing, reasonPersonalInvalid, reasonPersonalUnprotected,
	}, reason)
	wait := endpoint.Wait{Reason: reason, Message: message, After: after, Brief: brief}
	return r.takeTicket(withoutAddress, uid, podfiles.Ticket{Since: since, Next: now.Add(after)}, wait)
}

// These are no addresses either: besideAlone is of runs that wait because they, or another one, have to be alone, and withError of those that
// cannot start.
const besideAlone, withError = "alone", "error"

// maxAloneWait is how long a run waits because it, or another one, has to be alone: the pod may never be idle, and a playbook may wait for the
// resource of another run.
const maxAloneWait = 10 * time.Minute

// besideOthers lets a run start beside others of the pod, or alone: then nothing else can be why its container ends. The file that it
// returns has to be closed after the run; it is nil if the run has waited in vain.
func (r *scope) besideOthers(live *unstructured.Unstructured, isAlone bool) (*os.File, error) {
	alone, message := podfiles.Alone{Dir: r.files.StateDir}, "the last runs of the resource ended without a report: the playbook starts when no other one is running"
	take := alone.Share
	if isAlone {
		take = func() (*os.File, string, error) { return alone.Take(r.files.KindName + "/" + r.files.Name) }
	}
	lock, other, err := take()
	if lock != nil || err != nil {
		return lock, err
	}
	if other != "" {
		message = "the last runs of " + other + " ended without a report, so it is running alone: the playbook starts when that has ended"
	}
	now := time.Now()
	since := podfiles.Since(now, r.tickets.Read(besideAlone, live.GetUID()).Since)
	if now.Sub(since) >= maxAloneWait {
		return nil, nil
	}
	wait := endpoint.Wait{Reason: reasonRunsAlone, Message: message, After: r.intervals.Retry, Brief: true}
	return nil, r.takeTicket(besideAlone, live.GetUID(), podfiles.Ticket{Since: since, Next: now.Add(wait.After)}, wait)
}

// takeTicket replaces the tickets of a run that waits by one for an address, and returns that it waits.
func (r *scope) takeTicket(address string, uid types.UID, ticket podfiles.Ticket, wait endpoint.Wait) error {
	if err := r.tickets.Write(address, uid, ticket); err != nil {
		return err
	}
	if err := r.tickets.Remove(uid, address); err != nil {
		return err
	}
	return &waitError{Wait: wait, since: ticket.Since}
}

// untilNextLook returns when the gate looks again for something that nobody tells it of: as long as it has been waiting, at least
// Intervals.Retry, and at most 5 minutes.
func (r *scope) untilNextLook(waited time.Duration) time.Duration {
	return min(max(waited, r.intervals.Retry), gate.RecheckInterval).Truncate(time.Second)
}

// waitingSince returns since when a run waits, according to its status or to one of its tickets, or now.
func (r *scope) waitingSince(live *unstructured.Unstructured, address string, now time.Time) time.Time {
	uid := live.GetUID()
	return podfiles.Since(now, runstatus.WaitingSince(statusOf(live)),
		r.tickets.Read(address, uid).Since, r.tickets.Read(withoutAddress, uid).Since)
}

func unreadableEndpoint(name, namespace string) string {
	return fmt.Sprintf("the operator may not read ZosEndpoint %s in namespace %s: if it stays so, see the log of the manager, which grants it",
		name, namespace)
}

func unusableState(p *podfiles.Slot) string {
	return fmt.Sprintf("Secret %s in namespace %s, the state of ZosEndpoint %s, does not exist, cannot be read or may not be used: "+
		"if it stays so, see the ZosEndpoint and the operator's log", p.Secret, p.Namespace, p.Settings.Name)
}

func unknownCredential(name string) string {
	return fmt.Sprintf("the manager has not identified the credential of ZosEndpoint %s yet: if it stays so, see the log of the manager", name)
}
