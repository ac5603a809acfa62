package zosendpoint

import (
	"errors"
	"fmt"

	"golang.org/x/crypto/ssh"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
)

// describeProbe is the message of Reachable after a successful probe.
func describeProbe(e *v2beta2.ZosEndpoint, shown ssh.PublicKey) string {
	return fmt.Sprintf("%s answers with host key %s", mapping.Address(e), ssh.FingerprintSHA256(shown))
}

// describeReachable sets Reachable, and pins the host key of an endpoint whose spec has none. Without a probe and an outage,
// the result of the last probe remains.
func describeReachable(s *endpointScope, outage *endpoint.Outage) {
	now := &s.endpoint.Status
	set := func(err error, message string) {
		status.SetCondition(&now.Conditions, v2beta2.ConditionReachable, s.endpoint.Generation, err, message)
	}
	local := s.endpoint.Spec.EndpointType == v2beta2.EndpointLocal
	if local || len(s.endpoint.Spec.HostKeys) > 0 {
		now.HostKeys, now.PinnedFor = nil, ""
	}
	last := meta.FindStatusCondition(now.Conditions, v2beta2.ConditionReachable)
	switch {
	case local:
		now.Latency = ""
		set(nil, "playbooks run in the operator's own pod")
	case s.exceeded != nil:
		set(s.exceeded, "")
	case s.probe != nil && s.probe.err != nil:
		now.Latency = ""
		set(probeFailure(s.probe.err), "")
	case s.probe != nil:
		now.Latency = s.probe.latency
		set(nil, describeProbe(s.endpoint, s.probe.shown))
		if len(s.endpoint.Spec.HostKeys) == 0 {
			now.HostKeys, now.PinnedFor = []string{probe.FormatHostKey(s.probe.shown)}, mapping.Address(s.endpoint)
		}
	case outage != nil && (last == nil || last.Status != metav1.ConditionFalse):
		now.Latency = ""
		set(status.Retry(v2beta2.ReasonHostUnreachable, fmt.Errorf("a run could not reach %s: %s",
			mapping.Address(s.endpoint), printable.Line(outage.Message, maxRefusalBytes))), "")
	case last != nil && !s.postponed:
		last.ObservedGeneration = s.endpoint.Generation
	}
}

// probeFailure gives an error of a probe its reason.
func probeFailure(err error) error {
	var mismatch *probe.HostKeyMismatchError
	var forbidden *dialguard.Error
	switch {
	case errors.As(err, &mismatch):
		return status.Retry(v2beta2.ReasonHostKeyMismatch, fmt.Errorf("%w: if the key was changed on purpose, put the new one into spec.hostKeys", err))
	case errors.As(err, &forbidden):
		return status.Retry(v2beta2.ReasonHostForbidden, err)
	}
	return status.Retry(v2beta2.ReasonHostUnreachable, err)
}
