package integration

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const policiesAccount = "collection-operator-policies"

// startPolicies runs what applies the policies where OLM installs the manager, with its own account, until the spec ends.
func startPolicies(ctx context.Context, address string) {
	GinkgoHelper()
	applyFile(ctx, filepath.Join(projectDir(), "config", "manifests", "policies", "role.yaml"))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: policiesAccount}}
	Create(ctx, account)
	DeferCleanup(func(ctx context.Context) { Remove(ctx, account) })
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	writeKubeconfig(ctx, policiesAccount, kubeconfig)
	command := exec.Command(theManager.binary, "policies", "--policy-interval=1s")
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "COLLECTION_OPERATOR_HEALTH_PROBE_BIND_ADDRESS="+address)
	command.Stdout, command.Stderr = GinkgoWriter, GinkgoWriter
	Expect(command.Start()).To(Succeed())
	DeferCleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
}

var _ = Describe("The policies of an installation by OLM", func() {
	It("are applied by an account that may write these and no others, and stay applied", attack.Label, func(ctx context.Context) {
		policies, err := config.Policies()
		Expect(err).NotTo(HaveOccurred())
		onlyHere := []client.Object{}
		for _, policy := range policies {
			if policy.GetName() == "collection-operator-administrators-only" || policy.GetName() == "collection-operator-administrators-only-runs" {
				onlyHere = append(onlyHere, policy.DeepCopy())
			}
		}
		Expect(onlyHere).To(HaveLen(4))
		DeferCleanup(func(ctx context.Context) {
			for _, policy := range onlyHere {
				Remove(ctx, policy)
			}
		})

		address := freeAddress()
		startPolicies(ctx, address)
		Eventually(ctx, func(g Gomega) {
			response, err := http.Get("http://" + address + "/readyz")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(http.StatusOK))
		}).Should(Succeed())
		for _, policy := range onlyHere {
			Get(ctx, Default, policy)
		}

		By("applying one again that was removed")
		removed := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "collection-operator-run-status"}}
		Remove(ctx, removed)
		Eventually(ctx, Gone(ctx, removed)).Should(BeFalse())

		By("having no permission for more")
		account := "system:serviceaccount:" + ManagerNamespace + ":" + policiesAccount
		const group = "admissionregistration.k8s.io"
		for _, verb := range []string{"create", "patch", "update", "delete", "list"} {
			Expect(may(ctx, account, "", verb, "validatingadmissionpolicies", group)).To(BeFalse(), verb)
		}
		other := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "another"}}
		refusal := as(account).Create(ctx, other)
		Expect(refusal).To(MatchError(ContainSubstring("forbidden")))
		attack.Repelled("The manager's token", "create another policy with the account that applies the policies", "the API server refuses it", firstOf(refusal.Error()))
	})
})
