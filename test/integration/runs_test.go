package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func merge(patch string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(patch)) }

// annotated is a patch that sets one of ansible-operator's annotations. null removes it.
func annotated(name, value string) client.Patch {
	return merge(`{"metadata":{"annotations":{"ansible.sdk.operatorframework.io/` + name + `":` + value + `}}}`)
}

var _ = Describe("The runs of playbooks", func() {
	It("are described by the operator alone, also where a user may change all resources", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		instance := s.instance(namespace, "one")
		Create(ctx, instance)
		bind(ctx, namespace, "edit", "a-writer")
		writer, operator := as("a-writer"), as("system:serviceaccount:"+namespace+":"+s.operator())
		Eventually(ctx, func() error {
			return writer.Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"labels":{"mine":"yes"}}}`))
		}).Should(Succeed())
		forged := merge(`{"status":{"phase":"Succeeded"}}`)
		refusal := writer.Status().Patch(ctx, instance.DeepCopy(), forged)
		Expect(refusal).To(MatchError(ContainSubstring("only operators may write the status")))
		attack.Repelled("Permissions", "write the status of a custom resource with the role edit", "the API server refuses it", firstOf(refusal.Error()))

		By("letting the operator and administrators work")
		awaitRight(ctx, "system:serviceaccount:"+namespace+":"+s.operator(), namespace, "patch", s.plural()+"/status", SharedGroup)
		Expect(operator.Status().Patch(ctx, instance.DeepCopy(),
			merge(`{"status":{"observedGeneration":1,"lastRun":{"id":"1","tasks":{"ok":1}},"history":[{"id":"0"}]}}`))).To(Succeed())
		Expect(K8s.Status().Patch(ctx, instance.DeepCopy(), forged)).To(Succeed())
		run, _, err := unstructured.NestedMap(Live(ctx, Default, instance).Object, "status", "lastRun")
		Expect(err).NotTo(HaveOccurred())
		Expect(run).To(And(HaveKeyWithValue("id", "1"), HaveKey("tasks")))
	})

	It("are recorded by the operator alone, and their records can be restored and removed", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		bind(ctx, namespace, "edit", "a-recorder")
		writer, operator := as("a-recorder"), as("system:serviceaccount:"+namespace+":"+s.operator())
		recorded := func(value string) client.Patch {
			return merge(`{"metadata":{"annotations":{"zoscb.ibm.com/run-record":` + value + `}}}`)
		}
		beWritten := MatchError(And(ContainSubstring("is written by operators only"), ContainSubstring("remove it from the manifest")))
		instance := s.instance(namespace, "one")
		instance.SetAnnotations(map[string]string{"zoscb.ibm.com/run-record": "restored"})
		Eventually(ctx, func() error { return writer.Create(ctx, instance.DeepCopy()) }).Should(Succeed())
		refusal := writer.Patch(ctx, instance.DeepCopy(), recorded(`"older"`))
		Expect(refusal).To(beWritten)
		attack.Repelled("Permissions", "put an older record of a run back with the role edit", "the API server refuses it", firstOf(refusal.Error()))
		Expect(writer.Patch(ctx, instance.DeepCopy(), recorded(`"restored"`))).To(Succeed())
		Expect(writer.Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"labels":{"mine":"yes"}}}`))).To(Succeed())
		Expect(writer.Patch(ctx, instance.DeepCopy(), recorded(`null`))).To(Succeed())
		Expect(writer.Patch(ctx, instance.DeepCopy(), recorded(`"restored"`))).To(beWritten)

		awaitRight(ctx, "system:serviceaccount:"+namespace+":"+s.operator(), namespace, "patch", s.plural(), SharedGroup)
		Expect(operator.Patch(ctx, instance.DeepCopy(), recorded(`"new"`))).To(Succeed())
		Expect(operator.Patch(ctx, instance.DeepCopy(), recorded(`"newer"`))).To(Succeed())
	})

	It("are protected also in an API group of the collection's own", func(ctx context.Context) {
		s := newSample()
		group := s.name + "." + domain + "." + SharedGroup
		all := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{"*"}, Verbs: []string{"*"}}
		grant(ctx, all)
		namespace := newNamespace(ctx)
		oc := newCollection(namespace, "oc", s.pinned())
		oc.Spec.APIGroup = v2beta2.APIGroupPerCollection
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		instance := s.instance(namespace, "one")
		instance.SetAPIVersion(group + "/" + s.apiVersion())
		Create(ctx, instance)
		Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"}, Rules: []rbacv1.PolicyRule{all}})
		Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "all"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "all"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "a-group-writer"}},
		})
		writer := as("a-group-writer")
		Eventually(ctx, func() error {
			return writer.Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"labels":{"mine":"yes"}}}`))
		}).Should(Succeed())
		Expect(writer.Status().Patch(ctx, instance.DeepCopy(), merge(`{"status":{"phase":"Succeeded"}}`))).To(
			MatchError(ContainSubstring("only operators may write the status")))
		Expect(writer.Patch(ctx, instance.DeepCopy(), annotated("verbosity", `"4"`))).To(MatchError(ContainSubstring("verbosity must be")))
	})

	It("obey ansible-operator's annotations only within bounds", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		importSample(ctx, namespace, s)
		instance := s.instance(namespace, "one")
		Create(ctx, instance)
		set := func(name, value string) error {
			return K8s.Patch(ctx, instance.DeepCopy(), annotated(name, value))
		}
		for name, values := range map[string][]string{
			"verbosity":            {`"1"`, `"7"`, `""`, `"00"`, `"-1"`},
			"max-runner-artifacts": {`"0"`, `"21"`, `"100000"`, `"-1"`, `"5.0"`, `""`},
			"reconcile-period":     {`"1s"`, `"4m59s"`, `"0s"`, `"-1h"`, `"soon"`, `""`, `"1d"`, `"5"`, `"1h1h"`, `"999999999999h"`},
		} {
			for _, value := range values {
				Expect(set(name, value)).To(MatchError(ContainSubstring("annotation ansible.sdk.operatorframework.io/"+name+" must be")), value)
			}
		}
		attack.Repelled("Overload", "ask for verbose runs, for 100000 kept runs, or for a run each second, by annotations", "the API server refuses it",
			firstOf(set("reconcile-period", `"1s"`).Error()))
		for name, values := range map[string][]string{
			"verbosity": {`"0"`, `null`}, "max-runner-artifacts": {`"1"`, `"20"`}, "reconcile-period": {`"5m"`, `"1h30m"`, `"99999h99999999m999999999s"`},
		} {
			for _, value := range values {
				Expect(set(name, value)).To(Succeed(), "%s: %s", name, value)
			}
		}
		By("naming old prefixes")
		heard, k8s := listening()
		Expect(k8s.Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"annotations":{"ansible.operator-sdk/reconcile-period":"12h"}}}`))).To(Succeed())
		Expect(heard.all()).To(ConsistOf(ContainSubstring("use ansible.sdk.operatorframework.io/ instead")))
		Expect(k8s.Patch(ctx, instance.DeepCopy(), merge(`{"metadata":{"labels":{"mine":"yes"}}}`))).To(Succeed())
		Expect(heard.all()).To(HaveLen(1), "an annotation that stays as it is")
		Expect(K8s.Create(ctx, func() client.Object {
			another := s.instance(namespace, "two")
			another.SetAnnotations(map[string]string{"ansible.sdk.operatorframework.io/verbosity": "4"})
			return another
		}())).To(MatchError(ContainSubstring("verbosity must be")))
	})

	It("are bounded without blocking what existed before the bounds", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		importSample(ctx, namespace, s)
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("admissionregistration.k8s.io/v1")
		policy.SetKind("ValidatingAdmissionPolicyBinding")
		policy.SetName("collection-operator-run-annotations")
		warn := func(actions string) { Patch(ctx, policy, `{"spec":{"validationActions":`+actions+`}}`) }
		warn(`["Warn"]`)
		DeferCleanup(func(ctx context.Context) { Patch(ctx, policy, `{"spec":{"validationActions":["Deny"]}}`) })
		instance := s.instance(namespace, "one")
		instance.SetFinalizers([]string{"suboperator.zoscb.ibm.com/finalizer"})
		Create(ctx, instance)
		Eventually(ctx, func() error { return K8s.Patch(ctx, instance, annotated("verbosity", `"4"`)) }).Should(Succeed())
		warn(`["Deny"]`)
		Eventually(ctx, func() error {
			return K8s.Patch(ctx, instance.DeepCopy(), annotated("verbosity", `"5"`), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("verbosity must be")))

		Expect(K8s.Patch(ctx, instance, merge(`{"metadata":{"labels":{"still":"mine"}}}`))).To(Succeed())
		Expect(K8s.Delete(ctx, instance)).To(Succeed())
		Expect(K8s.Patch(ctx, instance, merge(`{"metadata":{"finalizers":null}}`))).To(Succeed())
		Eventually(ctx, Gone(ctx, instance)).Should(BeTrue())
	})

	It("follow the settings of spec.runtime", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator())
		for field, message := range map[string]string{
			`"reconcilePeriod":"1m"`:                            "must be at least 5m, or 0s",
			`"reconcilePeriods":[{"kind":"A","period":"1s"}]`:   "must be at least 5m, or 0s",
			`"runTimeout":"1s"`:                                 "must be at least 1m",
			`"maxRetries":101`:                                  "less than or equal to 100",
			`"maxArtifacts":0`:                                  "greater than or equal to 1",
			`"maxArtifacts":21`:                                 "less than or equal to 20",
			`"rerunOn":["Spec","Moon"]`:                         "Unsupported value",
			`"rerunOn":["Spec","Spec"]`:                         "Duplicate value",
			`"reconcilePeriods":[{"kind":"A"}]`:                 "period: Required value",
			`"reconcilePeriod":"tomorrow"`:                      "conversion error",
			`"reconcilePeriods":[{"kind":"A","period":"-10m"}]`: "must be at least 5m, or 0s",
		} {
			Expect(K8s.Patch(ctx, oc.DeepCopy(), merge(`{"spec":{"runtime":{`+field+`}}}`))).To(MatchError(ContainSubstring(message)), field)
		}
		template := podTemplateOf(ctx, namespace, s)(Default)
		Patch(ctx, oc, `{"spec":{"runtime":{"rerunOn":["Endpoint"],"maxRetries":0,"runTimeout":"1h","reconcilePeriods":[{"kind":"`+s.kind+`","period":"6h"}]}}}`)
		config := configMap(namespace, s.operator()+"-runtime")
		Eventually(ctx, func(g Gomega) string {
			Get(ctx, g, config)
			return config.Data["runs.json"]
		}).Should(And(ContainSubstring(`"Endpoint"`), ContainSubstring(`"maxRetries": 0`),
			ContainSubstring(`"runTimeoutSeconds": 3600`), ContainSubstring(`"reconcilePeriodSeconds": 21600`)))
		Eventually(ctx, podTemplateOf(ctx, namespace, s)).ShouldNot(Equal(template))
	})

	It("leave a collection changeable whose period is shorter than the minimum", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		crd := customResourceDefinition("operatorcollections.zoscb.ibm.com")
		Get(ctx, Default, crd)
		present := crd.Spec.DeepCopy()
		former := present.DeepCopy()
		runtime := former.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["runtime"]
		period := runtime.Properties["reconcilePeriod"]
		period.XValidations = nil
		runtime.Properties["reconcilePeriod"] = period
		update := func(ctx context.Context, spec *apiextensionsv1.CustomResourceDefinitionSpec) {
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, crd)
				crd.Spec = *spec.DeepCopy()
				g.Expect(K8s.Update(ctx, crd)).To(Succeed())
			}).Should(Succeed())
		}
		update(ctx, former)
		restore := func(ctx context.Context) { update(ctx, present) }
		DeferCleanup(restore)
		oc := newCollection(namespace, "oc", s.pinned())
		oc.Spec.Runtime = &v2beta2.RuntimeSpec{ReconcilePeriod: &metav1.Duration{Duration: time.Minute}}
		Eventually(ctx, func() error { return K8s.Create(ctx, oc.DeepCopy()) }).Should(Succeed())
		restore(ctx)
		Eventually(ctx, func() error {
			return K8s.Patch(ctx, oc.DeepCopy(), merge(`{"spec":{"runtime":{"reconcilePeriod":"2m"}}}`), client.DryRunAll)
		}).Should(MatchError(ContainSubstring("must be at least 5m")))

		Patch(ctx, oc, `{"spec":{"runtime":{"maxRetries":1}}}`)
		config := configMap(namespace, s.operator()+"-runtime")
		Eventually(ctx, func(g Gomega) string {
			Get(ctx, g, config)
			return config.Data["runs.json"]
		}).Should(And(ContainSubstring(`"maxRetries": 1`), ContainSubstring(`"reconcilePeriodSeconds": 300`)))
	})
})
