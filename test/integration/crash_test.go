package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The manager", func() {
	It("knows what it made when it dies in the middle of an install, and finishes or removes it later", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		allow := refuseRealWrites(ctx, namespace, "deployments")
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		ExpectFailure(ctx, soc, v2beta2.ReasonObjectRefused, "Deployment", false)
		theManager.kill()

		By("having recorded everything before the first write")
		Get(ctx, Default, soc)
		made := madeIn(ctx, namespace)
		var recorded []string
		for _, ref := range soc.Status.Inventory {
			recorded = append(recorded, ref.Kind+"/"+ref.Name)
		}
		Expect(made).To(ContainElement("ConfigMap/" + s.operator() + "-runtime"))
		Expect(made).NotTo(ContainElement("Deployment/" + s.operator()))
		Expect(append(recorded, "SubOperatorConfig/oc-soc")).To(ContainElements(made))
		Expect(recorded).To(ContainElement("Deployment/" + s.operator()))

		By("finishing after its restart")
		allow(ctx)
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		expectInstallation(ctx, soc, s)
	})

	It("converges from wherever a kill leaves it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := newCollection(namespace, "oc", s.pinned())
		Create(ctx, oc)
		for _, delay := range []time.Duration{20 * time.Millisecond, 60 * time.Millisecond, 120 * time.Millisecond, 250 * time.Millisecond} {
			mark := time.Now().Add(delay)
			Eventually(func() bool { return time.Now().After(mark) }).WithPolling(time.Millisecond).Should(BeTrue())
			theManager.kill()
			theManager.start(ctx)
		}
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(listObjects(ctx, &v2beta2.SubOperatorConfigList{}, client.InNamespace(namespace))).To(HaveLen(1))
		expectInstallation(ctx, defaultSOC(oc), s)

		By("finishing a deletion that a kill interrupted")
		Create(ctx, s.instance(namespace, "one"))
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, oc)
		theManager.kill()
		theManager.start(ctx)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		expectNothingLeft(ctx, namespace, s)
	})

	It("writes nothing when there is nothing to do, not even after a restart", func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		s.variables = "{name: size, displayName: Size, type: object, objectVariables: [{name: inner, type: string, default: x}]}"
		Create(ctx, newEndpoint(namespace, "lpar1", server), newEndpoint(namespace, "lpar2", server))
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		for _, name := range []string{"lpar1", "lpar2"} {
			Eventually(ctx, Condition(ctx, newEndpoint(namespace, name, nil), v2beta2.ConditionReachable)).Should(ConditionTrue())
		}
		about := []string{namespace, s.crdName(), s.operator()}
		Eventually(ctx, func(g Gomega) {
			g.Consistently(markAudit().writesAbout(about...)).WithTimeout(3 * time.Second).Should(BeEmpty())
		}).Should(Succeed(), "it comes to rest")

		everything := func() map[string]string {
			objects := installed(ctx, defaultSOC(oc))
			for _, object := range []client.Object{
				oc, defaultSOC(oc), customResourceDefinition(s.crdName()), newEndpoint(namespace, "lpar1", nil), newEndpoint(namespace, "lpar2", nil),
			} {
				objects = append(objects, Live(ctx, Default, object))
			}
			return versions(objects)
		}
		before, mark := everything(), markAudit()
		Expect(before).To(HaveLen(9 + 5))
		Consistently(mark.writesAbout(about...)).WithTimeout(2 * probeInterval).WithPolling(time.Second).Should(BeEmpty())
		theManager.stop()
		theManager.start(ctx)
		Consistently(mark.writesAbout(about...)).WithTimeout(4 * probeInterval).WithPolling(time.Second).Should(BeEmpty())
		Expect(everything()).To(Equal(before))
		AddReportEntry("writes of the idle manager, before and after a restart", fmt.Sprint(len(mark.writesAbout(about...)())))
	})
	It("writes nothing while something stays wrong in the same way", func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		server.down()
		Create(ctx, newEndpoint(namespace, "lpar1", server))
		oc := importSample(ctx, namespace, s) // Its Deployment never becomes available.
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonProgressing, "", false)
		ExpectFailure(ctx, oc, v2beta2.ReasonProgressing, "", false)
		lost := newCollection(namespace, "lost", unverified(web.URL+"/absent"))
		Create(ctx, lost)
		ExpectFailure(ctx, lost, v2beta2.ReasonArchiveNotFound, "", false)
		Eventually(ctx, Condition(ctx, newEndpoint(namespace, "lpar1", nil), v2beta2.ConditionReachable)).Should(ConditionFalse())

		var mark *auditMark
		Eventually(ctx, func(g Gomega) {
			mark = markAudit()
			g.Consistently(mark.writesAbout(namespace)).WithTimeout(time.Second).Should(BeEmpty())
		}).Should(Succeed(), "it comes to rest")
		Consistently(mark.writesAbout(namespace)).WithTimeout(12*time.Second).WithPolling(time.Second).Should(BeEmpty(), "longer than every poll")
	})
})

// refuseRealWrites makes the API server refuse to create objects of some resources in a namespace, deployments among them, though a
// dry run of it succeeds. The function returned ends that.
func refuseRealWrites(ctx context.Context, namespace string, resources ...string) func(context.Context) {
	GinkgoHelper()
	name := namespace + "-" + resources[0]
	fail := admissionregistrationv1.Fail
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources,
					},
				}}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "request.dryRun", Message: "only dry runs are allowed here"}},
		},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
	Create(ctx, policy, binding)
	end := func(ctx context.Context) {
		Remove(ctx, binding)
		Remove(ctx, policy)
		Eventually(ctx, func(g Gomega) { g.Expect(tryDeployment(ctx, namespace)).To(Succeed()) }).Should(Succeed())
	}
	DeferCleanup(func(ctx context.Context) {
		Remove(ctx, binding)
		Remove(ctx, policy)
	})
	Eventually(ctx, func() error { return tryDeployment(ctx, namespace) }).Should(MatchError(ContainSubstring("only dry runs")))
	return end
}

// tryDeployment creates a Deployment and removes it.
func tryDeployment(ctx context.Context, namespace string) error {
	labels := map[string]any{"app": "probe"}
	probe := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appsv1.SchemeGroupVersion.String(), "kind": "Deployment",
		"metadata": map[string]any{"namespace": namespace, "generateName": "probe-"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "x", "image": "x"}}},
			},
		},
	}}
	if err := K8s.Create(ctx, probe); err != nil {
		return err
	}
	return K8s.Delete(ctx, probe)
}
