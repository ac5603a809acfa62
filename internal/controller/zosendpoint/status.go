package zosendpoint

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

// outcome is what the steps of one reconciliation have found. Status is computed from it.
type outcome struct {
	spec
	// accepted is true if the spec is valid, and its users are known.
	accepted bool
	users
	// state of the security domain, nil if it could not be read.
	state *endpoint.State
	// conflict is true if others changed a state at the same time: the reconciliation is repeated.
	conflict bool
	// probe is the result of the probe, nil if there was none.
	probe *probeResult
	// exceeded is not nil if the endpoint is not probed because there are too many.
	exceeded error
	// postponed is true if a probe was due, but too many others run.
	postponed bool
}

// users are those of an endpoint.
type users struct {
	// configs are the SubOperatorConfigs that map it.
	configs []v2beta2.SubOperatorConfigReference
	// operators has the ServiceAccounts of the operators that may use it.
	operators []rbacv1.Subject
	// installed has all operators of the namespace's SubOperatorConfigs, as namespace/name.
	installed map[string]bool
}

// write writes the status that follows from the outcome, and an event when Ready changed.
func (o *outcome) write(
	ctx context.Context, c client.Client, recorder events.EventRecorder, e *v2beta2.ZosEndpoint, memory *probeMemory, err error,
) (ctrl.Result, error) {
	before := e.DeepCopy()
	now := &e.Status
	now.ObservedGeneration = e.Generation
	status.SetReady(&now.Conditions, e.Generation, err, "the endpoint is accepted")
	now.Message = status.ReadyMessage(now.Conditions)
	if o.accepted {
		now.SubOperatorConfigs = o.configs
		o.describeReachable(e, memory.outageOf(o.state, o.settings.Address))
		describeCredentials(e, o.state)
		describeAbandoned(e, o.state)
	} else {
		meta.RemoveStatusCondition(&now.Conditions, v2beta2.ConditionReachable)
		memory.due = time.Time{} // Once the spec is accepted again, whether it is reachable is not known.
	}
	if reachable := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionReachable); reachable != nil && err == nil {
		now.Message = reachable.Message
	}
	now.Phase = status.Phase(now.Conditions, v2beta2.ConditionReady)
	writer := status.Writer{Client: c, Recorder: recorder, Action: "Probe", BecameReady: metrics.BecameReady("ZosEndpoint")}
	result, err := writer.Write(ctx, e, before, err)
	if e.ResourceVersion == before.ResourceVersion && !equality.Semantic.DeepEqual(e.Status, before.Status) {
		memory.due = time.Time{} // The result of the probe was not written.
	}
	if after := o.after(e, memory); o.accepted && err == nil && after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) {
		result.RequeueAfter = after
	}
	return result, err
}

// after returns the delay before the next reconcile, or zero.
func (o *outcome) after(e *v2beta2.ZosEndpoint, memory *probeMemory) time.Duration {
	var delays []time.Duration
	if e.Spec.EndpointType != v2beta2.EndpointLocal {
		delays = append(delays, time.Until(memory.due))
	}
	if o.conflict {
		delays = append(delays, recoveryInterval)
	}
	if o.state != nil {
		system := o.state.Systems[o.settings.Address]
		if system != nil && len(system.Queue) > 0 || isTried(o.state) {
			delays = append(delays, outageInterval)
		}
		switch over := system != nil && system.Outage != nil && memory.over.Equal(system.Outage.Since); {
		case over && o.probe != nil:
			delays = append(delays, 0)
		case over:
			delays = append(delays, recoveryInterval)
		}
	}
	if len(delays) == 0 {
		return 0
	}
	return max(slices.Min(delays), time.Millisecond)
}

// isTried reports whether a run tries a credential of the security domain: others wait for it.
func isTried(state *endpoint.State) bool {
	for _, logon := range state.Logons {
		if logon.Trying != nil {
			return true
		}
	}
	return false
}

// describeProbe is the message of Reachable after a successful probe.
func describeProbe(e *v2beta2.ZosEndpoint, shown ssh.PublicKey) string {
	return fmt.Sprintf("%s answers with host key %s", mapping.Address(e), ssh.FingerprintSHA256(shown))
}

// describeReachable sets Reachable, and pins the host key of an endpoint whose spec has none. Without a probe and an outage,
// the result of the last probe remains.
func (o *outcome) describeReachable(e *v2beta2.ZosEndpoint, outage *endpoint.Outage) {
	now := &e.Status
	set := func(err error, message string) {
		status.SetCondition(&now.Conditions, v2beta2.ConditionReachable, e.Generation, err, message)
	}
	local := e.Spec.EndpointType == v2beta2.EndpointLocal
	if local || len(e.Spec.HostKeys) > 0 {
		now.HostKeys, now.PinnedFor = nil, ""
	}
	last := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionReachable)
	switch {
	case local:
		now.Latency = ""
		set(nil, "playbooks run in the operator's own pod")
	case o.exceeded != nil:
		set(o.exceeded, "")
	case o.probe != nil && o.probe.err != nil:
		now.Latency = ""
		set(probeFailure(o.probe.err), "")
	case o.probe != nil:
		now.Latency = o.probe.latency
		set(nil, describeProbe(e, o.probe.shown))
		if len(e.Spec.HostKeys) == 0 {
			now.HostKeys, now.PinnedFor = []string{probe.FormatHostKey(o.probe.shown)}, mapping.Address(e)
		}
	case outage != nil && (last == nil || last.Status != metav1.ConditionFalse):
		now.Latency = ""
		set(status.Retry(v2beta2.ReasonHostUnreachable, fmt.Errorf("a run could not reach %s: %s",
			mapping.Address(e), printable.Line(outage.Message, maxRefusalBytes))), "")
	case last != nil && !o.postponed:
		last.ObservedGeneration = e.Generation
	}
}

// describeCredentials sets CredentialAccepted once a run has logged on in the security domain. A logon that was accepted later than
// a refusal ends it, also that of another user ID: Secrets are corrected that way too.
func describeCredentials(e *v2beta2.ZosEndpoint, state *endpoint.State) {
	if state == nil {
		return
	}
	var accepted, refused []string
	latest := lastAccepted(state)
	for _, user := range slices.Sorted(maps.Keys(state.Logons)) {
		logon, id := state.Logons[user], printable.Line(state.Logons.UserID(user), maxRefusalBytes)
		if logon.IsAccepted() {
			accepted = append(accepted, id)
		} else if last := logon.LastRefusal(); last != nil && !latest.After(last.At) {
			refused = append(refused, fmt.Sprintf("of user %s at %s (ZosEndpoint %q: %s)", id,
				last.At.UTC().Format(time.RFC3339), last.Endpoint, printable.Line(last.Message, maxRefusalBytes)))
		}
	}
	now := &e.Status.Conditions
	set := func(err error, message string) {
		status.SetCondition(now, v2beta2.ConditionCredentialAccepted, e.Generation, err, message)
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
func describeAbandoned(e *v2beta2.ZosEndpoint, state *endpoint.State) {
	if state == nil {
		return
	}
	var abandoned []v2beta2.AbandonedResource
	for _, a := range state.Abandoned {
		if a.Endpoint != e.Name {
			continue
		}
		namespace, _, _ := strings.Cut(a.Operator, "/")
		abandoned = append(abandoned, v2beta2.AbandonedResource{
			Group: a.Group, Kind: a.Kind, Namespace: namespace, Name: a.Name, RemovedAt: metav1.NewTime(a.At.Truncate(time.Second)),
		})
	}
	e.Status.Abandoned = abandoned
}

// annotationPinned records on a ZosEndpoint the host keys of its status, one per line after the host:port that they belong to:
// backups often omit status. Whoever may edit it may also edit spec.hostKeys.
const annotationPinned = "zoscb.ibm.com/pinned-host-keys"

// restorePinned returns the host keys to the status of a ZosEndpoint that was restored without one, before anything connects to it.
// A status in which a user has removed them is not empty: the next key is pinned then.
func restorePinned(ctx context.Context, c client.Client, e *v2beta2.ZosEndpoint) error {
	if e.Status.ObservedGeneration != 0 || len(e.Status.HostKeys) > 0 || !pins(e) {
		return nil
	}
	keys := parsePinned(e.Annotations[annotationPinned], mapping.Address(e))
	if len(keys) == 0 {
		return nil
	}
	before := e.DeepCopy()
	e.Status.HostKeys, e.Status.PinnedFor = keys, mapping.Address(e)
	return status.Patch(ctx, c, e, before)
}

// recordPinned sets or removes the annotation, so that it says what status says.
func recordPinned(ctx context.Context, c client.Client, e *v2beta2.ZosEndpoint) error {
	pinned := formatPinned(e)
	if e.Annotations[annotationPinned] == pinned {
		return nil
	}
	before := e.DeepCopy()
	if pinned == "" {
		delete(e.Annotations, annotationPinned)
	} else {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, annotationPinned, pinned)
	}
	return client.IgnoreNotFound(c.Patch(ctx, e, client.MergeFrom(before), client.FieldOwner(apply.FieldOwner)))
}

// pins reports whether the host keys of a ZosEndpoint are those of its status.
func pins(e *v2beta2.ZosEndpoint) bool {
	return e.Spec.EndpointType != v2beta2.EndpointLocal && len(e.Spec.HostKeys) == 0
}

func formatPinned(e *v2beta2.ZosEndpoint) string {
	if !pins(e) {
		return ""
	}
	lines := make([]string, 0, len(e.Status.HostKeys))
	for _, key := range e.Status.HostKeys {
		lines = append(lines, e.Status.PinnedFor+" "+key)
	}
	return strings.Join(lines, "\n")
}

// parsePinned returns the host keys that are recorded for an address. A line that is no host key is ignored.
func parsePinned(text, address string) []string {
	var keys []string
	for line := range strings.Lines(text) {
		key, found := strings.CutPrefix(strings.TrimSpace(line), address+" ")
		if parsed, err := probe.ParseHostKey(key); found && err == nil {
			keys = append(keys, probe.FormatHostKey(parsed))
		}
	}
	return keys[:min(len(keys), maxPinnedKeys)]
}

// maxPinnedKeys limits what is read of an annotation. The manager pins one key; a user may have written others into status.
const maxPinnedKeys = 16
