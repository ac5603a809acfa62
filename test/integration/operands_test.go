package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("Operand requests", func() {
	size := func(ctx context.Context, object client.Object) func(Gomega) int64 {
		return func(g Gomega) int64 {
			value, _, err := unstructured.NestedInt64(Live(ctx, g, object).Object, "spec", "size")
			g.Expect(err).NotTo(HaveOccurred())
			return value
		}
	}
	mapping := func(ctx context.Context, t *tools) func(Gomega) []string {
		return func(g Gomega) []string {
			soc := defaultSOC(t.oc)
			Get(ctx, g, soc)
			var namespaces []string
			for _, m := range soc.Spec.Mapping {
				namespaces = append(namespaces, m.Namespace)
			}
			return namespaces
		}
	}

	It("bring operators and resources to teams that share them, change them, and give them back when the last one goes", func(ctx context.Context) {
		p := startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1, size: 5, note: a}")
		team := newNamespace(ctx)
		allowMapping(ctx, team, t.namespace)
		grantOperands(ctx, team, operandsRole)
		first := t.request(ctx, team, "first", "{name: files}", t.own("own"))
		second := t.request(ctx, t.namespace, "second", "{name: files}")
		own := t.instance(team, "own")

		By("installing the operator where it is needed")
		Eventually(ctx, mapping(ctx, t)).Should(ConsistOf(t.namespace, team))
		Eventually(ctx, phaseOf(ctx, first)).Should(Equal(operandsv1alpha1.RequestInstalling))
		Expect(Gone(ctx, own)(Default)).To(BeTrue(), "resources wait for the operator")
		p.kill()
		makeAvailable(ctx, team, t.sample.operator())
		p.start(ctx)
		Eventually(ctx, size(ctx, own)).Should(Equal(int64(8)))
		Eventually(ctx, size(ctx, t.shared())).Should(Equal(int64(5)))
		Eventually(ctx, phaseOf(ctx, first)).Should(Equal(operandsv1alpha1.RequestCreating))
		succeed(ctx, own)
		succeed(ctx, t.shared())
		ExpectReady(ctx, first)
		ExpectReady(ctx, second)
		Expect(phaseOf(ctx, first)(Default)).To(Equal(operandsv1alpha1.RequestRunning))
		Expect(first.Status.Members).To(HaveLen(1))
		Expect(first.Status.Members[0].OperandCRList).To(HaveLen(1))
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, t.registry)
			g.Expect(t.registry.Status.Phase).To(Equal(operandsv1alpha1.RegistryRunning))
			g.Expect(t.registry.Status.OperatorsStatus["files"].ReconcileRequests).To(HaveLen(2))
			Get(ctx, g, t.config)
			g.Expect(t.config.Status.Phase).To(Equal(operandsv1alpha1.ConfigRunning))
		}).Should(Succeed())

		By("changing what exists, but not what others have added")
		Patch(ctx, t.shared(), `{"metadata":{"labels":{"theirs":"true"}}}`)
		Patch(ctx, t.config, fmt.Sprintf(`{"spec":{"services":[{"name":"files","spec":{%q:{"zosendpoint":"lpar1","size":6}}}]}}`, t.sample.kind))
		Eventually(ctx, size(ctx, t.shared())).Should(Equal(int64(6)))
		Eventually(ctx, Field(ctx, t.shared(), "spec", "note")).Should(BeEmpty(), "what the config has no longer is removed")
		Expect(Live(ctx, Default, t.shared()).GetLabels()).To(HaveKeyWithValue("theirs", "true"))
		succeed(ctx, t.shared())
		ExpectReady(ctx, second)

		By("naming the field and its owner where somebody has changed it")
		Patch(ctx, t.shared(), `{"spec":{"size":7}}`)
		ExpectFailure(ctx, second, operandsv1alpha1.ReasonFieldConflict, ".spec.size", false)
		Expect(size(ctx, t.shared())(Default)).To(Equal(int64(7)))
		Patch(ctx, t.shared(), `{"spec":{"size":6}}`)
		succeed(ctx, t.shared())
		ExpectReady(ctx, second)

		By("changing nothing while nothing changes, and after a restart")
		ExpectReady(ctx, first)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, t.config)
			g.Expect(t.config.Status.ObservedGeneration).To(Equal(t.config.Generation))
		}).Should(Succeed())
		mark := markAudit()
		p.kill()
		p.start(ctx)
		Consistently(ctx, mark.operandWrites).Should(BeEmpty())

		By("removing what only the first one had")
		Remove(ctx, first)
		Eventually(ctx, Gone(ctx, first)).Should(BeTrue())
		Expect(Gone(ctx, own)(Default)).To(BeTrue())
		Expect(mapping(ctx, t)(Default)).To(ConsistOf(t.namespace))
		Expect(Live(ctx, Default, t.shared()).GetDeletionTimestamp()).To(BeNil())

		By("removing the rest, but not what was there before")
		Remove(ctx, second)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		Expect(Gone(ctx, t.shared())(Default)).To(BeTrue())
		Expect(mapping(ctx, t)(Default)).To(ConsistOf(t.namespace))
		ExpectReady(ctx, t.oc)
	})

	It("give outsiders nothing of a private operand", attack.Label, func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "private", "{zosendpoint: lpar1}")
		team := newNamespace(ctx)
		allowMapping(ctx, team, t.namespace)
		grantOperands(ctx, team, operandsRole)
		outside := t.request(ctx, team, "outside", "{name: files}", t.own("own"))
		ExpectFailure(ctx, outside, operandsv1alpha1.ReasonOutOfScope, "is private", false)
		Expect(Gone(ctx, t.instance(team, "own"))(Default)).To(BeTrue())
		Expect(Gone(ctx, t.shared())(Default)).To(BeTrue())
		Expect(mapping(ctx, t)(Default)).To(ConsistOf(t.namespace))
		Get(ctx, Default, outside)
		Expect(outside.Status.Inventory).To(BeEmpty())
		attack.Repelled("Tenancy", "request a private operand from another namespace", "nothing is created", seen(ctx, outside))

		By("once it is public")
		Patch(ctx, t.registry, `{"spec":{"operators":[{"name":"files","collection":{"name":"oc"},"scope":"public"}]}}`)
		Eventually(ctx, mapping(ctx, t)).Should(ConsistOf(t.namespace, team))
	})

	It("get copies of Secrets as their bindings allow, until these are revoked", func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		team := newNamespace(ctx)
		value := SecretValue("binding")
		source := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "admin"}, StringData: map[string]string{"password": value}}
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "theirs"}, StringData: map[string]string{"password": "kept"}}
		Create(ctx, source, theirs)
		info := &operandsv1alpha1.OperandBindInfo{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "info"}}
		Expect(yaml.UnmarshalStrict([]byte("{operand: files, registry: tools, bindings: {public: {secret: admin}, protected: {secret: admin}, private-x: {secret: admin}}}"), &info.Spec)).To(Succeed())
		Create(ctx, info)
		request := t.request(ctx, team, "request", "{name: files, bindings: {protected: {secret: theirs}, private-x: {secret: no}}}")
		ExpectFailure(ctx, request, operandsv1alpha1.ReasonNotGranted, "--clusterrole=collection-operator-operands-bindings", false)
		for _, namespace := range []string{t.namespace, team} {
			grantOperands(ctx, namespace, "collection-operator-operands-bindings")
		}
		Patch(ctx, t.registry, `{"spec":{"touched":"now"}}`)
		copied := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "info-admin"}}
		password := func(of *corev1.Secret) func(Gomega) string {
			return func(g Gomega) string {
				Get(ctx, g, of)
				return string(of.Data["password"])
			}
		}
		Eventually(ctx, password(copied)).Should(Equal(value))
		ExpectFailure(ctx, request, v2beta2.ReasonForeignObject, `Secret "`+team+`/theirs"`, false)
		Expect(password(theirs)(Default)).To(Equal("kept"))
		Expect(Gone(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "no"}})(Default)).To(BeTrue())
		attack.Repelled("Tenancy", "let a copy of a Secret overwrite another one", "it is not changed", seen(ctx, request))

		By("following the source")
		Patch(ctx, source, `{"stringData":{"password":"rotated"}}`)
		Eventually(ctx, password(copied)).Should(Equal("rotated"))
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, info)
			g.Expect(info.Status.RequestNamespaces).To(ConsistOf(team))
		}).Should(Succeed())

		By("while the rest of the operand has a mistake")
		Eventually(ctx, Gone(ctx, t.shared())).Should(BeFalse())
		Patch(ctx, t.config, `{"spec":{"services":[{"name":"files","spec":{"misspelt":{}}}]}}`)
		ExpectFailure(ctx, request, operandsv1alpha1.ReasonInvalidOperand, "has no kind", false)
		Expect(Live(ctx, Default, t.shared()).GetDeletionTimestamp()).To(BeNil())
		Expect(password(copied)(Default)).To(Equal("rotated"))
		Patch(ctx, source, `{"stringData":{"password":"rotated again"}}`)
		Eventually(ctx, password(copied)).Should(Equal("rotated again"))

		By("once the operand is private")
		Patch(ctx, t.registry, `{"spec":{"operators":[{"name":"files","collection":{"name":"oc"},"scope":"private"}]}}`)
		Eventually(ctx, Gone(ctx, copied)).Should(BeTrue())
		Expect(password(theirs)(Default)).To(Equal("kept"))
	})

	It("wait for the consent of a namespace, and for permissions in it", func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		team := newNamespace(ctx)
		request := t.request(ctx, team, "request", t.own("own"))
		ExpectFailure(ctx, request, v2beta2.ReasonMappingNotAllowed, "zoscb.ibm.com/allow-mapping-from: "+t.namespace, false)
		Expect(mapping(ctx, t)(Default)).To(ConsistOf(t.namespace), "the SubOperatorConfig of others is not made to fail")
		allowMapping(ctx, team, t.namespace)
		touch := func() { Patch(ctx, t.registry, fmt.Sprintf(`{"spec":{"touched":%q}}`, time.Now())) }
		touch()
		makeAvailable(ctx, team, t.sample.operator())
		command := fmt.Sprintf("kubectl create rolebinding collection-operator-operands -n %s --clusterrole=collection-operator-operands-namespace --serviceaccount=%s:%s",
			team, ManagerNamespace, operandsAccount)
		ExpectFailure(ctx, request, operandsv1alpha1.ReasonNotGranted, command, false)
		grantOperands(ctx, team, operandsRole)
		touch()
		succeed(ctx, t.instance(team, "own"))
		ExpectReady(ctx, request)
	})

	It("are not handled beside the Operand Deployment Lifecycle Manager", func(ctx context.Context) {
		p := startOperands(ctx)
		made := &operandsv1alpha1.OperandConfig{ObjectMeta: configMap(ManagerNamespace, "default").ObjectMeta}
		Eventually(ctx, Gone(ctx, made)).Should(BeFalse())
		namespace := newNamespace(ctx)
		foreign := deployment(namespace, "operand-deployment-lifecycle-manager")
		foreign.Spec = deploymentSpec(newSample(), "registry.invalid/odlm")
		Create(ctx, foreign)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, foreign) })
		p.address = freeAddress()
		output, err := p.prepare(ctx).CombinedOutput()
		var exit *exec.ExitError
		Expect(errors.As(err, &exit)).To(BeTrue(), string(output))
		Expect(string(output)).To(And(ContainSubstring(`Deployment "operand-deployment-lifecycle-manager" in namespace "`+namespace+`"`), ContainSubstring("remove it first")))
	})
})
