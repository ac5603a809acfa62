package runner

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// withoutAddress is the folder of the tickets of runs that wait because their ZosEndpoint, its state or its credential cannot be
// used. It is no address: those have a port.
const withoutAddress = "none"

// waitsFor lets a run wait for something that the manager, a user or another resource has to do, for which no state is asked.
func (r *runner) waitsFor(live *unstructured.Unstructured, reason endpoint.Reason, message string) (*waiting, error) {
	now, uid := time.Now(), live.GetUID()
	since := r.waitingSince(live, withoutAddress, now)
	after := r.untilNextLook(now.Sub(since))
	if _, err := r.tickets.ahead(withoutAddress, uid, ticket{}, now); err != nil { // It removes old ones.
		return nil, err
	}
	if err := r.tickets.write(withoutAddress, uid, ticket{Since: since, Next: now.Add(after)}); err != nil {
		return nil, err
	}
	// After an installation, the manager may need seconds.
	brief := !slices.Contains([]endpoint.Reason{
		reasonEndpointInvalid, reasonMigrationStopped, reasonSecretNotAllowed, reasonPersonalMissing, reasonPersonalInvalid, reasonPersonalUnprotected,
	}, reason)
	wait := endpoint.Wait{Reason: reason, Message: message, After: after, Brief: brief}
	return &waiting{Wait: wait, since: since}, r.tickets.remove(uid, withoutAddress)
}

// untilNextLook returns when the gate looks again for something that nobody tells it of: as long as it has been waiting, at least
// Intervals.Retry, and at most 5 minutes.
func (r *runner) untilNextLook(waited time.Duration) time.Duration {
	return min(max(waited, r.intervals.Retry), gate.RecheckInterval).Truncate(time.Second)
}

// waitingSince returns since when a run waits, according to its status or to one of its tickets, or now.
func (r *runner) waitingSince(live *unstructured.Unstructured, address string, now time.Time) time.Time {
	uid := live.GetUID()
	return waitingSince(now, runstatus.WaitingSince(statusOf(live)),
		r.tickets.read(address, uid).Since, r.tickets.read(withoutAddress, uid).Since)
}

func unreadableEndpoint(name, namespace string) string {
	return fmt.Sprintf("the operator may not read ZosEndpoint %s in namespace %s: if it stays so, see the log of the manager, which grants it",
		name, namespace)
}

func unusableState(p *place) string {
	return fmt.Sprintf("Secret %s in namespace %s, the state of ZosEndpoint %s, does not exist, cannot be read or may not be used: "+
		"if it stays so, see the ZosEndpoint and the operator's log", p.Secret, p.Namespace, p.Settings.Name)
}

func unknownCredential(name string) string {
	return fmt.Sprintf("the manager has not identified the credential of ZosEndpoint %s yet: if it stays so, see the log of the manager", name)
}
