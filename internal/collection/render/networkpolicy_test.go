package render

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// testPolicy allows pods to connect to an API server.
func testPolicy() *v2beta2.NetworkPolicySpec {
	return &v2beta2.NetworkPolicySpec{
		Egress:  v2beta2.EgressRestricted,
		AllowTo: []v2beta2.EgressDestination{{CIDR: "192.0.2.1/32", Ports: []int32{6443, 443}}, {CIDR: "2001:db8::/64"}},
	}
}

// addresses returns "cidr:port" for each network and port in the rules.
func addresses(rules []networkingv1.NetworkPolicyEgressRule) []string {
	var found []string
	for _, rule := range rules {
		for _, to := range rule.To {
			for _, port := range rule.Ports {
				if to.IPBlock != nil {
					found = append(found, to.IPBlock.CIDR+" "+string(*port.Protocol)+" "+port.Port.String())
				}
			}
		}
	}
	return found
}

func TestEndpointsWithAnAddressAreLetThrough(t *testing.T) {
	redirected := func(name, value string) Endpoint {
		return Endpoint{Name: "e", Host: "192.0.2.1", Variables: map[string]any{name: value}}
	}
	tests := map[string]struct {
		endpoints []Endpoint
		want      []string
		// unknown is the warning for the only endpoint.
		unknown string
	}{
		"none":                         {},
		"IPv4":                         {endpoints: []Endpoint{{Name: "e", Host: "192.0.2.1"}}, want: []string{"192.0.2.1/32 TCP 22"}},
		"IPv6":                         {endpoints: []Endpoint{{Name: "e", Host: "2001:DB8:0:0::1", Port: 2022}}, want: []string{"2001:db8::1/128 TCP 2022"}},
		"IPv4 in IPv6":                 {endpoints: []Endpoint{{Name: "e", Host: "0:0:0:0:0:ffff:192.0.2.1"}}, want: []string{"192.0.2.1/32 TCP 22"}},
		"local":                        {endpoints: []Endpoint{{Name: "e", Local: true, Host: "192.0.2.1"}}},
		"other variables":              {endpoints: []Endpoint{redirected("ansible_user", "me")}, want: []string{"192.0.2.1/32 TCP 22"}},
		"host name":                    {endpoints: []Endpoint{{Name: "e", Host: "lpar1.example"}}, unknown: "has a host name"},
		"octal for ssh":                {endpoints: []Endpoint{{Name: "e", Host: "010.0.0.1"}}, unknown: "has a host name"},
		"short for ssh":                {endpoints: []Endpoint{{Name: "e", Host: "127.1"}}, unknown: "has a host name"},
		"number for ssh":               {endpoints: []Endpoint{{Name: "e", Host: "2130706433"}}, unknown: "has a host name"},
		"a network":                    {endpoints: []Endpoint{{Name: "e", Host: "0.0.0.0/0"}}, unknown: "has a host name"},
		"zone":                         {endpoints: []Endpoint{{Name: "e", Host: "fe80::1%eth0"}}, unknown: "has a host name"},
		"another host in a variable":   {endpoints: []Endpoint{redirected("ansible_host", "192.0.2.2")}, unknown: "variable ansible_host"},
		"another host by its alias":    {endpoints: []Endpoint{redirected("ansible_ssh_host", "{{ x }}")}, unknown: "variable ansible_ssh_host"},
		"another port in a variable":   {endpoints: []Endpoint{redirected("ansible_port", "2022")}, unknown: "variable ansible_port"},
		"another port by its alias":    {endpoints: []Endpoint{redirected("ansible_ssh_port", "2022")}, unknown: "variable ansible_ssh_port"},
		"a refused endpoint's address": {endpoints: []Endpoint{{Name: "e", Host: "192.0.2.1", Refusal: "HostKeyUnknown"}}, want: []string{"192.0.2.1/32 TCP 22"}},
		"sorted, each once": {
			endpoints: []Endpoint{
				{Name: "d", Host: "192.0.2.10"}, {Name: "c", Host: "192.0.2.9", Port: 22}, {Name: "b", Host: "192.0.2.10"},
				{Name: "a", Host: "192.0.2.10", Port: 21}, {Name: "e", Host: "::1"},
			},
			want: []string{"192.0.2.10/32 TCP 21", "192.0.2.9/32 TCP 22", "192.0.2.10/32 TCP 22", "::1/128 TCP 22"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, addresses(endpointRules(tt.endpoints))); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			o := testOptions(model.Group)
			o.Runtime.NetworkPolicy, o.Endpoints = testPolicy(), tt.endpoints
			warnings := strings.Join(EgressWarnings(o), "\n")
			if (warnings != "") != (tt.unknown != "") || !strings.Contains(warnings, tt.unknown) {
				t.Errorf("warnings %q, want %q", warnings, tt.unknown)
			}
		})
	}
}

func TestEgressIsLimitedOnlyOnDemand(t *testing.T) {
	o := testOptions(model.Group)
	o.Endpoints = []Endpoint{{Name: "e", Host: "lpar1.example"}}
	for _, policy := range []*v2beta2.NetworkPolicySpec{nil, {}, {Egress: v2beta2.EgressUnrestricted}} {
		o.Runtime.NetworkPolicy = policy
		spec := find[*networkingv1.NetworkPolicy](t, install(t, testCollection("1.0.0"), o)).Spec
		if diff := cmp.Diff([]networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, spec.PolicyTypes); diff != "" || spec.Egress != nil {
			t.Errorf("%+v limits egress to %v (-want +got):\n%s", policy, spec.Egress, diff)
		}
		if warnings := EgressWarnings(o); warnings != nil {
			t.Errorf("%+v warns: %v", policy, warnings)
		}
	}
}

func TestNetworkPolicyLeavesThePodTemplateAlone(t *testing.T) {
	o := testOptions(model.Group)
	before := find[*appsv1.Deployment](t, install(t, testCollection("1.0.0"), o))
	o.Runtime.NetworkPolicy, o.Endpoints = testPolicy(), []Endpoint{{Name: "e", Host: "192.0.2.1"}}
	after := find[*appsv1.Deployment](t, install(t, testCollection("1.0.0"), o))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Deployment (-without +with policy):\n%s", diff)
	}
}
