package integration

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func keySecret(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: credential.KeySecret}}
}

// managerKey is the key with which the manager under test identifies credentials.
func managerKey(ctx context.Context) endpoint.Key {
	GinkgoHelper()
	secret := keySecret(ManagerNamespace)
	Get(ctx, Default, secret)
	key, err := endpoint.ParseKey(secret.Data[credential.KeyField])
	Expect(err).NotTo(HaveOccurred())
	return key
}

var _ = Describe("The key with which ZosEndpoint credentials are identified", func() {
	It("is created once, whoever comes first", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		keys, errs := make([]endpoint.Key, 8), make([]error, 8)
		var group sync.WaitGroup
		for i := range keys {
			group.Go(func() { keys[i], errs[i] = credential.LoadKey(ctx, K8s, K8s, namespace) })
		}
		group.Wait()
		secret := keySecret(namespace)
		Get(ctx, Default, secret)
		for i := range keys {
			Expect(errs[i]).NotTo(HaveOccurred())
			Expect([]byte(keys[i])).To(And(HaveLen(endpoint.KeyBytes), Equal(secret.Data[credential.KeyField])))
		}
		second := newNamespace(ctx)
		other, err := credential.LoadKey(ctx, K8s, K8s, second)
		Expect(err).NotTo(HaveOccurred())
		Expect(other).NotTo(Equal(keys[0]))
	})

	It("is kept by restarts, and never replaced when it is not valid", func(ctx context.Context) {
		key := managerKey(ctx)
		theManager.restart(ctx, usualFlags...)
		Expect(managerKey(ctx)).To(Equal(key))

		theManager.stop()
		secret := keySecret(ManagerNamespace)
		DeferCleanup(func(ctx context.Context) {
			theManager.stop()
			if K8s.Get(ctx, client.ObjectKeyFromObject(secret), secret) == nil && string(secret.Data[credential.KeyField]) == "short" {
				Remove(ctx, secret)
			}
			theManager.start(ctx)
		})
		Patch(ctx, secret, `{"stringData":{"key":"short"}}`)
		second := exec.CommandContext(ctx, theManager.binary, "--runtime-image=registry.invalid/x", "--leader-elect=false",
			"--storage-dir="+GinkgoT().TempDir(), "--artifact-bind-address="+freeAddress(), "--artifact-url=http://localhost",
			"--health-probe-bind-address="+freeAddress(), "--metrics-bind-address=0")
		second.Env = append(os.Environ(), "KUBECONFIG="+theManager.kubeconfig)
		output, err := second.CombinedOutput()
		var exit *exec.ExitError
		Expect(errors.As(err, &exit)).To(BeTrue(), string(output))
		Expect(exit.ExitCode()).To(Equal(1))
		Expect(string(output)).To(And(ContainSubstring(credential.KeySecret), ContainSubstring("5 bytes instead of 32"),
			ContainSubstring("restore it from a backup, or delete it"), Not(ContainSubstring("short")), Not(ContainSubstring("goroutine"))))
		Get(ctx, Default, secret)
		Expect(string(secret.Data[credential.KeyField])).To(Equal("short"))

		By("being created again when it was deleted")
		Remove(ctx, secret)
		theManager.start(ctx)
		Expect(managerKey(ctx)).NotTo(Equal(key))
	})
})
