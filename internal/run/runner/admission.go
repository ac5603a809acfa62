package runner

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Reasons of waiting for the ZosEndpoint itself.
const (
	// reasonEndpointNotFound means that the ZosEndpoint does not exist any more.
	reasonEndpointNotFound endpoint.Reason = "EndpointNotFound"
	// reasonStateUnavailable means that the operator may not read the ZosEndpoint, or cannot use the state.
	reasonStateUnavailable endpoint.Reason = "EndpointStateUnavailable"
	// reasonCredentialUnknown means that the manager has not identified the credential.
	reasonCredentialUnknown endpoint.Reason = "CredentialUnknown"
	// reasonEndpointInvalid means that the run windows of the ZosEndpoint cannot be used.
	reasonEndpointInvalid endpoint.Reason = "EndpointInvalid"
)

// place is what a run got from Admit. It is released after the run, also by another process of the pod.
type place struct {
	// Namespace and Secret have the state of the security domain.
	Namespace string `json:"namespace"`
	Secret    string `json:"secret"`
	// Settings of the endpoint when the run started, without windows.
	Settings   endpoint.Settings `json:"settings"`
	User       string            `json:"user,omitempty"`
	Credential string            `json:"credential,omitempty"`
	// Resource is the UID of the custom resource, Admitted when the run was admitted, and Canary what Admit said.
	Resource types.UID `json:"resource,omitempty"`
	Admitted time.Time `json:"admitted,omitzero"`
	Canary   bool      `json:"canary,omitempty"`
	// Reported is what the state has been told already, and ToldAt when. Others may have learned something else since.
	Reported endpoint.Connection `json:"told,omitempty"`
	ToldAt   time.Time           `json:"toldAt,omitzero"`
}

// waiting is a run that may not start, and since when.
type waiting struct {
	endpoint.Wait
	since time.Time
}

// admit asks whether a run may use its endpoint. If it returns nil, the run may start, and r.place must be released after it; a run
// against an endpoint that the installation does not have needs none, and fails (see withoutPlace).
func (r *runner) admit(ctx context.Context, s *situation) (*waiting, error) {
	name := text(specOf(s.live)["zosendpoint"])
	logon, err := r.files.logon(name)
	if err != nil || logon == nil {
		return nil, err
	}
	namespace, err := r.files.endpointsNamespace()
	if err != nil {
		return nil, err
	}
	e, err := r.readEndpoint(ctx, namespace, name)
	if isUnusable(err) {
		r.out.note("%v", err)
		return r.waitsFor(s.live, reasonStateUnavailable, unreadableEndpoint(name, namespace))
	}
	if err != nil {
		return nil, err
	}
	if e == nil {
		message := fmt.Sprintf("ZosEndpoint %s does not exist in namespace %s: create it again, or change zosendpoint", name, namespace)
		return r.waitsFor(s.live, reasonEndpointNotFound, message)
	}
	settings, err := endpoint.SettingsOf(e)
	if err != nil {
		return r.waitsFor(s.live, reasonEndpointInvalid, fmt.Sprintf("ZosEndpoint %s: %v", name, err))
	}
	if wait, err := r.takePersonal(ctx, s.live, name, logon); wait != nil || err != nil {
		return wait, err
	}
	if logon.unknown {
		return r.waitsFor(s.live, reasonCredentialUnknown, unknownCredential(name))
	}
	request := r.request(r.call.ident, time.Now())
	served := s.input.Record != nil && s.input.Record.RunNow == s.input.RunNow
	request.RunNow = s.decision.Action == gate.ActionRun && s.input.RunNow != "" && !served && namespace == r.files.namespace
	return r.admitTo(ctx, s, e, settings, request, *logon)
}

// admitTo asks the state of an endpoint's security domain. A run that waits gets a ticket, and one that may start a place.
func (r *runner) admitTo(
	ctx context.Context, s *situation, e *v2beta2.ZosEndpoint, settings endpoint.Settings, request endpoint.Request, l logon,
) (*waiting, error) {
	uid := s.live.GetUID()
	request.Since = r.waitingSince(s.live, settings.Address, request.Now)
	own := ticket{Since: request.Since, Endpoint: settings.Name}
	ahead, err := r.tickets.ahead(settings.Address, uid, own, request.Now)
	if err != nil {
		return nil, err
	}
	var admission endpoint.Admission
	p := &place{Namespace: e.Namespace, Secret: endpoint.StateName(e), Settings: settings, User: l.user, Credential: l.credential}
	p.Settings.Windows = nil
	request.User, request.Credential = p.User, p.Credential
	err = r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		admission = admitBehind(state, settings, request, ahead)
		return admission.Changed
	})
	if isUnusable(err) {
		r.out.note("%v", err)
		return r.waitsFor(s.live, reasonStateUnavailable, unusableState(p))
	}
	if err != nil {
		return nil, err
	}
	if wait := admission.Wait; wait != nil {
		own.Next, own.Shared = request.Now.Add(wait.After), isShared(wait.Reason)
		if err := r.tickets.write(settings.Address, uid, own); err != nil {
			return nil, err
		}
		return &waiting{Wait: *wait, since: request.Since}, r.tickets.remove(uid, settings.Address)
	}
	p.Resource, p.Admitted, p.Canary = uid, request.Now, admission.Canary
	r.place, r.waited, s.decision.Canary = p, max(0, request.Now.Sub(request.Since)), admission.Canary
	return nil, nil
}

// isShared reports whether all runs against a system wait for the same reason, whatever their ZosEndpoint is.
func isShared(reason endpoint.Reason) bool {
	return slices.Contains([]endpoint.Reason{
		endpoint.ReasonCredentialUntested, endpoint.ReasonUnreachable, endpoint.ReasonSettling, endpoint.ReasonBusy,
	}, reason)
}

// waitingSince returns the first of the times that can be true, or now. It has whole seconds, as times in status.
func waitingSince(now time.Time, times ...time.Time) time.Time {
	for _, since := range times {
		if !since.IsZero() && !since.After(now) {
			return since.UTC().Truncate(time.Second)
		}
	}
	return now.UTC().Truncate(time.Second)
}

// request returns what is the same for all requests of a run of this pod.
func (r *runner) request(run string, now time.Time) endpoint.Request {
	return endpoint.Request{
		Now: now, Operator: r.operator(), PodName: r.podLock.PodName, Pod: types.UID(r.podLock.PodUID),
		Resource: r.resourceID(), Run: run, Since: now.UTC().Truncate(time.Second),
		Ended: func(resource, _ string) bool { return r.runEnded(resource) },
	}
}

func (r *runner) operator() string { return r.podLock.Namespace + "/" + r.podLock.Name }

// wait answers that a run waits. Status says why, unless that usually ends within seconds.
func (r *runner) wait(ctx context.Context, s situation, w waiting) (answer, error) {
	if w.Brief && time.Since(w.since) < r.intervals.Visible {
		return askAgain(w.After), nil
	}
	shown := runstatus.Waiting{Reason: string(w.Reason), Message: w.Message, Since: metav1.NewTime(w.since)}
	if !w.Until.IsZero() {
		shown.Until = new(metav1.NewTime(w.Until.UTC().Truncate(time.Second)))
	}
	status := statusOf(s.live)
	wanted := runstatus.Wait(status, r.statusResource(s.live), shown)
	if !runstatus.Equal(status, wanted) {
		if _, err := r.writeStatus(ctx, s.live, wanted); err != nil {
			return answer{}, fmt.Errorf("write status: %w", err)
		}
	}
	return askAgain(w.After), nil
}

// observe tells the state what a run that is not over has learned about its endpoint.
func (r *runner) observe(ctx context.Context, p *place, report runstatus.Report) error {
	return r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		return state.Observe(p.Settings, r.requestOf(p, r.call.ident), report.Connection, report.Cause())
	})
}

// release tells the state what a run has learned, and gives back its place. It does nothing without a place, or if the state is gone.
func (r *runner) release(ctx context.Context, p *place, run string, report runstatus.Report) error {
	if p == nil {
		return nil
	}
	err := r.changeState(ctx, p.Namespace, p.Secret, func(state *endpoint.State) bool {
		return p.end(state, r.requestOf(p, run), report)
	})
	if isUnusable(err) {
		r.out.note("%v", err)
		return nil
	}
	return err
}

// end tells the state what it has not been told yet, and gives the place back.
func (p *place) end(state *endpoint.State, request endpoint.Request, report runstatus.Report) bool {
	observed := report.Connection != p.Reported && state.Observe(p.Settings, request, report.Connection, report.Cause())
	request.Canary = p.Canary && p.Reported == endpoint.ConnectionNone && report.Connection == endpoint.ConnectionNone
	return state.Release(p.Settings, request) || observed
}

// observer tells the state at once what a run learns about its endpoint.
type observer struct {
	runner *runner
	known  bool
}

// first looks at the report until the connection is known.
func (o *observer) first(ctx context.Context) {
	if !o.known {
		o.again(ctx)
	}
}

// again looks at the report. A write that fails is repeated by the next call.
func (o *observer) again(ctx context.Context) {
	r := o.runner
	if r.place == nil {
		return
	}
	report, err := readReport(r.reportFile())
	if err != nil || report.Ended != "" || report.Connection == r.place.Reported {
		return
	}
	o.known = true
	if err := r.observe(ctx, r.place, report); err != nil {
		return
	}
	r.place.Reported, r.place.ToldAt = report.Connection, time.Now()
	if err := r.journal.updatePlace(r.place); err != nil {
		r.out.note("journal: %v", err)
	}
}

func (r *runner) requestOf(p *place, run string) endpoint.Request {
	request := r.request(run, time.Now())
	request.User, request.Credential = p.User, p.Credential
	request.Admitted, request.Observed = p.Admitted, r.reportedAt()
	if p.Reported != endpoint.ConnectionNone {
		request.Admitted = p.ToldAt
	}
	return request
}

// reportedAt returns when the run wrote its report, or zero if it has not: its end may be recorded long after it.
func (r *runner) reportedAt() time.Time {
	info, err := os.Stat(r.reportFile())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// abandon lets a resource go without a run, and says so in the state of its endpoint, as far as that still exists, and in an event.
func (r *runner) abandon(ctx context.Context, s situation) (answer, error) {
	name := text(specOf(s.live)["zosendpoint"])
	isNew, err := r.addAbandoned(ctx, s, name)
	if err != nil && !isUnusable(err) {
		return answer{}, err
	}
	if isNew {
		r.announce(ctx, s.live, corev1.EventTypeWarning, "Abandoned",
			fmt.Sprintf("removed without a run: what the resource describes may be left on endpoint %s", name))
	}
	return answer{done: true}, nil
}

// addAbandoned adds the resource to the state of its endpoint. It reports false if it is there already: ansible-operator asks again
// if it could not remove the finalizer.
func (r *runner) addAbandoned(ctx context.Context, s situation, name string) (bool, error) {
	variables, err := r.files.endpointVariables(name)
	if variables == nil || err != nil {
		return true, err
	}
	namespace, err := r.files.endpointsNamespace()
	if err != nil {
		return true, err
	}
	e, err := r.readEndpoint(ctx, namespace, name)
	if e == nil || err != nil {
		return true, err
	}
	entry := endpoint.Abandoned{
		Operator: r.operator(), Group: r.files.settings.Group, Kind: r.files.kindName, Name: r.files.name, Endpoint: name,
		At: time.Now().UTC().Truncate(time.Second),
	}
	deleted := s.live.GetDeletionTimestamp().Time
	isNew := true
	err = r.changeState(ctx, namespace, endpoint.StateName(e), func(state *endpoint.State) bool {
		isNew = !slices.ContainsFunc(state.Abandoned, func(a endpoint.Abandoned) bool {
			return a.Operator == entry.Operator && a.Group == entry.Group && a.Kind == entry.Kind && a.Name == entry.Name && !a.At.Before(deleted)
		})
		if isNew {
			state.Abandon(entry)
		}
		return isNew
	})
	return isNew, err
}

// mayStart asks whether a run may start now. If it returns nil, it may; see admit.
func (r *runner) mayStart(ctx context.Context, s *situation) (*waiting, error) {
	if s.decision.Migration != nil {
		if wait, err := r.awaitMigration(ctx, s.live); wait != nil || err != nil {
			return wait, err
		}
	}
	if wait, err := r.awaitSecrets(ctx, s); wait != nil || err != nil {
		return wait, err
	}
	return r.admit(ctx, s)
}

// admitBehind asks the state for a run while others of the pod have been waiting for longer. Those that their ZosEndpoint keeps from
// running are not ahead of one that passes; for one that has to wait for the same, they are.
func admitBehind(state *endpoint.State, settings endpoint.Settings, request endpoint.Request, ahead ahead) endpoint.Admission {
	request.Ahead = ahead.shared
	admission := state.Admit(settings, request)
	if wait := admission.Wait; wait != nil && !isShared(wait.Reason) {
		request.Ahead = ahead.endpoint
		return state.Admit(settings, request) // It has not changed the state: what it waits for comes first.
	}
	return admission
}
