package zosendpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// patchStatus writes the status that follows from the scope, and an event when Ready changed.
func (r *Reconciler) patchStatus(ctx context.Context, s *endpointScope, memory *probeMemory, err error) (ctrl.Result, error) {
	e := s.endpoint
	before := e.DeepCopy()
	now := &e.Status
	now.ObservedGeneration = e.Generation
	status.SetReady(&now.Conditions, e.Generation, err, "the endpoint is accepted")
	now.Message = status.ReadyMessage(now.Conditions)
	if s.accepted {
		now.SubOperatorConfigs = s.users
		describeReachable(s, s.outage(memory))
		describeCredentials(s)
		describeAbandoned(s)
	} else {
		meta.RemoveStatusCondition(&now.Conditions, v2beta2.ConditionReachable)
		memory.due = time.Time{} // Once the spec is accepted again, whether it is reachable is not known.
	}
	if reachable := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionReachable); reachable != nil && err == nil {
		now.Message = reachable.Message
	}
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: r.Client, Recorder: r.Recorder, Action: "Probe", BecameReady: metrics.BecameReady("ZosEndpoint")}
	result, err := writer.Write(ctx, e, before, err)
	if e.ResourceVersion == before.ResourceVersion && !equality.Semantic.DeepEqual(e.Status, before.Status) {
		memory.due = time.Time{} // The result of the probe was not written.
	}
	if after := r.after(s, memory); s.accepted && err == nil && after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result, err
}

// describeCredentials sets CredentialAccepted once a run has logged on in the security domain. A logon that was accepted later than
// a refusal ends it, also that of another user ID: Secrets are corrected that way too.
func describeCredentials(s *endpointScope) {
	if s.state == nil {
		return
	}
	var accepted, refused []string
	latest := lastAccepted(s.state)
	for _, user := range slices.Sorted(maps.Keys(s.state.Logons)) {
		logon, id := s.state.Logons[user], printable.Line(s.state.Logons.UserID(user), maxRefusalBytes)
		if logon.IsAccepted() {
			accepted = append(accepted, id)
		} else if last := logon.LastRefusal(); last != nil && !latest.After(last.At) {
			refused = append(refused, fmt.Sprintf("of user %s at %s (ZosEndpoint %q: %s)", id,
				last.At.UTC().Format(time.RFC3339), last.Endpoint, printable.Line(last.Message, maxRefusalBytes)))
		}
	}
	now := &s.endpoint.Status.Conditions
	set := func(err error, message string) {
		status.SetCondition(now, v2beta2.ConditionCredentialAccepted, s.endpoint.Generation, err, message)
	}
	switch {
	case len(refused) > 0:
		set(status.Retry(v2beta2.ReasonCredentialRefused, fmt.Errorf(
			"the security domain refused the credential %s: runs with it wait. Correct the Secret, or allow another logon with the annotation %s",
			status.JoinNames(refused), endpoint.AnnotationRetry)), "")
	case len(accepted) > 0:
		set(nil, "runs logged on as "+status.JoinNames(accepted))
	default:
		meta.RemoveStatusCondition(now, v2beta2.ConditionCredentialAccepted)
	}
}

// lastAccepted returns when a credential of a security domain was last accepted that was not before, or zero.
func lastAccepted(state *endpoint.State) time.Time {
	var last time.Time
	for _, logon := range state.Logons {
		for _, at := range logon.Accepted {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// maxRefusalBytes limits what a message says about one refused credential.
const maxRefusalBytes = 512

// describeAbandoned lists the custom resources of the endpoint that were removed without a run.
func describeAbandoned(s *endpointScope) {
	if s.state == nil {
		return
	}
	var abandoned []v2beta2.AbandonedResource
	for _, a := range s.state.Abandoned {
		if a.Endpoint != s.endpoint.Name {
			continue
		}
		namespace, _, _ := strings.Cut(a.Operator, "/")
		abandoned = append(abandoned, v2beta2.AbandonedResource{
			Group: a.Group, Kind: a.Kind, Namespace: namespace, Name: a.Name, RemovedAt: metav1.NewTime(a.At.Truncate(time.Second)),
		})
	}
	s.endpoint.Status.Abandoned = abandoned
}
