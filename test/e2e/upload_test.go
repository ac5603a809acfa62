//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func uploadSpecs() {
	It("imports it the way authors' tools do", func(ctx context.Context) {
		var managers corev1.PodList
		Eventually(ctx, func(g Gomega) {
			g.Expect(K8s.List(ctx, &managers, client.InNamespace(ManagerNamespace), client.MatchingLabels{"component": "manager"})).To(Succeed())
			g.Expect(managers.Items).To(HaveLen(1))
		}).Should(Succeed())
		pod, folder := managers.Items[0].Name, "/opt/collections/suboperator/uploaded/1.0.0"
		local := filepath.Join(GinkgoT().TempDir(), "example-uploaded-1.0.0.tar.gz")
		Expect(os.WriteFile(local, archives["uploaded.tar.gz"], 0o600)).To(Succeed())
		kubectl(ctx, "exec", "-n", ManagerNamespace, pod, "--", "mkdir", "-p", folder)
		DeferCleanup(func(ctx context.Context) {
			kubectl(ctx, "exec", "-n", ManagerNamespace, pod, "--", "rm", "-r", folder)
		})
		kubectl(ctx, "cp", "-n", ManagerNamespace, local, pod+":"+folder+"/example-uploaded-1.0.0.tar.gz")

		uploaded := operatorCollection("uploaded.example.1.0.0", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
		uploaded.Labels = map[string]string{
			"operator-domain": domain, "operator-name": "uploaded", "operator-version": "1.0.0", "managed-by": "ibm-zos-cloud-broker",
		}
		Create(ctx, uploaded)
		Eventually(ctx, Field(ctx, uploaded, "status", "phase")).WithTimeout(25 * time.Second).Should(Equal(string(v2beta2.PhaseSuccessful)))
		Expect(Field(ctx, uploaded, "status", "config", "collectionPath")(Default)).To(HavePrefix(folder + "/"))
		printed, err := kubectlWait(ctx, "operatorcollection/"+uploaded.Name, "4m")
		Expect(err).NotTo(HaveOccurred(), printed)
		thing := instance("UploadedThing", "thing", map[string]any{"zosendpoint": lpar2.name})
		Create(ctx, thing.DeepCopy())
		expectSuccess(ctx, thing)

		Remove(ctx, thing.DeepCopy())
		Eventually(ctx, Gone(ctx, thing)).Should(BeTrue())
		Remove(ctx, uploaded)
		Eventually(ctx, Gone(ctx, uploaded)).Should(BeTrue())
	})
}
