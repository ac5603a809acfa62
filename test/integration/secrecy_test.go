package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("A secret", func() {
	It("is sent where it belongs, and shown nowhere: no status, event, ConfigMap or log line", attack.Label, func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		user, password, token, query := "reader", SecretValue("download password"), SecretValue("token"), SecretValue("signed URL")
		key, pasted := SecretValue("private key"), SecretValue("password in the wrong field")
		archive := s.archive()
		var authorized string
		guarded := web.Handle(func(w http.ResponseWriter, r *http.Request) {
			if u, p, ok := r.BasicAuth(); ok && u == user && p == password && r.URL.Query().Get("sig") == query {
				authorized = "basic"
			} else if r.Header.Get("Authorization") == "Bearer "+token {
				authorized = "bearer"
			} else {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = w.Write(archive)
		})
		Create(ctx,
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "download", Labels: map[string]string{credentialLabel: "true"}},
				StringData: map[string]string{"username": user, "password": "wrong" + password},
			},
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon"}, Type: corev1.SecretTypeSSHAuth,
				StringData: map[string]string{"username": "bad user " + pasted, "ssh-privatekey": key},
			})
		endpoint := newEndpoint(namespace, "lpar1", server)
		endpoint.Spec.CredentialName = "logon"
		spec := v2beta2.OperatorCollectionSpec{
			CollectionURL: guarded + "?sig=" + url.QueryEscape(query), Digest: DigestOf(archive), CredentialsSecret: "download",
		}
		oc := newCollection(namespace, "oc", spec)
		Create(ctx, endpoint, oc)

		By("being refused")
		ExpectFailure(ctx, oc, v2beta2.ReasonUnauthorized, "403", false)
		expectSecrecy(ctx, namespace)

		By("being accepted after the Secret was corrected")
		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "download"}},
			`{"stringData":{"password":"`+password+`"}}`)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Expect(authorized).To(Equal("basic"))
		expectSecrecy(ctx, namespace)

		By("coming from the spec, with a warning")
		changeSpec(ctx, oc, v2beta2.OperatorCollectionSpec{CollectionURL: guarded, SkipSignatureVerification: true, CollectionURLToken: token})
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, oc)
			g.Expect(oc.Status.Warnings).To(ContainElement(ContainSubstring("spec.credentialsSecret")))
		}).Should(Succeed())
		Expect(authorized).To(Equal("bearer"))
		makeAvailable(ctx, namespace, s.operator())
		expectSecrecy(ctx, namespace)

		By("being kept from a server that redirects elsewhere")
		leaked := make(chan string, 10)
		elsewhere := StartWebServer()
		DeferCleanup(elsewhere.Close)
		other := elsewhere.Handle(func(w http.ResponseWriter, r *http.Request) {
			leaked <- r.Header.Get("Authorization")
			_, _ = w.Write(archive)
		})
		other = strings.Replace(other, "127.0.0.1", "localhost", 1)
		redirecting := web.Handle(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other, http.StatusFound) })
		changeSpec(ctx, oc, v2beta2.OperatorCollectionSpec{CollectionURL: redirecting, SkipSignatureVerification: true, CollectionURLToken: token})
		var sent string
		Eventually(ctx, leaked).Should(Receive(&sent))
		Expect(sent).To(BeEmpty())
		expectSecrecy(ctx, namespace)
		attack.Repelled("Fetching", "redirect a download with a token to another host name", "the token does not go there", fmt.Sprintf("the other host got the header Authorization %q", sent))
		attack.Repelled("Secrets and hosts", "find passwords, tokens, keys or signed URLs in status, events, ConfigMaps or the log", "they are nowhere but in Secrets",
			fmt.Sprintf("none of %d secret values is in any of them", len(SecretValues)))
	})
})

// expectSecrecy checks that no secret value is in what the manager says or writes about a namespace, except where a user
// put it, in specs and Secrets.
func expectSecrecy(ctx context.Context, namespace string) {
	GinkgoHelper()
	said := map[string]string{"the log": theManager.log()}
	for _, list := range []client.ObjectList{
		&v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &v2beta2.ZosEndpointList{},
		&corev1.EventList{}, &corev1.ConfigMapList{},
	} {
		for _, object := range listObjects(ctx, list, client.InNamespace(namespace)) {
			if oc, ok := object.(*v2beta2.OperatorCollection); ok {
				oc.Spec = v2beta2.OperatorCollectionSpec{}
			}
			object.SetManagedFields(nil)
			content, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			said[object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName()] = string(content)
		}
	}
	for where, text := range said {
		for name, value := range SecretValues {
			Expect(strings.Contains(text, value)).To(BeFalse(), "%s holds the %s", where, name)
		}
	}
}
