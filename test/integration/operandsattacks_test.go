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

var _ = Describe("Operand requests that change", func() {
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
