package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// userSecret makes a Secret with keys, and with a label for operators unless it is "".
func userSecret(ctx context.Context, namespace, name, allows string, keys ...string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{ObjectMeta: namedIn(namespace, name, allows), StringData: map[string]string{}}
	for _, key := range keys {
		secret.StringData[key] = secretValue(key + " of " + name)
	}
	Create(ctx, secret)
	return secret
}

// tokenOf is a Secret with a token of a ServiceAccount.
func tokenOf(meta metav1.ObjectMeta) *corev1.Secret {
	meta.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
}

// allowReading labels a Secret for the gate's operator.
func allowReading(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v2beta2.LabelRuntime, gateOperator))
}

// naming makes a resource with variables besides its endpoint.
func naming(ctx context.Context, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	spec["zosendpoint"] = "lpar1"
	return newJob(ctx, namespace, name, spec)
}

// newPodWithPasswords makes a pod of an operator whose kind names Secrets in all ways.
func newPodWithPasswords(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	pod := newOperatorPod(ctx, namespace)
	kind := pod.settings.Kinds[gateKind]
	kind.CheckMode = true
	kind.Variables = append(kind.Variables, gate.Variable{Name: "passwords", Secret: true},
		gate.Variable{Name: "owner", Fields: []gate.Variable{{Name: "token", Secret: true}}}, gate.Variable{Name: "rows", Fields: []gate.Variable{{Name: "token", Secret: true}}})
	pod.settings.Kinds[gateKind] = kind
	pod.writeSettings()
	pod.realRunner(wellDone)
	return pod
}

const needsLabel = "does not exist, or does not allow its use by operators: it needs the label zoscb.ibm.com/runtime=true, or zoscb.ibm.com/runtime=" + gateOperator

var _ = Describe("Secrets that a resource names", Ordered, func() {
	BeforeAll(makeGateKind)

	It("are read with the label or as credentials, whoever may create resources, and nobody's own", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		userSecret(ctx, namespace, "for-all", "true", "password")
		userSecret(ctx, namespace, "for-this", gateOperator, "password")
		userSecret(ctx, namespace, "for-another", "another-operator", "password")
		userSecret(ctx, namespace, "of-an-application", "", "password")
		userSecret(ctx, namespace, "old-client", "", "username", "ssh_key", "passphrase")
		userSecret(ctx, namespace, "old-client-and-more", "", "username", "ssh_key", "password")
		credentialOf(ctx, namespace, "ssh-auth")
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon", Labels: map[string]string{endpoint.LabelCredential: "true"}},
			StringData: map[string]string{"username": "U", "password": secretValue("logon")},
		})
		own := []string{gateOperator + "-endpoints", "another-operator-dependencies", endpoint.StateName(localEndpoint(namespace, "lpar1")), "collection-operator-credential-key"}
		for _, name := range own[:2] {
			userSecret(ctx, namespace, name, "true", "key")
		}
		userSecret(ctx, namespace, own[3], "true", "key")
		Create(ctx, tokenOf(namedIn(namespace, "token", "true")))

		for i, name := range []string{"for-all", "for-this", "old-client", "ssh-auth", "logon"} {
			job := naming(ctx, namespace, fmt.Sprintf("allowed%d", i), map[string]any{"password": name})
			Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"), name)
			Expect(pod.plays()).To(Equal(i+1), name)
		}
		began := pod.plays()
		for name, c := range map[string]struct {
			spec    map[string]any
			message string
		}{
			"unlabelled":    {map[string]any{"password": "of-an-application"}, `Secret "of-an-application" ` + needsLabel},
			"another":       {map[string]any{"password": "for-another"}, `Secret "for-another" ` + needsLabel},
			"more-keys":     {map[string]any{"password": "old-client-and-more"}, `Secret "old-client-and-more" ` + needsLabel},
			"missing":       {map[string]any{"password": "missing"}, `Secret "missing" ` + needsLabel},
			"list":          {map[string]any{"passwords": []any{"for-all", "of-an-application"}}, `Secret "of-an-application" ` + needsLabel},
			"object":        {map[string]any{"owner": map[string]any{"token": "of-an-application"}}, `Secret "of-an-application" ` + needsLabel},
			"rows":          {map[string]any{"rows": []any{map[string]any{"token": "for-all"}, map[string]any{"token": "of-an-application"}}}, `Secret "of-an-application" ` + needsLabel},
			"several":       {map[string]any{"passwords": []any{"missing", "for-another"}}, `Secrets "for-another", "missing" do not exist, or do not allow their use`},
			"endpoints":     {map[string]any{"password": own[0]}, "is never given to playbooks"},
			"dependencies":  {map[string]any{"password": own[1]}, "is never given to playbooks"},
			"state":         {map[string]any{"password": own[2]}, "is never given to playbooks"},
			"manager":       {map[string]any{"password": own[3]}, "is never given to playbooks"},
			"account-token": {map[string]any{"password": "token"}, "is never given to playbooks"},
			"path":          {map[string]any{"password": "x/../" + own[0]}, "is not the name of a Secret"},
			"template":      {map[string]any{"password": "{{ lookup('pipe', 'id') }}"}, "is not the name of a Secret"},
		} {
			job := naming(ctx, namespace, name, c.spec)
			Expect(pod.reconcile(ctx, job)).To(Equal("10s"), name)
			expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, c.message)
			live := Live(ctx, NewWithT(GinkgoT()), job)
			Expect(live.GetAnnotations()).NotTo(HaveKey(gate.AnnotationRecord), "%s: no attempt is used", name)
			Expect(live.Object["status"]).NotTo(HaveKey("lastRun"), name)
		}
		Expect(pod.plays()).To(Equal(began))
		job := jobIn(gateGroup, namespace, "unlabelled", nil)
		_, waiting := waitingOf(ctx, job)
		attack.Repelled("Secrets and hosts", "read a Secret of the namespace by naming it in a resource", "only with a label that its owner sets, or if it is a credential",
			waiting["message"].(string))
		_, waiting = waitingOf(ctx, jobIn(gateGroup, namespace, "endpoints", nil))
		attack.Repelled("Secrets and hosts", "read the keys of all endpoints by naming the operator's own Secret", "the run waits, also if somebody labels it",
			waiting["message"].(string))

		By("going on by itself once the label is there, without a change of the resource")
		Expect(waiting).To(HaveKey("since"))
		before := Live(ctx, NewWithT(GinkgoT()), job)
		allowReading(ctx, namespace, "of-an-application")
		Expect(pod.start(before).answer(ctx)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(began + 1))
		phase, none := waitingOf(ctx, job)
		Expect(phase).To(Equal("Succeeded"))
		Expect(none).To(BeNil())
		Expect(Live(ctx, NewWithT(GinkgoT()), job).Object["status"]).To(HaveKeyWithValue("lastRun", HaveKeyWithValue("attempt", BeEquivalentTo(1))))
		Expect(pod.read("output")).NotTo(ContainSubstring("orbidden"))

		By("not stopping what is as described when the label is withdrawn, but its next run")
		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-an-application"}},
			fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v2beta2.LabelRuntime))
		Expect(pod.reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Succeeded"))
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, gate.AnnotationCheckRequestedAt))
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(began+1), "a drift check is a run")
		Patch(ctx, job, `{"spec":{"title":"changed"}}`)
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "of-an-application" `+needsLabel)
		Expect(pod.plays()).To(Equal(began + 1))
	}, NodeTimeout(3*time.Minute))

	It("are not read for a resource that refers to one that names them", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		userSecret(ctx, namespace, "of-an-application", "", "password")
		naming(ctx, namespace, "names", map[string]any{"password": "of-an-application", "follows": "last"})
		naming(ctx, namespace, "middle", map[string]any{"follows": "names"})
		last := naming(ctx, namespace, "last", map[string]any{"follows": "middle"}) // The three form a circle.
		Expect(pod.reconcile(ctx, last)).To(Equal("10s"))
		expectWaiting(ctx, last, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "of-an-application" `+needsLabel)
		_, waiting := waitingOf(ctx, last)
		attack.Repelled("Secrets and hosts", "read a Secret through a resource that refers to another one, which names it", "the run waits as that of the other one", waiting["message"].(string))
		allowReading(ctx, namespace, "of-an-application")
		Expect(pod.reconcile(ctx, last)).To(Equal("5m0s"))
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(time.Minute))

	It("are not read by deletion playbooks either, which run without those that are gone", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		secret := userSecret(ctx, namespace, "db", gateOperator, "password")
		job, hostile := naming(ctx, namespace, "one", map[string]any{"password": "db"}), naming(ctx, namespace, "two", map[string]any{"password": "db"})
		for _, object := range []client.Object{job, hostile} {
			pod.reconcile(ctx, object)
			Remove(ctx, object)
		}
		Expect(pod.plays()).To(Equal(2))
		Patch(ctx, hostile, fmt.Sprintf(`{"spec":{"password":"x/../%s-endpoints"}}`, gateOperator))
		Expect(pod.reconcile(ctx, hostile)).To(Equal("10s"))
		Expect(Field(ctx, hostile, "status", "waiting", "message")(NewWithT(GinkgoT()))).To(ContainSubstring("is not the name of a Secret"))

		Patch(ctx, secret, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v2beta2.LabelRuntime))
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		Expect(Field(ctx, job, "status", "phase")(NewWithT(GinkgoT()))).To(Equal("Deleting"))
		Expect(Field(ctx, job, "status", "waiting", "message")(NewWithT(GinkgoT()))).To(ContainSubstring(`Secret "db" ` + needsLabel))
		Remove(ctx, secret)
		Expect(pod.reconcile(ctx, job)).To(Equal("done"))
		Expect(pod.plays()).To(Equal(3))
	}, NodeTimeout(time.Minute))

	It("are read without the label if they were kept, unless their owner has decided otherwise", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		own := gateOperator + "-endpoints"
		for _, name := range []string{"former", own} {
			userSecret(ctx, namespace, name, "", "password")
		}
		pod.write("endpoints/"+gate.KeptSecretsFile, MustJSON([]string{"former", own, "gone"}))
		job := naming(ctx, namespace, "kept", map[string]any{"password": "former"})
		pod.reconcile(ctx, job)
		pod.reconcile(ctx, naming(ctx, namespace, "gone", map[string]any{"password": "gone"}))
		Expect(pod.plays()).To(Equal(2))
		hostile := naming(ctx, namespace, "own", map[string]any{"password": own})
		pod.reconcile(ctx, hostile)
		expectWaiting(ctx, hostile, v2beta2.ReasonRuntimeObjectNotAllowed, "is never given to playbooks")

		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "former"}}, fmt.Sprintf(`{"metadata":{"labels":{%q:"false"}}}`, v2beta2.LabelRuntime))
		Patch(ctx, job, `{"spec":{"title":"changed"}}`)
		pod.reconcile(ctx, job)
		expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "former" `+needsLabel)

		pod.write("endpoints/"+gate.KeptSecretsFile, "{")
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.plays()).To(Equal(2), "what cannot be read allows nothing")
	}, NodeTimeout(time.Minute))
})

var _ = Describe("Secrets that living resources name", func() {
	It("are kept once by a manager that begins to ask for the label, except the product's own", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.variables = strings.Join([]string{
			"{name: logon, displayName: Logon, type: password}", "{name: note, displayName: Note, type: string}",
			"{name: rows, displayName: Rows, type: object, array: true, objectVariables: [{name: token, displayName: Token, type: password}]}",
		}, "\n      - ")
		oc := installSample(ctx, namespace, s)
		endpoints := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-endpoints"}}
		kept := func(g Gomega) string {
			Get(ctx, g, endpoints)
			return string(endpoints.Data[gate.KeptSecretsFile])
		}
		for _, name := range []string{"db", "other", "unused"} {
			userSecret(ctx, namespace, name, "", "password")
		}
		Create(ctx, tokenOf(namedIn(namespace, "token", "")))
		create := func(name string, spec map[string]any) {
			thing := s.instance(namespace, name)
			for key, value := range spec {
				thing.Object["spec"].(map[string]any)[key] = value
			}
			Create(ctx, thing)
		}
		create("one", map[string]any{"logon": "db", "note": "unused"})
		create("two", map[string]any{"logon": endpoints.Name, "rows": []any{map[string]any{"token": "other"}, map[string]any{"token": "missing"}, map[string]any{"token": "token"}, map[string]any{"token": "x/../db"}}})
		Expect(kept(NewWithT(GinkgoT()))).To(Equal("[]"), "a new installation keeps none")

		By("looking for them where an earlier manager has left none")
		Patch(ctx, endpoints, fmt.Sprintf(`{"data":{%q:null}}`, gate.KeptSecretsFile))
		theManager.restart(ctx)
		Eventually(kept).WithContext(ctx).Should(Equal(`["db","other"]`))

		By("not adding others later, nor after a restart")
		create("three", map[string]any{"logon": "unused"})
		theManager.restart(ctx)
		Patch(ctx, oc, `{"spec":{"deletionPolicy":"Orphan"}}`)
		Eventually(func(g Gomega) {
			Get(ctx, g, oc)
			g.Expect(oc.Status.ObservedGeneration).To(Equal(oc.Generation))
		}).WithContext(ctx).Should(Succeed())
		Expect(kept(NewWithT(GinkgoT()))).To(Equal(`["db","other"]`))
		attack.Repelled("Secrets and hosts", "have a Secret kept that no resource named at the upgrade", "only names of that time are kept", kept(NewWithT(GinkgoT())))
	}, NodeTimeout(3*time.Minute))
})
