package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Custom resources that were removed without a run", func() {
	It("are shown on the installation, with what may be left on z/OS", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		endpoint, soc := newEndpoint(namespace, "lpar1", &sshServer{host: "lpar1.example.com"}), defaultSOC(oc)
		Create(ctx, endpoint)
		removed := func(kind, in, name string) string {
			return fmt.Sprintf(`{"kind":%q,"namespace":%q,"name":%q,"removedAt":"2026-11-22T09:00:00Z"}`, kind, in, name)
		}
		Eventually(ctx, func(g Gomega) {
			g.Expect(K8s.Status().Patch(ctx, endpoint.DeepCopy(), merge(`{"status":{"abandoned":[`+removed(s.kind, namespace, "one")+`,`+
				removed(s.kind, "elsewhere", "two")+`,`+removed("Other", namespace, "three")+`]}}`))).To(Succeed())
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Abandoned", ConsistOf(And(
				HaveField("Kind", s.kind), HaveField("Name", "one"), HaveField("ZosEndpoint", "lpar1"), HaveField("RemovedAt.IsZero()", false))))))
			g.Expect(soc.Status.Warnings).To(ContainElement(fmt.Sprintf(
				"namespace %q: 1 resource was removed without a run, and what it represents may be left on z/OS: %s one on lpar1", namespace, s.kind)))
		}).Should(Succeed())
		Expect(soc.Status.Installations[0].Ready).To(BeTrue())

		By("as long as their endpoint says so")
		Remove(ctx, endpoint)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Abandoned", BeEmpty())))
			g.Expect(soc.Status.Warnings).To(BeEmpty())
		}).Should(Succeed())
	})
})
