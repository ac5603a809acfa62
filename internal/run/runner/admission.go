package runner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
)

// permit is what a run got that may start.
type permit struct {
	// slot must be released after the run. It is nil if the installation has no such endpoint: the run needs none, and fails (see
	// withoutSlot).
	slot *podfiles.Slot
	// personal is the credential of the user that the run uses, or nil.
	personal *podfiles.Personal
	// shared is held by all runs of the pod, or by one alone. It must be closed after the run, if it is not nil.
	shared *os.File
	// waited is how long the run has waited for its endpoint.
	waited time.Duration
}

// mayStart asks whether a run may start now. The error is a waitError if it has to wait.
func mayStart(ctx context.Context, r *scope, s situation) (permit, error) {
	if s.decision.Migration != nil {
		if err := (migrations{r}).await(ctx, s.live); err != nil {
			return permit{}, err
		}
	}
	if err := (secrets{r}).await(ctx, s.live); err != nil {
		return permit{}, err
	}
	shared, err := r.besideOthers(s.live, gate.RunsAlone(s.input, s.decision))
	if err != nil {
		return permit{}, err
	}
	p, err := admit(ctx, endpoints{r}, s)
	p.shared = shared
	return p, err
}

// admit asks whether a run may use its endpoint.
func admit(ctx context.Context, r endpoints, s situation) (permit, error) {
	name := endpointOf(specOf(s.live))
	logon, err := r.files.Logon(name)
	if err != nil || logon == nil {
		return permit{}, err
	}
	namespace, err := r.files.EndpointsNamespace()
	if err != nil {
		return permit{}, err
	}
	e, err := r.read(ctx, namespace, name)
	if isUnusable(err) {
		r.out.Note("%v", err)
		return permit{}, r.waitFor(s.live, reasonStateUnavailable, unreadableEndpoint(name, namespace))
	}
	if err != nil {
		return permit{}, err
	}
	if e == nil {
		message := fmt.Sprintf("ZosEndpoint %s does not exist in namespace %s: create it again, or change zosendpoint", name, namespace)
		return permit{}, r.waitFor(s.live, reasonEndpointNotFound, message)
	}
	settings, err := endpoint.SettingsOf(e)
	if err != nil {
		return permit{}, r.waitFor(s.live, reasonEndpointInvalid, fmt.Sprintf("ZosEndpoint %s: %v", name, err))
	}
	own, err := secrets(r).takePersonal(ctx, s.live, name, logon)
	if err != nil {
		return permit{}, err
	}
	if logon.Unknown {
		return permit{}, r.waitFor(s.live, reasonCredentialUnknown, unknownCredential(name))
	}
	request := r.request(r.call.Ident, time.Now())
	served := s.input.Record != nil && s.input.Record.RunNow == s.input.RunNow
	request.RunNow = s.decision.Action == gate.ActionRun && s.input.RunNow != "" && !served && namespace == r.files.Namespace
	request.User, request.Credential = logon.User, logon.Credential
	slot, waited, err := admitTo(ctx, r, s.live, e, settings, request)
	return permit{slot: slot, personal: own, waited: waited}, err
}

// admitTo asks the state of an endpoint's security domain. A run that waits gets a ticket, and one that may start a slot. It also returns
// how long that took.
func admitTo(
	ctx context.Context, r endpoints, live *unstructured.Unstructured, e *v2beta2.ZosEndpoint, settings endpoint.Settings, request endpoint.Request,
) (*podfiles.Slot, time.Duration, error) {
	uid := live.GetUID()
	request.Since = r.waitingSince(live, settings.Address, request.Now)
	ticket := podfiles.Ticket{Since: request.Since, Endpoint: settings.Name}
	ahead, err := r.tickets.Ahead(settings.Address, uid, ticket, request.Now)
	if err != nil {
		return nil, 0, err
	}
	var admission endpoint.Admission
	p := &podfiles.Slot{Namespace: e.Namespace, Secret: endpoint.StateName(e), Settings: settings, User: request.User, Credential: request.Credential}
	p.Settings.Windows = nil
	err = r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		admission = admitBehind(state, settings, request, ahead)
		return admission.Changed
	})
	if isUnusable(err) {
		r.out.Note("%v", err)
		return nil, 0, r.waitFor(live, reasonStateUnavailable, unusableState(p))
	}
	if err != nil {
		return nil, 0, err
	}
	if wait := admission.Wait; wait != nil {
		ticket.Next, ticket.Shared = request.Now.Add(wait.After), isShared(wait.Reason)
		return nil, 0, r.takeTicket(settings.Address, uid, ticket, *wait)
	}
	p.Resource, p.Admitted, p.Canary = uid, request.Now, admission.Canary
	return p, max(0, request.Now.Sub(request.Since)), nil
}

// isShared reports whether all runs against a system wait for the same reason, whatever their ZosEndpoint is.
func isShared(reason endpoint.Reason) bool {
	return slices.Contains([]endpoint.Reason{
		endpoint.ReasonCredentialUntested, endpoint.ReasonUnreachable, endpoint.ReasonSettling, endpoint.ReasonBusy,
	}, reason)
}

// admitBehind asks the state for a run while others of the pod have been waiting for longer. Those that their ZosEndpoint keeps from
// running are not ahead of one that passes; for one that has to wait for the same, they are.
func admitBehind(state *endpoint.State, settings endpoint.Settings, request endpoint.Request, ahead podfiles.Ahead) endpoint.Admission {
	request.Ahead = ahead.Shared
	admission := state.Admit(settings, request)
	if wait := admission.Wait; wait != nil && !isShared(wait.Reason) {
		request.Ahead = ahead.Endpoint
		return state.Admit(settings, request) // It has not changed the state: what it waits for comes first.
	}
	return admission
}
