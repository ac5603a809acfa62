package integration

import (
	"bytes"
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/bench/report"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// mappedEndpoints is how many ZosEndpoints each mapped namespace may use.
const mappedEndpoints = 20

var _ = Describe("Scale of a mapping", Serial, Label("scale"), func() {
	It("installs one collection in many namespaces", func(ctx context.Context) {
		count := size("BENCH_NAMESPACES")
		s := newScale(ctx)
		s.setStarts(ctx, true)
		_, err := s.view.GetInformer(ctx, &corev1.Secret{})
		Expect(err).NotTo(HaveOccurred())
		const own = "scale-own"
		key, soc := s.mapped(ctx, own, count)
		s.phase("install", func() error {
			Create(ctx, soc, newCollection(own, "oc", pinned(threeKinds(0, "1.0.0"))))
			return s.await(ctx, func() (bool, error) {
				err := s.view.Get(ctx, client.ObjectKeyFromObject(soc), soc)
				return err == nil && meta.IsStatusConditionTrue(soc.Status.Conditions, v2beta2.ConditionReady), err
			})
		})
		s.rest(ctx, "come to rest")
		s.minute(ctx, "a quiet minute")
		s.phase("rotate a key", func() error {
			rotated := SecretValue("rotated key")
			Patch(ctx, key, fmt.Sprintf(`{"stringData":{"ssh-privatekey":%q}}`, rotated))
			return s.await(ctx, func() (bool, error) {
				reached, err := s.holders(ctx, []byte(rotated))
				return reached == count, err
			})
		})
		s.rest(ctx, "come to rest after it")
		s.restart(ctx)
		s.save(fmt.Sprintf("mapping-%d", count), report.Scale{Namespaces: count})
	})
})

// mapped makes namespaces that consent, and endpoints with one credential in the first. The SubOperatorConfig was not created yet.
func (s *scale) mapped(ctx context.Context, own string, count int) (*corev1.Secret, *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: own}})
	var namespaces []string
	for i := range count {
		name := fmt.Sprintf("scale-mapped-%d", i)
		Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{consentAnnotation: own}}})
		namespaces = append(namespaces, name)
	}
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "logon"}, Type: corev1.SecretTypeSSHAuth,
		StringData: map[string]string{"username": "ibmuser", "ssh-privatekey": SecretValue("key")},
	}
	Create(ctx, key)
	server := startSSHServer()
	for i := range mappedEndpoints {
		endpoint := newEndpoint(own, fmt.Sprintf("lpar%d", i), server)
		endpoint.Spec.CredentialName = key.Name
		Create(ctx, endpoint)
	}
	for i := range mappedEndpoints {
		ExpectReady(ctx, newEndpoint(own, fmt.Sprintf("lpar%d", i), nil))
	}
	return key, newSOC(own, "soc", "oc", mapTo(namespaces...)...)
}

// holders is the number of operators' Secrets that contain a credential.
func (s *scale) holders(ctx context.Context, credential []byte) (int, error) {
	secrets := &corev1.SecretList{}
	if err := s.view.List(ctx, secrets, client.UnsafeDisableDeepCopy); err != nil {
		return 0, err
	}
	holders := 0
	for i := range secrets.Items {
		if secrets.Items[i].Namespace != "scale-own" && holds(&secrets.Items[i], credential) {
			holders++
		}
	}
	return holders, nil
}

func holds(secret *corev1.Secret, credential []byte) bool {
	for _, value := range secret.Data {
		if bytes.Contains(value, credential) {
			return true
		}
	}
	return false
}
