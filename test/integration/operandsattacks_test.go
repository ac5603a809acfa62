package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// newTeam is a namespace in which the component may install the operator, and does.
func (t *tools) newTeam(ctx context.Context) string {
	GinkgoHelper()
	team := newNamespace(ctx)
	allowMapping(ctx, team, t.namespace)
	grantOperands(ctx, team, operandsRole)
	return team
}

var _ = Describe("Operand requests that change", func() {
	It("end when their OperandRegistry is gone, and with their namespace", func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		first, second := t.newTeam(ctx), t.newTeam(ctx)
		requests := []*operandsv1alpha1.OperandRequest{t.request(ctx, first, "request", t.own("own")), t.request(ctx, second, "request", t.own("own"))}
		for _, request := range requests {
			makeAvailable(ctx, request.Namespace, t.sample.operator())
			Eventually(ctx, Gone(ctx, t.instance(request.Namespace, "own"))).Should(BeFalse())
		}
		Remove(ctx, t.registry)
		Remove(ctx, requests[0])
		Eventually(ctx, Gone(ctx, requests[0])).Should(BeTrue())
		Remove(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: second}})
		Remove(ctx, requests[1])
		Eventually(ctx, Gone(ctx, requests[1])).Should(BeTrue())
		soc := defaultSOC(t.oc)
		Get(ctx, Default, soc)
		Expect(soc.Spec.Mapping).To(Equal(mapTo(t.namespace)))
	})

	It("report a spec that does not fit, and remove what is not wanted nevertheless", func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		request := t.request(ctx, t.namespace, "request", t.own("own"), t.own("more"))
		for _, name := range []string{"own", "more"} {
			succeed(ctx, t.instance(t.namespace, name))
		}
		ExpectReady(ctx, request)
		Get(ctx, Default, request)
		operands := request.Spec.Requests[0].Operands[:1]
		operands[0].Spec.Raw = []byte(`{"zosendpoint":"lpar1","size":{"not":"a number"}}`)
		Patch(ctx, request.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"requests": []any{
			map[string]any{"registry": "tools", "registryNamespace": t.namespace, "operands": operands},
		}}}))
		ExpectFailure(ctx, request, v2beta2.ReasonObjectRefused, "own", false)
		Eventually(ctx, Gone(ctx, t.instance(t.namespace, "more"))).Should(BeTrue())
	})

	It("do not run with the credential of the user who has annotated a resource", attack.Label, func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		grantOperands(ctx, t.namespace, operandsBindingsRole)
		Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "bob"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{corev1.SSHAuthPrivateKey: "x"}})
		request := t.request(ctx, t.namespace, "request", t.own("own"))
		own := t.instance(t.namespace, "own")
		succeed(ctx, own)
		ExpectReady(ctx, request)
		Patch(ctx, own, `{"metadata":{"annotations":{"zoscb.ibm.com/credential":"bob"}}}`)
		Get(ctx, Default, request)
		request.Spec.Requests[0].Operands[0].Spec.Raw = []byte(`{"zosendpoint":"lpar1","size":9}`)
		Patch(ctx, request.DeepCopy(), MustJSON(map[string]any{"spec": request.Spec}))
		ExpectFailure(ctx, request, v2beta2.ReasonObjectRefused, "must not choose or use the credential of a user", false)
		Expect(Live(ctx, Default, own).Object["spec"]).To(HaveKeyWithValue("size", int64(8)))
		attack.Repelled("Tenancy", "change a resource that runs with another user's credential through a request", "the policy refuses it", seen(ctx, request))
	})

	It("remove a resource whose version is not served any more", func(ctx context.Context) {
		crd := openCRD("copies.example", "filecopys", "FileCopy") // Not the plural in English, as of kinds of collections.
		Create(ctx, crd)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, crd) })
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, crd)
			g.Expect(established(crd)).To(BeTrue())
		}).Should(Succeed())
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		grantKind(ctx, t.namespace, "copies.example", "filecopys")
		Patch(ctx, t.config, `{"spec":{"services":[{"name":"files","resources":[{"apiVersion":"copies.example/v1","kind":"FileCopy","name":"report"}]}]}}`)
		request := t.request(ctx, t.namespace, "request", "{name: files}")
		ExpectReady(ctx, request)
		later := crd.Spec.Versions[0].DeepCopy()
		later.Name = "v2"
		crd.Spec.Versions[0].Served, crd.Spec.Versions[0].Storage = false, false
		Patch(ctx, crd.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"versions": append(crd.Spec.Versions, *later)}}))
		report := Instance("v2", "FileCopy", t.namespace, "report", nil)
		report.SetAPIVersion("copies.example/v2")
		Eventually(ctx, func(g Gomega) {
			g.Expect(K8s.Get(ctx, client.ObjectKeyFromObject(report), report)).To(Succeed())
		}).Should(Succeed())
		Remove(ctx, request)
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
		Expect(Gone(ctx, report)(Default)).To(BeTrue())
	})

	It("finish what a crash has left while a resource was created", func(ctx context.Context) {
		startOperands(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1, size: 5}")
		created := t.shared()
		Expect(unstructured.SetNestedField(created.Object, map[string]any{"zosendpoint": "lpar1", "size": int64(5), "note": "of a former OperandConfig"}, "spec")).To(Succeed())
		created.SetLabels(map[string]string{operandsv1alpha1.LabelControl: "true"})
		created.SetAnnotations(map[string]string{operandsv1alpha1.AnnotationOperand: t.namespace + "/tools/files"})
		Expect(K8s.Create(ctx, created, client.FieldOwner(operandsAccount))).To(Succeed())
		request := t.request(ctx, t.namespace, "request", "{name: files}")
		Eventually(ctx, Field(ctx, t.shared(), "spec", "note")).Should(BeEmpty())
		succeed(ctx, t.shared())
		ExpectReady(ctx, request)
		Expect(Live(ctx, Default, t.shared()).GetManagedFields()).NotTo(ContainElement(And(
			HaveField("Manager", operandsAccount), HaveField("Operation", metav1.ManagedFieldsOperationUpdate))))
		Remove(ctx, request)
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
		Expect(Gone(ctx, t.shared())(Default)).To(BeTrue())
	})

	It("show what they would do, and what is missing for it", func(ctx context.Context) {
		applyOperandManifests(ctx)
		t := newTools(ctx, "public", "{zosendpoint: lpar1}")
		team := newNamespace(ctx)
		file := filepath.Join(GinkgoT().TempDir(), "request.yaml")
		Expect(os.WriteFile(file, fmt.Appendf(nil, "apiVersion: operator.ibm.com/v1alpha1\nkind: OperandRequest\nmetadata: {name: team, namespace: %s}\nspec: {requests: [{registry: tools, registryNamespace: %s, operands: [%s]}]}\n",
			team, t.namespace, t.own("own")), 0o600)).To(Succeed())
		annotate := fmt.Sprintf("kubectl annotate namespace %s zoscb.ibm.com/allow-mapping-from=%s", team, t.namespace)
		printed := runTool(ctx, 1, toolBinary(), "request", file, "--dry-run")
		Expect(printed).To(And(
			ContainSubstring("operand %[1]s/tools/files\n  install OperatorCollection %[1]s/oc in namespace %[2]s\n  create %[3]s %[2]s/own\n", t.namespace, team, t.sample.kind),
			ContainSubstring("permission for kind SubOperatorConfig in namespace %s: given\n", t.namespace),
			ContainSubstring("permission for kind %s in namespace %s: missing: kubectl create rolebinding collection-operator-operands -n %s ", t.sample.kind, team, team),
			ContainSubstring("consent of namespace %s to %s: missing: %s\n", team, t.namespace, annotate),
		))
		allowMapping(ctx, team, t.namespace)
		grantOperands(ctx, team, operandsRole)
		printed = runTool(ctx, 0, toolBinary(), "request", file, "--dry-run")
		Expect(printed).NotTo(ContainSubstring("missing"))
		AddReportEntry("dry run", printed)
		Create(ctx, Instance(t.sample.apiVersion(), t.sample.kind, team, "own", map[string]any{"zosendpoint": "lpar1"}))
		Expect(runTool(ctx, 1, toolBinary(), "request", file, "--dry-run")).To(ContainSubstring("ForeignObject: %s %s/own exists", t.sample.kind, team))
	})
})
