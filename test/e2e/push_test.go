//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func pushSpecs() {
	It("is imported with kubectl collection push, over a forwarded connection", func(ctx context.Context) {
		pushed := operatorCollection("pushed", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
		pushArchive(ctx, pushed, archives["uploaded.tar.gz"])

		By("being downloaded over TLS by the operator's pod")
		printed, err := kubectlWait(ctx, "operatorcollection/"+pushed.Name, "4m")
		Expect(err).NotTo(HaveOccurred(), printed)
	})
}

// pushArchive creates an OperatorCollection and a user who may only upload its archive, and uploads it. All are removed when the
// spec ends.
func pushArchive(ctx context.Context, pushed *v2beta2.OperatorCollection, archive []byte) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: pushed.Namespace, Name: "uploader"}
	account := &corev1.ServiceAccount{ObjectMeta: meta}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: meta.Namespace, Name: meta.Name}},
	}
	Create(ctx, account, binding, pushed)
	DeferCleanup(func(ctx context.Context) {
		for _, object := range []client.Object{pushed, binding, account} {
			Remove(ctx, object)
		}
		Eventually(ctx, Gone(ctx, pushed)).Should(BeTrue())
	})
	local := filepath.Join(GinkgoT().TempDir(), "archive.tar.gz")
	Expect(os.WriteFile(local, archive, 0o600)).To(Succeed())
	printed := Run(ctx, kubectlCollection, "push", local, pushed.Name, "-n", pushed.Namespace, "--service-account="+meta.Name)
	Expect(printed).To(ContainSubstring(DigestOf(archive)))
	Expect(Field(ctx, pushed, "status", "artifact", "digest")(Default)).To(Equal(DigestOf(archive)))
}
