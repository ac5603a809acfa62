//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/registry"
)

// The registry is a server of this process. Containerd uses HTTP for addresses of the loopback interface.
var _ = Describe("A private registry", Ordered, func() {
	e := &environment{namespace: "e2e-registry", domain: "registry-lab"}
	private := &registry.Private{Username: "zos", Password: "e2e-registry-passw0rd"}
	var archive []byte
	var host, image string

	BeforeAll(func(ctx context.Context) {
		private.Image = anotherRuntime(ctx, "site/runtime", "v1")
		server := httptest.NewServer(private)
		DeferCleanup(server.Close)
		host = strings.TrimPrefix(server.URL, "http://")
		image = host + "/site/runtime"
		DeferCleanup(func(ctx context.Context) {
			_, _ = containerd(ctx, "images", "remove", image+":v1", image+"@"+private.Image.Digest().String())
		})
		archive = Build(Minimal(e.domain, "pulled", "1.0.0", strings.NewReplacer("deps-lab", e.domain, "NAME", "pulled", "KIND", "PulledThing").Replace(dependentConfig), nil))
		e.start(ctx, map[string][]byte{"pulled.tar.gz": archive})
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("gives its image only to operators with pull secrets, and status says so", func(ctx context.Context) {
		spec := e.spec("pulled.tar.gz", archive)
		spec.Runtime = &v2beta2.RuntimeSpec{Image: image + ":v1"}
		oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta("pulled"), Spec: spec}
		quota := &corev1.ResourceQuota{ObjectMeta: e.meta("full"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}
		Create(ctx, quota, oc)
		soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("pulled-soc")}
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonWorkloadUnavailable), WithMessage("its pod is refused: "), WithMessage("exceeded quota: full"),
		))
		Remove(ctx, quota)
		Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonWorkloadUnavailable), WithMessage(`the node cannot pull image "`+image+`:v1": failed to pull and unpack`),
			WithMessage("name a Secret with them in spec.runtime.imagePullSecrets"),
		))
		Expect(private.Refused.Load()).To(BeNumerically(">", 0))
		Expect(private.Served.Load()).To(BeZero())

		meta := e.meta("registry")
		meta.Labels = map[string]string{v2beta2.LabelRuntime: v2beta2.LabelRuntimeAll}
		credentials := map[string]any{"auths": map[string]any{host: map[string]string{"username": private.Username, "password": private.Password}}}
		Create(ctx, &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeDockerConfigJson, StringData: map[string]string{corev1.DockerConfigJsonKey: MustJSON(credentials)}})
		Patch(ctx, oc, `{"spec":{"runtime":{"imagePullSecrets":[{"name":"registry"}]}}}`)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).WithTimeout(InstallTimeout).Should(ConditionTrue())
		Expect(private.Served.Load()).To(BeNumerically(">", 0))

		By("being listed by the digest that the node pulled")
		// The exit code is 1: the images of the development cluster have no digests.
		printed, _ := Output(ctx, kubectlCollection, "images")
		Expect(strings.Split(printed, "\n")).To(ContainElements(image+"@"+private.Image.Digest().String(), "localhost/collection-operator/manager:dev"))
		Expect(printed).NotTo(ContainSubstring(image + ":v1"))
	})
})

// anotherRuntime returns the runtime image under another name and with another digest, and the layers that the node has.
func anotherRuntime(ctx context.Context, name, tag string) registry.Image {
	GinkgoHelper()
	const runtime = "localhost/collection-operator/runtime:dev"
	listed, err := containerd(ctx, "images", "list", "name=="+runtime)
	Expect(err).NotTo(HaveOccurred(), listed)
	fields := strings.Fields(listed[strings.LastIndex(listed, runtime):])
	Expect(len(fields)).To(BeNumerically(">", 2), listed)
	manifest, err := containerd(ctx, "content", "get", fields[2])
	Expect(err).NotTo(HaveOccurred(), manifest)
	var named struct{ Config struct{ Digest string } }
	Expect(json.Unmarshal([]byte(manifest), &named)).To(Succeed())
	config, err := containerd(ctx, "content", "get", named.Config.Digest)
	Expect(err).NotTo(HaveOccurred(), config)
	image, err := registry.Relabelled(name, tag, []byte(manifest), []byte(config))
	Expect(err).NotTo(HaveOccurred())
	return image
}

// containerd runs ctr with the containerd of the development cluster.
func containerd(ctx context.Context, args ...string) (string, error) {
	GinkgoHelper()
	for _, socket := range []string{filepath.Join(projectDir, ".devcluster", "containerd", "containerd.sock"), "/run/collection-operator-devcluster/containerd.sock"} {
		if _, err := os.Stat(socket); err == nil && os.Getenv("E2E_KUBECONFIG") == "" {
			return Output(ctx, "ctr", append([]string{"--address", socket, "--namespace", "k8s.io"}, args...)...)
		}
	}
	Skip("needs the containerd of the development cluster")
	return "", nil
}
