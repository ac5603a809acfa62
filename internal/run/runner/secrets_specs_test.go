package runner_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// allowReading labels a Secret for the gate's operator.
func allowReading(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}},
		fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, v2beta2.LabelRuntime, JobOperator))
}

// naming makes a resource with variables besides its endpoint.
func naming(ctx context.Context, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	GinkgoHelper()
	spec["zosendpoint"] = "lpar1"
	return NewJob(ctx, namespace, name, spec)
}

// newPodWithPasswords makes a pod of an operator whose kind names Secrets in all ways.
func newPodWithPasswords(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	pod := newOperatorPod(ctx, namespace)
	kind := pod.Settings.Kinds[JobKind]
	kind.CheckMode = true
	kind.Variables = append(kind.Variables, gate.Variable{Name: "passwords", Secret: true},
		gate.Variable{Name: "owner", Fields: []gate.Variable{{Name: "token", Secret: true}}}, gate.Variable{Name: "rows", Fields: []gate.Variable{{Name: "token", Secret: true}}})
	pod.Settings.Kinds[JobKind] = kind
	pod.WriteSettings()
	pod.RealRunner(WellDone)
	return pod
}

const needsLabel = "does not exist, or does not allow its use by operators: it needs the label zoscb.ibm.com/runtime=true, or zoscb.ibm.com/runtime=" + JobOperator

var _ = Describe("Secrets that a resource names", Ordered, func() {
	It("are read with the label or as credentials, whoever may create resources, and nobody's own", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		UserSecret(ctx, namespace, "for-all", "true", "password")
		UserSecret(ctx, namespace, "for-this", JobOperator, "password")
		UserSecret(ctx, namespace, "for-another", "another-operator", "password")
		UserSecret(ctx, namespace, "of-an-application", "", "password")
		UserSecret(ctx, namespace, "old-client", "", "username", "ssh_key", "passphrase")
		UserSecret(ctx, namespace, "old-client-and-more", "", "username", "ssh_key", "password")
		credentialOf(ctx, namespace, "ssh-auth")
		Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon", Labels: map[string]string{endpoint.LabelCredential: "true"}},
			StringData: map[string]string{"username": "U", "password": SecretValue("logon")},
		})
		own := []string{JobOperator + "-endpoints", "another-operator-dependencies", endpoint.StateName(LocalEndpoint(namespace, "lpar1")), "collection-operator-credential-key"}
		for _, name := range own[:2] {
			UserSecret(ctx, namespace, name, "true", "key")
		}
		UserSecret(ctx, namespace, own[3], "true", "key")
		Create(ctx, TokenSecret(NamedIn(namespace, "token", "true")))

		for i, name := range []string{"for-all", "for-this", "old-client", "ssh-auth", "logon"} {
			job := naming(ctx, namespace, fmt.Sprintf("allowed%d", i), map[string]any{"password": name})
			Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"), name)
			Expect(pod.Plays()).To(Equal(i+1), name)
		}
		began := pod.Plays()
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
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"), name)
			expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, c.message)
			live := Live(ctx, Default, job)
			Expect(live.GetAnnotations()).NotTo(HaveKey(gate.AnnotationRecord), "%s: no attempt is used", name)
			Expect(live.Object["status"]).NotTo(HaveKey("lastRun"), name)
		}
		Expect(pod.Plays()).To(Equal(began))
		job := JobIn(JobGroup, namespace, "unlabelled", nil)
		_, waiting := waitingOf(ctx, job)
		attack.Repelled("Secrets and hosts", "read a Secret of the namespace by naming it in a resource", "only with a label that its owner sets, or if it is a credential",
			waiting["message"].(string))
		_, waiting = waitingOf(ctx, JobIn(JobGroup, namespace, "endpoints", nil))
		attack.Repelled("Secrets and hosts", "read the keys of all endpoints by naming the operator's own Secret", "the run waits, also if somebody labels it",
			waiting["message"].(string))

		By("going on by itself once the label is there, without a change of the resource")
		Expect(waiting).To(HaveKey("since"))
		before := Live(ctx, Default, job)
		allowReading(ctx, namespace, "of-an-application")
		Expect(pod.Start(before).Answer(ctx)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(began + 1))
		phase, none := waitingOf(ctx, job)
		Expect(phase).To(Equal("Succeeded"))
		Expect(none).To(BeNil())
		Expect(Live(ctx, Default, job).Object["status"]).To(HaveKeyWithValue("lastRun", HaveKeyWithValue("attempt", BeEquivalentTo(1))))
		Expect(pod.Read("output")).NotTo(ContainSubstring("orbidden"))

		By("not stopping what is as described when the label is withdrawn, but its next run")
		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "of-an-application"}},
			fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v2beta2.LabelRuntime))
		Expect(pod.Reconcile(ctx, job)).To(Equal("5m0s"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Succeeded"))
		Patch(ctx, job, fmt.Sprintf(`{"metadata":{"annotations":{%q:"now"}}}`, gate.AnnotationCheckRequestedAt))
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(began+1), "a drift check is a run")
		Patch(ctx, job, `{"spec":{"title":"changed"}}`)
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "of-an-application" `+needsLabel)
		Expect(pod.Plays()).To(Equal(began + 1))
	})

	It("are not read for a resource that refers to one that names them", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		UserSecret(ctx, namespace, "of-an-application", "", "password")
		naming(ctx, namespace, "names", map[string]any{"password": "of-an-application", "follows": "last"})
		naming(ctx, namespace, "middle", map[string]any{"follows": "names"})
		last := naming(ctx, namespace, "last", map[string]any{"follows": "middle"}) // The three form a circle.
		Expect(pod.Reconcile(ctx, last)).To(Equal("10s"))
		expectWaiting(ctx, last, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "of-an-application" `+needsLabel)
		_, waiting := waitingOf(ctx, last)
		attack.Repelled("Secrets and hosts", "read a Secret through a resource that refers to another one, which names it", "the run waits as that of the other one", waiting["message"].(string))
		allowReading(ctx, namespace, "of-an-application")
		Expect(pod.Reconcile(ctx, last)).To(Equal("5m0s"))
		Expect(pod.Plays()).To(Equal(1))
	})

	It("are not read by deletion playbooks either, which run without those that are gone", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		secret := UserSecret(ctx, namespace, "db", JobOperator, "password")
		job, hostile := naming(ctx, namespace, "one", map[string]any{"password": "db"}), naming(ctx, namespace, "two", map[string]any{"password": "db"})
		for _, object := range []client.Object{job, hostile} {
			pod.Reconcile(ctx, object)
			Remove(ctx, object)
		}
		Expect(pod.Plays()).To(Equal(2))
		Patch(ctx, hostile, fmt.Sprintf(`{"spec":{"password":"x/../%s-endpoints"}}`, JobOperator))
		Expect(pod.Reconcile(ctx, hostile)).To(Equal("10s"))
		Expect(Field(ctx, hostile, "status", "waiting", "message")(Default)).To(ContainSubstring("is not the name of a Secret"))

		Patch(ctx, secret, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, v2beta2.LabelRuntime))
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(Field(ctx, job, "status", "phase")(Default)).To(Equal("Deleting"))
		Expect(Field(ctx, job, "status", "waiting", "message")(Default)).To(ContainSubstring(`Secret "db" ` + needsLabel))
		Remove(ctx, secret)
		Expect(pod.Reconcile(ctx, job)).To(Equal("done"))
		Expect(pod.Plays()).To(Equal(3))
	})

	It("are read without the label if they were kept, unless their owner has decided otherwise", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPodWithPasswords(ctx, namespace)
		own := JobOperator + "-endpoints"
		for _, name := range []string{"former", own} {
			UserSecret(ctx, namespace, name, "", "password")
		}
		pod.Write("endpoints/"+gate.KeptSecretsFile, MustJSON([]string{"former", own, "gone"}))
		job := naming(ctx, namespace, "kept", map[string]any{"password": "former"})
		pod.Reconcile(ctx, job)
		pod.Reconcile(ctx, naming(ctx, namespace, "gone", map[string]any{"password": "gone"}))
		Expect(pod.Plays()).To(Equal(2))
		hostile := naming(ctx, namespace, "own", map[string]any{"password": own})
		pod.Reconcile(ctx, hostile)
		expectWaiting(ctx, hostile, v2beta2.ReasonRuntimeObjectNotAllowed, "is never given to playbooks")

		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "former"}}, fmt.Sprintf(`{"metadata":{"labels":{%q:"false"}}}`, v2beta2.LabelRuntime))
		Patch(ctx, job, `{"spec":{"title":"changed"}}`)
		pod.Reconcile(ctx, job)
		expectWaiting(ctx, job, v2beta2.ReasonRuntimeObjectNotAllowed, `Secret "former" `+needsLabel)

		pod.Write("endpoints/"+gate.KeptSecretsFile, "{")
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		Expect(pod.Plays()).To(Equal(2), "what cannot be read allows nothing")
	})
})
