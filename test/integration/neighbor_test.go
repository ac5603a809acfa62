package integration

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A good neighbour", func() {
	It("does not start beside CRDs of its API group that are another product's", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		foreign := customResourceDefinition("zosagents.zoscb.ibm.com")
		preserve := true
		foreign.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v2beta2.GroupVersion.Group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "ZosAgent", Plural: "zosagents"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v2beta1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: &preserve,
				}},
			}},
		}
		theManager.stop()
		Create(ctx, foreign)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, foreign) })
		began := time.Now()
		second := exec.CommandContext(ctx, theManager.binary, "--runtime-image=registry.invalid/x", "--leader-elect=false",
			"--storage-dir="+GinkgoT().TempDir(), "--artifact-bind-address="+freeAddress(), "--artifact-url=http://localhost",
			"--health-probe-bind-address="+freeAddress(), "--metrics-bind-address=0")
		second.Env = append(os.Environ(), "KUBECONFIG="+theManager.kubeconfig)
		expectRest(ctx) // The second one has the same user.
		mark := markAudit()
		output, err := second.CombinedOutput()
		var exit *exec.ExitError
		Expect(errors.As(err, &exit)).To(BeTrue(), string(output))
		Expect(exit.ExitCode()).To(Equal(1))
		Expect(string(output)).To(And(ContainSubstring("another product"), ContainSubstring(foreign.Name),
			ContainSubstring("app.kubernetes.io/part-of=collection-operator"), Not(ContainSubstring("goroutine"))))
		Expect(string(output)).NotTo(ContainSubstring("operatorcollections"), "our own CRDs are none")
		Expect(mark.writesSince()).To(BeEmpty())
		AddReportEntry("the manager gave up after", time.Since(began).Round(time.Millisecond).String())

		By("starting again when they are gone")
		Remove(ctx, foreign)
		Eventually(ctx, GoneInTheEnd(ctx, foreign)).WithPolling(time.Second).Should(BeTrue())
		theManager.start(ctx)
		importSample(ctx, namespace, s)
	})

	It("deploys without taking over by force what others manage", func(ctx context.Context) {
		deploy := func(image string) (string, error) { return deployManager(ctx, image) }
		manager := managerSet()
		output, err := deploy("registry.invalid/manager:1")
		Expect(err).NotTo(HaveOccurred(), output)
		output, err = deploy("registry.invalid/manager:2")
		Expect(err).NotTo(HaveOccurred(), output)
		Get(ctx, Default, manager)
		Expect(manager.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.invalid/manager:2"))

		By("refusing when another manager of fields has set the image")
		patchAs := func(ctx context.Context, object client.Object, kind client.Patch) {
			Expect(K8s.Patch(ctx, object, kind, client.FieldOwner("another-team"))).To(Succeed())
		}
		patchAs(ctx, manager, client.RawPatch("application/strategic-merge-patch+json",
			[]byte(`{"spec":{"template":{"spec":{"containers":[{"name":"`+manager.Spec.Template.Spec.Containers[0].Name+`","image":"registry.invalid/theirs:1"}]}}}}`)))
		output, err = deploy("registry.invalid/manager:3")
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("conflict"), ContainSubstring("another-team")))
		Get(ctx, Default, manager)
		Expect(manager.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.invalid/theirs:1"))
		Expect(manager.Spec.Template.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "RUNTIME_IMAGE", Value: "registry.invalid/runtime:1"}))

		By("refusing when it has changed a CRD")
		Remove(ctx, manager)
		Eventually(ctx, Gone(ctx, manager)).Should(BeTrue())
		crd := customResourceDefinition("zosendpoints.zoscb.ibm.com")
		Get(ctx, Default, crd)
		shortNames := func(name string) client.Patch {
			return client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"names":{"shortNames":["`+name+`"]}}}`))
		}
		before := crd.Spec.Names.ShortNames[0]
		patchAs(ctx, crd, shortNames("theirs"))
		DeferCleanup(func(ctx context.Context) { patchAs(ctx, crd, shortNames(before)) })
		output, err = deploy("registry.invalid/manager:4")
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("conflict"), ContainSubstring("another-team")))
		Get(ctx, Default, crd)
		Expect(crd.Spec.Names.ShortNames).To(ConsistOf("theirs"))
	})
})

// managerSet is the StatefulSet that deployManager makes.
func managerSet() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: ManagerName}}
}

// deployManager runs the script of `make deploy`, and removes the manager when the spec ends.
func deployManager(ctx context.Context, image string, components ...string) (string, error) {
	GinkgoHelper()
	DeferCleanup(func(ctx context.Context) {
		Remove(ctx, managerSet())
		for _, list := range []client.ObjectList{&corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{}} {
			for _, object := range listObjects(ctx, list, client.InNamespace(ManagerNamespace)) {
				Patch(ctx, object, `{"metadata":{"finalizers":null}}`)
				Remove(ctx, object)
			}
		}
		Remove(ctx, configMap(ManagerNamespace, "collection-operator-settings"))
	})
	command := exec.CommandContext(ctx, "../../hack/deploy.sh", image, "registry.invalid/runtime:1", "amd64")
	command.Env = append(os.Environ(), "KUBECTL="+findKubectl(), "COMPONENTS="+strings.Join(components, " "))
	output, err := command.CombinedOutput()
	return string(output), err
}

// findKubectl takes the one that KUBECTL names, that of the development cluster, or the one on the PATH.
func findKubectl() string {
	GinkgoHelper()
	own, err := filepath.Abs("../../.devcluster/bin/kubectl")
	Expect(err).NotTo(HaveOccurred())
	for _, candidate := range []string{os.Getenv("KUBECTL"), own, "kubectl"} {
		if path, err := exec.LookPath(candidate); err == nil {
			return path
		}
	}
	const lacking = "NOT TESTED: there is no kubectl"
	if os.Getenv("CI") == "true" {
		Fail(lacking)
	}
	Skip(lacking)
	return ""
}
