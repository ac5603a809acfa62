package integration

import (
	"context"
	"fmt"
	"net"
	"strconv"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Egress of an operator's pods", func() {
	apiServer := []v2beta2.EgressDestination{{CIDR: "192.0.2.1/32", Ports: []int32{6443}}}

	// allowed are the destinations of the operator's NetworkPolicy, or nil if it limits none.
	allowed := func(ctx context.Context, namespace string, s *sample) func(Gomega) []string {
		return func(g Gomega) []string {
			policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}}
			Get(ctx, g, policy)
			g.Expect(policy.Spec.PolicyTypes).To(ContainElement(networkingv1.PolicyTypeIngress))
			g.Expect(policy.Spec.Ingress).To(BeEmpty())
			if len(policy.Spec.PolicyTypes) == 1 {
				g.Expect(policy.Spec.Egress).To(BeEmpty())
				return nil
			}
			var destinations []string
			for _, rule := range policy.Spec.Egress {
				g.Expect(len(rule.To)).To(BeNumerically("<=", 1))
				to := "anywhere"
				for _, peer := range rule.To {
					if peer.IPBlock != nil {
						to = peer.IPBlock.CIDR
					} else {
						to = peer.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"] + "/" + peer.PodSelector.MatchLabels["app.kubernetes.io/name"]
					}
				}
				for _, port := range rule.Ports {
					destinations = append(destinations, fmt.Sprintf("%s %s %s", to, *port.Protocol, port.Port))
				}
			}
			return destinations
		}
	}
	always := func() []any {
		_, port, err := net.SplitHostPort(theManager.artifactAddress)
		Expect(err).NotTo(HaveOccurred())
		return []any{
			"anywhere UDP 53", "anywhere UDP 5353", "anywhere TCP 53", "anywhere TCP 5353",
			ManagerNamespace + "/collection-operator TCP " + port, "192.0.2.1/32 TCP 6443",
		}
	}
	warnings := func(ctx context.Context, soc *v2beta2.SubOperatorConfig) func(Gomega) []string {
		return func(g Gomega) []string {
			Get(ctx, g, soc)
			return soc.Status.Warnings
		}
	}

	It("is limited on demand, follows endpoints, and rolls no pods", func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		oc := installSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Expect(allowed(ctx, namespace, s)(Default)).To(BeNil())
		operator := deployment(namespace, s.operator())
		Get(ctx, Default, operator)
		generation := operator.Generation

		Patch(ctx, oc, `{"spec":{"runtime":{"networkPolicy":{"egress":"Restricted","allowTo":[{"cidr":"192.0.2.1/32","ports":[6443]}]}}}}`)
		Eventually(ctx, allowed(ctx, namespace, s)).Should(ConsistOf(always()...))

		By("letting an endpoint through that has an address")
		Create(ctx, newEndpoint(namespace, "lpar1", server))
		lpar1 := "127.0.0.1/32 TCP " + strconv.Itoa(int(server.port))
		Eventually(ctx, allowed(ctx, namespace, s)).Should(ConsistOf(append(always(), lpar1)...))
		Expect(warnings(ctx, soc)(Default)).To(BeEmpty())

		By("warning of an endpoint that has a host name")
		lpar2 := newEndpoint(namespace, "lpar2", server)
		lpar2.Spec.Host = "localhost"
		Create(ctx, lpar2)
		Eventually(ctx, warnings(ctx, soc)).Should(ConsistOf(
			And(ContainSubstring(`ZosEndpoint "lpar2" has a host name`), ContainSubstring("runtime.networkPolicy.allowTo"))))
		Expect(allowed(ctx, namespace, s)(Default)).To(ConsistOf(append(always(), lpar1)...))
		ExpectReady(ctx, soc)

		By("closing what was removed")
		Remove(ctx, newEndpoint(namespace, "lpar1", server))
		Remove(ctx, lpar2)
		Eventually(ctx, allowed(ctx, namespace, s)).Should(ConsistOf(always()...))
		Eventually(ctx, warnings(ctx, soc)).Should(BeEmpty())

		By("being lifted by the SubOperatorConfig, which has the last word")
		Patch(ctx, soc, `{"spec":{"runtime":{"networkPolicy":{}}}}`)
		Eventually(ctx, allowed(ctx, namespace, s)).Should(BeNil())
		Get(ctx, Default, operator)
		Expect(operator.Generation).To(Equal(generation))
		ExpectReady(ctx, oc)
	})

	DescribeTable("is not limited by what cannot work", func(ctx context.Context, policy v2beta2.NetworkPolicySpec, message string) {
		runtime := &v2beta2.RuntimeSpec{NetworkPolicy: &policy}
		soc := newSOC("default", "refused", "oc")
		soc.Spec.Runtime = runtime
		for _, object := range []client.Object{newCollection("default", "refused", v2beta2.OperatorCollectionSpec{Runtime: runtime}), soc} {
			Expect(K8s.Create(ctx, object, client.DryRunAll)).To(beRefused(message))
		}
	},
		Entry("without the API server", v2beta2.NetworkPolicySpec{Egress: v2beta2.EgressRestricted}, "the API server"),
		Entry("with a list that limits nothing", v2beta2.NetworkPolicySpec{AllowTo: apiServer}, "without egress Restricted"),
		Entry("an unknown word", v2beta2.NetworkPolicySpec{Egress: "Some", AllowTo: apiServer}, "networkPolicy.egress"),
		Entry("a host name", to("lpar1.example"), "must be a network such as"),
		Entry("an address without a prefix", to("192.0.2.1"), "must be a network such as"),
		Entry("a network that could be meant otherwise", to("192.0.2.1/24"), "must be a network such as"),
		Entry("an address with leading zeros", to("010.0.0.1/32"), "must be a network such as"),
		Entry("nothing", to(""), "networkPolicy.allowTo[0].cidr"),
		Entry("a port that is none", to("192.0.2.1/32", 70000), "networkPolicy.allowTo[0].ports[0]"),
	)

	DescribeTable("is limited by", func(ctx context.Context, policy v2beta2.NetworkPolicySpec) {
		oc := newCollection("default", "accepted", v2beta2.OperatorCollectionSpec{Runtime: &v2beta2.RuntimeSpec{NetworkPolicy: &policy}})
		Expect(K8s.Create(ctx, oc, client.DryRunAll)).To(Succeed())
	},
		Entry("a network", to("10.0.0.0/8", 443)),
		Entry("one address", to("192.0.2.1/32")),
		Entry("a network of IPv6", to("2001:db8::/64", 22, 6443)),
		Entry("ports alone", to("0.0.0.0/0", 443)),
	)
})

// to restricts egress to a network.
func to(cidr string, ports ...int32) v2beta2.NetworkPolicySpec {
	return v2beta2.NetworkPolicySpec{
		Egress: v2beta2.EgressRestricted, AllowTo: []v2beta2.EgressDestination{{CIDR: cidr, Ports: ports}},
	}
}
