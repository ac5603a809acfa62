package render

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func (s ArtifactServer) ports() []int32 {
	if s.HTTPPort == 0 {
		return []int32{s.Port}
	}
	return []int32{s.Port, s.HTTPPort}
}

// dnsPorts are the ports of DNS servers. OpenShift's DNS pods listen on 5353, and NetworkPolicies apply to the port of the
// pod.
var dnsPorts = []int32{53, 5353}

// networkPolicy denies all ingress to the operator's pods: they only serve probes, which come from their own node and are
// always allowed. Egress is limited if spec.runtime restricts it.
func networkPolicy(c *model.Collection, o InstallationOptions) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: IdentityLabels(c.ID())},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	if restrictsEgress(o) {
		policy.Spec.PolicyTypes = append(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		policy.Spec.Egress = egressRules(o)
	}
	return policy
}

func restrictsEgress(o InstallationOptions) bool {
	return o.Runtime.NetworkPolicy != nil && o.Runtime.NetworkPolicy.Egress == v2beta2.EgressRestricted
}

func egressRules(o InstallationOptions) []networkingv1.NetworkPolicyEgressRule {
	rules := []networkingv1.NetworkPolicyEgressRule{
		// The manager does not know the address of the cluster's DNS server.
		{Ports: append(policyPorts(corev1.ProtocolUDP, dnsPorts), policyPorts(corev1.ProtocolTCP, dnsPorts)...)},
		{To: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: o.ArtifactServer.Namespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{v2beta2.ManagerLabel: v2beta2.ManagerLabelValue}},
		}}, Ports: policyPorts(corev1.ProtocolTCP, o.ArtifactServer.ports())},
	}
	rules = append(rules, endpointRules(o.Endpoints)...)
	for _, destination := range o.Runtime.NetworkPolicy.AllowTo {
		rules = append(rules, networkingv1.NetworkPolicyEgressRule{
			To: []networkingv1.NetworkPolicyPeer{ipBlock(destination.CIDR)}, Ports: policyPorts(corev1.ProtocolTCP, destination.Ports),
		})
	}
	return rules
}

// endpointRules returns one rule for each port, with the known addresses of endpoints.
func endpointRules(endpoints []Endpoint) []networkingv1.NetworkPolicyEgressRule {
	byPort := map[int32][]netip.Addr{}
	for _, e := range endpoints {
		if address, unknown := e.address(); unknown == "" && !e.Local {
			byPort[e.port()] = append(byPort[e.port()], address)
		}
	}
	var rules []networkingv1.NetworkPolicyEgressRule
	for _, port := range slices.Sorted(maps.Keys(byPort)) {
		rule := networkingv1.NetworkPolicyEgressRule{Ports: policyPorts(corev1.ProtocolTCP, []int32{port})}
		for _, address := range slices.Compact(slices.SortedFunc(slices.Values(byPort[port]), netip.Addr.Compare)) {
			rule.To = append(rule.To, ipBlock(netip.PrefixFrom(address, address.BitLen()).String()))
		}
		rules = append(rules, rule)
	}
	return rules
}

// address returns the IP address of a remote endpoint, or the reason why it is unknown.
func (e Endpoint) address() (address netip.Addr, unknown string) {
	// These variables take precedence over the endpoint's host and port, and may be templates.
	for _, name := range []string{"ansible_host", "ansible_port", "ansible_ssh_host", "ansible_ssh_port"} {
		if _, set := e.Variables[name]; set {
			return address, "the variable " + name
		}
	}
	address, err := netip.ParseAddr(e.Host)
	if err != nil || address.Zone() != "" {
		return netip.Addr{}, "a host name"
	}
	return address.Unmap(), ""
}

// EgressWarnings returns a warning for each endpoint that pods with restricted egress can only reach if allowTo contains its
// address, in the order of the endpoints.
func EgressWarnings(o InstallationOptions) []string {
	if !restrictsEgress(o) {
		return nil
	}
	var warnings []string
	for _, e := range o.Endpoints {
		if _, unknown := e.address(); unknown != "" && !e.Local {
			warnings = append(warnings, fmt.Sprintf("ZosEndpoint %q has %s, and egress is restricted: playbooks reach it only if "+
				"runtime.networkPolicy.allowTo has its address and port", e.Name, unknown))
		}
	}
	return warnings
}

func ipBlock(cidr string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
}

// policyPorts returns nil for no ports, which means all ports of all protocols.
func policyPorts(protocol corev1.Protocol, ports []int32) []networkingv1.NetworkPolicyPort {
	var list []networkingv1.NetworkPolicyPort
	for _, port := range ports {
		list = append(list, networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(port))})
	}
	return list
}
