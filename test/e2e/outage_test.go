//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func outageSpecs() {
	late := dataFile("late", map[string]any{"zosendpoint": lpar2.name, "filename": "late.txt"})

	It("fails while the endpoint is down, and recovers by itself", func(ctx context.Context) {
		lpar2.down(ctx)
		Create(ctx, late.DeepCopy())
		Eventually(ctx, Condition(ctx, late, "Failure")).Should(And(ConditionTrue(), WithMessage(lpar2.name)))
		Expect(Condition(ctx, late, "Successful")(Default)).NotTo(ConditionTrue())
		Expect(lastRun(ctx, late)(Default)).To(withOutcome(gate.OutcomeUnreachable))
		Expect(Live(ctx, Default, late).GetFinalizers()).To(ContainElement(InstanceFinalizer))
		zep := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: lpar2.name, Namespace: namespace}}
		Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionFalse(), "the endpoint shows what the run learned")
		Eventually(ctx, waitsFor(ctx, late)).Should(Equal(endpoint.ReasonUnreachable))

		lpar2.up(ctx)
		expectSuccess(ctx, late)
		Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Expect(lpar2.files(ctx)).To(ContainElement("late.txt"))
	})

	It("keeps a deleted resource until its finalizer playbook could run", func(ctx context.Context) {
		lpar2.down(ctx)
		Remove(ctx, late.DeepCopy())
		Eventually(ctx, Condition(ctx, late, "Failure")).Should(And(ConditionTrue(), WithMessage(lpar2.name)))
		Consistently(ctx, func(g Gomega) {
			g.Expect(Live(ctx, g, late).GetFinalizers()).To(ContainElement(InstanceFinalizer))
		}).Should(Succeed())

		lpar2.up(ctx)
		Eventually(ctx, Gone(ctx, late)).Should(BeTrue())
		Expect(lpar2.files(ctx)).NotTo(ContainElement("late.txt"))
	})

	It("fails a run that loses its endpoint in the middle, and recovers by itself", func(ctx context.Context) {
		slow := dataFile("slow", map[string]any{"zosendpoint": lpar1.name, "filename": "slow.txt", "wait_for_file": "go"})
		Create(ctx, slow.DeepCopy())
		expectModuleOn(ctx, lpar1)

		lpar1.down(ctx)
		Eventually(ctx, Condition(ctx, slow, "Failure")).Should(And(ConditionTrue(), WithMessage(lpar1.name)))
		Expect(Live(ctx, Default, slow).GetFinalizers()).To(ContainElement(InstanceFinalizer))
		Expect(lpar1.files(ctx)).NotTo(ContainElement("slow.txt"))

		lpar1.shell(ctx, "touch "+lpar1.base()+"/go")
		lpar1.up(ctx)
		expectSuccess(ctx, slow)
		Expect(lpar1.files(ctx)).To(ContainElement("slow.txt"))
	})

	It("keeps the finalizer when the endpoint goes away in the middle of the finalizer playbook", func(ctx context.Context) {
		slow := dataFile("slow", nil)
		Remove(ctx, slow.DeepCopy())
		expectModuleOn(ctx, lpar1)

		lpar1.down(ctx)
		Eventually(ctx, Condition(ctx, slow, "Failure")).Should(And(ConditionTrue(), WithMessage(lpar1.name)))
		Expect(Live(ctx, Default, slow).GetFinalizers()).To(ContainElement(InstanceFinalizer))
		Expect(lpar1.files(ctx)).To(ContainElement("slow.txt"))

		lpar1.shell(ctx, "touch "+lpar1.base()+"/remove-go")
		lpar1.up(ctx)
		Eventually(ctx, Gone(ctx, slow)).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement("slow.txt"))
		lpar1.shell(ctx, "rm "+lpar1.base()+"/go "+lpar1.base()+"/remove-go")
	})

	It("sends nothing to a host that has another key since it was probed", attack.Label, func(ctx context.Context) {
		zep := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: lpar2.name, Namespace: namespace}}
		Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionTrue())
		lpar2.newHostKey(ctx)
		before := len(lpar2.log(ctx))
		impostor := dataFile("impostor", map[string]any{"zosendpoint": lpar2.name, "filename": "impostor.txt"})
		Create(ctx, impostor.DeepCopy())
		Eventually(ctx, Condition(ctx, impostor, "Failure")).Should(And(ConditionTrue(), WithMessage("HostKeyMismatch")))
		heard := lpar2.log(ctx)[before:]
		Expect(heard).To(ContainSubstring("[preauth]"), "somebody connected")
		Expect(heard).NotTo(Or(ContainSubstring("Accepted"), ContainSubstring(lpar2.user)), "and told no user ID")
		Expect(lpar2.files(ctx)).NotTo(ContainElement("impostor.txt"))
		attack.Repelled(secretsAndHosts, "put another host in the place of one that was probed", "the run fails before it tells the user ID",
			Condition(ctx, impostor, "Failure")(Default).Message)

		lpar2.oldHostKey(ctx)
		expectSuccess(ctx, impostor)
		Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Remove(ctx, impostor.DeepCopy())
		Eventually(ctx, Gone(ctx, impostor)).Should(BeTrue())
	})
}

// newHostKey restarts the SSH server with another host key; oldHostKey with the one that it had.
func (t *target) newHostKey(ctx context.Context) {
	GinkgoHelper()
	t.down(ctx)
	t.shell(ctx, "rm /run/target/host_key; ssh-keygen -q -t ed25519 -N '' -f /run/target/host_key")
	t.up(ctx)
}

func (t *target) oldHostKey(ctx context.Context) {
	GinkgoHelper()
	t.down(ctx)
	t.shell(ctx, "install -m 0600 /etc/target/host_key /run/target/host_key")
	t.up(ctx)
}

// expectModuleOn waits until a playbook is in the middle of a task on the host.
func expectModuleOn(ctx context.Context, t *target) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(t.shell(ctx, "ps -u "+t.user+" -o args= || true")).To(ContainSubstring("python3"))
	}).Should(Succeed())
}
