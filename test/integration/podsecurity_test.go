package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// enforced is the label that makes the API server refuse pods below a level of the Pod Security Standards.
const enforced = "pod-security.kubernetes.io/enforce"

// tryPod asks the API server whether it would admit a pod of the template.
func tryPod(ctx context.Context, namespace string, template corev1.PodTemplateSpec) error {
	pod := &corev1.Pod{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = namespace, "try-"
	return K8s.Create(ctx, pod, client.DryRunAll)
}

// expectRestricted checks that the namespace admits the template, and that this says something: not with any less. It
// returns how the API server refuses one that may run as root.
func expectRestricted(ctx context.Context, namespace string, template corev1.PodTemplateSpec) error {
	GinkgoHelper()
	Expect(tryPod(ctx, namespace, template)).To(Succeed())
	for _, containers := range []func(*corev1.PodTemplateSpec) []corev1.Container{
		func(t *corev1.PodTemplateSpec) []corev1.Container { return t.Spec.InitContainers },
		func(t *corev1.PodTemplateSpec) []corev1.Container { return t.Spec.Containers },
	} {
		for i := range containers(&template) {
			weaker := template.DeepCopy()
			containers(weaker)[i].SecurityContext.AllowPrivilegeEscalation = ptr.To(true)
			Expect(tryPod(ctx, namespace, *weaker)).To(MatchError(ContainSubstring("restricted")))
		}
	}
	weaker := template.DeepCopy()
	weaker.Spec.SecurityContext.RunAsNonRoot = nil
	refusal := tryPod(ctx, namespace, *weaker)
	Expect(refusal).To(MatchError(ContainSubstring("restricted")))
	return refusal
}

var _ = Describe("The security level restricted", func() {
	It("is met by the manager's pod", attack.Label, func(ctx context.Context) {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ManagerNamespace}}
		Get(ctx, Default, namespace)
		Expect(namespace.Labels).To(HaveKeyWithValue(enforced, "restricted"), "config sets it")
		content, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "manager.yaml"))
		Expect(err).NotTo(HaveOccurred())
		manager := &appsv1.StatefulSet{}
		Expect(yaml.UnmarshalStrict(content, manager)).To(Succeed())
		claim := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "archives"}}
		template := &manager.Spec.Template // The StatefulSet controller adds the volume.
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: manager.Spec.VolumeClaimTemplates[0].Name, VolumeSource: claim})
		refusal := expectRestricted(ctx, ManagerNamespace, *template)
		attack.Repelled("Pods", "run the manager with more than the security level restricted allows", "the pod is admitted as it is, and not with any less", firstOf(refusal.Error()))
	})

	It("is met by the pods of installed operators, with and without dependencies", attack.Label, func(ctx context.Context) {
		for _, files := range []map[string]string{nil, {"requirements.txt": "requests==2.32.3\n"}} {
			namespace, s := newNamespace(ctx), newSample()
			Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, `{"metadata":{"labels":{"`+enforced+`":"restricted"}}}`)
			s.files = files
			importSample(ctx, namespace, s)
			operator := deployment(namespace, s.operator())
			Eventually(ctx, func(g Gomega) { Get(ctx, g, operator) }).Should(Succeed())
			Expect(operator.Spec.Template.Spec.InitContainers).To(HaveLen(1 + len(files)))
			refusal := expectRestricted(ctx, namespace, operator.Spec.Template)
			attack.Repelled("Pods", fmt.Sprintf("run an operator of %d init containers with more than the security level restricted allows", 1+len(files)),
				"the pod is admitted as it is, and not with any less", firstOf(refusal.Error()))
		}
	})
})
