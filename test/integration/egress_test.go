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

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Egress of an operator's pods", func() {
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
})
