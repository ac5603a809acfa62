package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func newEndpoint(namespace, name string, server *sshServer) *v2beta2.ZosEndpoint {
	endpoint := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if server != nil {
		endpoint.Spec.Host, endpoint.Spec.Port = server.host, server.port
	}
	return endpoint
}

var _ = Describe("A ZosEndpoint", func() {
	It("is probed without a logon, and its host key is pinned at first sight", attack.Label, func(ctx context.Context) {
		server := startSSHServer()
		first := server.hostKey()
		endpoint := newEndpoint(newNamespace(ctx), "lpar1", server)
		Create(ctx, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).
			Should(And(ConditionTrue(), WithMessage(ssh.FingerprintSHA256(server.signer.PublicKey()))))
		ExpectReady(ctx, endpoint)
		Get(ctx, Default, endpoint)
		Expect(endpoint.Status.HostKeys).To(Equal([]string{first}))
		Expect(endpoint.Status.PinnedFor).To(Equal(server.address()))
		Expect(endpoint.Status.Phase).To(Equal(v2beta2.PhaseSuccessful))

		By("noticing another key, and keeping the pinned one")
		server.replaceKey(newSigner())
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(And(
			ConditionFalse(), WithReason(v2beta2.ReasonHostKeyMismatch),
			WithMessage(ssh.FingerprintSHA256(server.signer.PublicKey())), WithMessage("spec.hostKeys")))
		Get(ctx, Default, endpoint)
		Expect(endpoint.Status.HostKeys).To(Equal([]string{first}))
		attack.Repelled("Secrets and hosts", "show another host key after the first was pinned", "the pinned one is kept", seen(ctx, endpoint, v2beta2.ConditionReachable))
		ExpectReady(ctx, endpoint) // Reachable is separate: it says nothing about the endpoint being accepted.

		By("accepting it when the spec names it")
		second, err := json.Marshal(server.hostKey() + " a comment")
		Expect(err).NotTo(HaveOccurred())
		Patch(ctx, endpoint, fmt.Sprintf(`{"spec":{"hostKeys":[%s]}}`, second))
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Get(ctx, Default, endpoint)
		Expect(endpoint.Status.HostKeys).To(BeEmpty(), "nothing is pinned when the user says which key it is")

		By("being unreachable while it is down, and reachable again by itself")
		server.down()
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonHostUnreachable), WithMessage(server.address()), WithMessage("refused")))
		server.up()
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Expect(server.logons.Load()).To(BeZero(), "a probe never logs on")
	})

	It("pins anew when it moves, and never carries a key over to another host", attack.Label, func(ctx context.Context) {
		one, two := startSSHServer(), startSSHServer()
		endpoint := newEndpoint(newNamespace(ctx), "lpar1", one)
		Create(ctx, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Patch(ctx, endpoint, fmt.Sprintf(`{"spec":{"port":%d}}`, two.port))
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(And(ConditionTrue(), WithMessage(two.address())))
		Get(ctx, Default, endpoint)
		Expect(endpoint.Status.HostKeys).To(Equal([]string{two.hostKey()}))
		attack.Repelled("Secrets and hosts", "have the key of one host accepted for another by moving an endpoint", "the pin is for one address", seen(ctx, endpoint, v2beta2.ConditionReachable))
	})

	It("that accepts connections and never answers slows down its own namespace only", attack.Label, func(ctx context.Context) {
		const tarpits = 60
		attacker, namespace, server := newNamespace(ctx), newNamespace(ctx), startSSHServer()
		tarpit := startTarpit("")
		for i := range tarpits {
			Create(ctx, newEndpoint(attacker, fmt.Sprintf("tarpit-%d", i), tarpit))
		}
		Eventually(ctx, tarpit.open.Load).Should(BeNumerically(">", 8))
		ExpectReady(ctx, newEndpoint(attacker, fmt.Sprintf("tarpit-%d", tarpits-1), nil)) // Accepted, whenever it is probed.

		By("probing others at once, and again")
		begin := time.Now()
		endpoint := newEndpoint(namespace, "lpar1", server)
		Create(ctx, endpoint)
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(ConditionTrue())
		server.replaceKey(newSigner())
		Eventually(ctx, Condition(ctx, endpoint, v2beta2.ConditionReachable)).Should(WithReason(v2beta2.ReasonHostKeyMismatch))
		took := time.Since(begin)
		Expect(took).To(BeNumerically("<", soon))
		// The tarpit may learn of the next connection before it learns that the one before has ended.
		Consistently(ctx, func(g Gomega) {
			g.Eventually(tarpit.open.Load).WithTimeout(time.Second).Should(BeNumerically("<=", 16))
		}).Should(Succeed())
		Eventually(ctx, tarpit.open.Load).Should(BeNumerically(">", 8))
		attack.Repelled("Secrets and hosts", fmt.Sprintf("make %d endpoints whose host accepts connections and never answers", tarpits), "others are probed as usual",
			fmt.Sprintf("%d probes wait for it; both of another namespace took %s; %s", tarpit.open.Load(), took.Round(time.Second), seen(ctx, endpoint, v2beta2.ConditionReachable)))
	})
})

var _ = Describe("The Secret with an installation's endpoints", func() {
	// secretOf reads what the Secret that the operator's pod mounts has of endpoints.
	secretOf := func(ctx context.Context, namespace string, s *sample) func(Gomega) map[string]string {
		return func(g Gomega) map[string]string {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
			Get(ctx, g, secret)
			delete(secret.Data, gate.RecordKeyFile)
			delete(secret.Data, gate.EndpointsNamespaceFile)
			delete(secret.Data, gate.KeptSecretsFile)
			texts := map[string]string{}
			for key, value := range secret.Data {
				texts[key] = string(value)
			}
			return texts
		}
	}

	It("identifies a credential in the same way for all installations, with a key that only the manager has", attack.Label, func(ctx context.Context) {
		namespace, other, s, server := newNamespace(ctx), newNamespace(ctx), newSample(), startSSHServer()
		allowMapping(ctx, other, namespace)
		password := SecretValue("password that others may guess")
		for name, password := range map[string]string{"first": password, "again": password, "changed": SecretValue("another password")} {
			Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{credentialLabel: "true"}},
				StringData: map[string]string{"username": "IBMUSER", "password": password},
			})
		}
		lpar1, lpar2 := newEndpoint(namespace, "lpar1", server), newEndpoint(namespace, "lpar2", server)
		lpar1.Spec.CredentialName, lpar2.Spec.CredentialName = "first", "changed"
		unnamed := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "unnamed", Labels: map[string]string{credentialLabel: "true"}},
			StringData: map[string]string{"password": password},
		}
		lpar3 := newEndpoint(namespace, "lpar3", server)
		lpar3.Spec.CredentialName, lpar3.Spec.Variables = "unnamed", Variables(`"ansible_user: ibmuser"`)
		soc := newSOC(namespace, "soc", "oc", v2beta2.NamespaceMapping{Namespace: namespace}, v2beta2.NamespaceMapping{
			Namespace: other, ZosEndpoints: &[]v2beta2.EndpointMapping{{Name: "lpar1", CredentialName: "again"}, {Name: "lpar2"}},
		})
		Create(ctx, unnamed, lpar1, lpar2, lpar3, soc)
		importSample(ctx, namespace, s)
		key := managerKey(ctx)
		id := key.In(namespace).Credential("IBMUSER", nil, nil, []byte(password))
		same := HaveKeyWithValue("lpar1_credential", id)
		Eventually(ctx, secretOf(ctx, namespace, s)).Should(
			And(same, HaveKey("lpar2_credential"), HaveKeyWithValue("lpar3_credential", id)), "also with the user ID of a variable")
		Eventually(ctx, secretOf(ctx, other, s)).Should(And(same, HaveKey("lpar2_credential")))
		data := secretOf(ctx, namespace, s)(Default)
		Expect(data["lpar2_credential"]).NotTo(Equal(data["lpar1_credential"]), "the password is another one")
		Eventually(ctx, func(g Gomega) map[string][]byte { return LiveState(ctx, g, lpar1).Data }).
			Should(And(HaveLen(1), HaveKey("state.json")))
		for _, namespace := range []string{namespace, other} {
			for _, object := range listObjects(ctx, &corev1.SecretList{}, client.InNamespace(namespace)) {
				for field, value := range object.(*corev1.Secret).Data {
					Expect(bytes.Contains(value, key)).To(BeFalse(), "Secret %s has the key in %s", object.GetName(), field)
				}
			}
		}
		attack.Repelled("Secrets and hosts", "test guesses of another installation's password against the shared state", "no operator has the key of the hashes",
			"the key is in no Secret of the namespaces with operators, and the state has only state.json")
	})

	It("lets runs use personal credentials, and never holds a shared one instead", attack.Label, func(ctx context.Context) {
		namespace, s, server := newNamespace(ctx), newSample(), startSSHServer()
		key := SecretValue("shared private key")
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{"username": "SHARED", "ssh-privatekey": key},
		})
		endpoint := newEndpoint(namespace, "lpar1", server)
		endpoint.Spec.CredentialName = "shared"
		soc := newSOC(namespace, "soc", "oc")
		soc.Spec.CredentialType = v2beta2.CredentialPersonal
		Create(ctx, endpoint, soc)
		installSample(ctx, namespace, s)
		ExpectReady(ctx, soc)
		Eventually(ctx, secretOf(ctx, namespace, s)).Should(And(
			HaveKeyWithValue("lpar1_personal", HaveLen(32)), HaveKey("lpar1_known_hosts"), Not(HaveKey("lpar1_refusal")),
			Not(HaveKey("lpar1_key")), Not(ContainElement(key)), Not(HaveKeyWithValue("lpar1_vars.yaml", ContainSubstring("SHARED")))))
		account := "system:serviceaccount:" + namespace + ":" + s.operator()
		awaitRight(ctx, account, namespace, "get", "secrets", "") // Resources name Secrets.
		Expect(may(ctx, account, namespace, "list", "secrets", "")).To(BeFalse())
		Expect(may(ctx, account, "default", "get", "secrets", "")).To(BeFalse())
		attack.Repelled("Secrets and hosts", "run with the shared key where personal credentials are asked for", "the operator does not have it",
			"the Secret with the endpoints has no key")
	})

	It("refuses runs with a credential that is not marked as one, and status says why", func(ctx context.Context) {
		const message = "is not a credential"
		namespace, s := newNamespace(ctx), newSample()
		endpoint := newEndpoint(namespace, "lpar1", startSSHServer())
		endpoint.Spec.CredentialName = "credential"
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credential"},
			StringData: map[string]string{"username": "u", "password": SecretValue("password of another")},
		}
		Create(ctx, endpoint, secret)
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, secretOf(ctx, namespace, s)).Should(
			HaveKeyWithValue("lpar1_refusal", And(HavePrefix("CredentialInvalid: "), ContainSubstring(message))))
		makeAvailable(ctx, namespace, s.operator())
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonCredentialInvalid, message, false)
		ExpectFailure(ctx, oc, v2beta2.ReasonCredentialInvalid, message, false)
		Expect(secretOf(ctx, namespace, s)(Default)).NotTo(Or(HaveKey("lpar1_key"), HaveKey("lpar1_password")))

		By("healing with a Secret that is right")
		Remove(ctx, secret)
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credential"}, Type: corev1.SecretTypeSSHAuth,
			StringData: map[string]string{"username": "IBMUSER", "ssh-privatekey": SecretValue("late private key")},
		})
		ExpectReady(ctx, oc)
		Eventually(ctx, secretOf(ctx, namespace, s)).Should(And(HaveKey("lpar1_key"), Not(HaveKey("lpar1_refusal"))), "once its host key is known")
	})
})
