package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const personalGroup = "gate.example." + SharedGroup

// newPersonalPod makes a pod with the permissions of an operator, and an endpoint for personal credentials.
func newPersonalPod(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	p := newPodOfOperator(ctx, namespace, gateOperator, "operator-1")
	p.settings.Group = personalGroup
	p.writeSettings()
	e := newEndpoint(namespace, "lpar1", startSSHServer())
	p.addEndpoint(ctx, e)
	for _, suffix := range []string{"password", "credential"} {
		Expect(os.Remove(filepath.Join(p.dir, "endpoints/lpar1_"+suffix))).To(Succeed())
	}
	p.write("endpoints/lpar1_vars.yaml", MustJSON(map[string]any{"ansible_host": e.Spec.Host, "ansible_port": e.Spec.Port}))
	p.write("endpoints/lpar1_known_hosts", "lpar1.example.com ssh-ed25519 AAAA")
	p.write("endpoints/lpar1_personal", strings.Repeat("p", endpoint.KeyBytes))
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	grantTo(ctx, namespace, gateOperator, operatorOf(namespace), all(personalGroup, "jobs", "jobs/status"), all("zoscb.ibm.com", "runs", "zosendpoints"),
		all("coordination.k8s.io", "leases"), all("", "pods", "events"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{endpoint.StateName(e)}, Verbs: []string{"get", "update"}})
	awaitRight(ctx, operatorOf(namespace), namespace, "create", "jobs", personalGroup)
	p.api.writeKubeconfig(filepath.Join(p.dir, "kubeconfig"), operatorOf(namespace))
	return p
}

// letRead lets an operator read the Secrets of its namespace.
func letRead(ctx context.Context, namespace string) {
	GinkgoHelper()
	grantTo(ctx, namespace, "personal", operatorOf(namespace), rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	awaitRight(ctx, operatorOf(namespace), namespace, "get", "secrets", "")
}

// personalJob makes a resource that uses a Secret, or none.
func personalJob(ctx context.Context, namespace, name, secret string) *unstructured.Unstructured {
	GinkgoHelper()
	job := jobIn(personalGroup, namespace, name, map[string]any{"zosendpoint": "lpar1", "title": "a"})
	job.SetFinalizers([]string{gateGroup + "/finalizer"})
	if secret != "" {
		job = withCredential(job, secret)
	}
	Create(ctx, job)
	DeferCleanup(func(ctx context.Context) {
		_ = TryPatch(ctx, job.DeepCopy(), `{"metadata":{"finalizers":null}}`)
		Remove(ctx, job)
	})
	return job
}

// credentialOf makes the Secret of a user with a key.
func credentialOf(ctx context.Context, namespace, user string) string {
	GinkgoHelper()
	key := secretValue("the key of " + user)
	Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, Type: corev1.SecretTypeSSHAuth,
		StringData: map[string]string{"username": strings.ToUpper(user), "ssh-privatekey": key},
	})
	return key
}

var _ = Describe("A run with a personal credential", Ordered, func() {
	BeforeAll(func(ctx context.Context) { makeGateKindIn(ctx, personalGroup) }, NodeTimeout(time.Minute))

	It("gets the credential that its resource names, and no other run does, side by side too", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, keys := newPersonalPod(ctx, namespace), map[string]string{}
		letRead(ctx, namespace)
		// Each run tells what it finds while the other one runs.
		pod.realRunner(`me=$(basename "$2")
touch "$DIR/began-$me"
while [ ! -e "$DIR/began-alice" ] || [ ! -e "$DIR/began-bob" ]; do sleep 0.05; done
cat "$ZOSCB_ENDPOINTS_DIR"/* >"$DIR/found-$me"
stat -c %a "$ZOSCB_ENDPOINTS_DIR/lpar1_key" >"$DIR/mode-$me"
mkdir "$ZOSCB_STATE_DIR" && echo copy >"$ZOSCB_STATE_DIR/key"
echo "$ZOSCB_ENDPOINTS_DIR $ZOSCB_STATE_DIR $ANSIBLE_SSH_CONTROL_PATH_DIR" >"$DIR/folders-$me"
touch "$DIR/looked-$me"
while [ ! -e "$DIR/looked-alice" ] || [ ! -e "$DIR/looked-bob" ]; do sleep 0.05; done
` + loggedOn)
		jobs := map[string]*unstructured.Unstructured{}
		for _, user := range []string{alice, bob} {
			keys[user], jobs[user] = credentialOf(ctx, namespace, user), personalJob(ctx, namespace, user, user)
		}
		calls := map[string]*reconciliation{}
		for user, job := range jobs {
			calls[user] = pod.start(Live(ctx, NewWithT(GinkgoT()), job))
		}
		for _, user := range []string{alice, bob} {
			calls[user].answer(ctx)
			phase, _ := waitingOf(ctx, jobs[user])
			Expect(phase).To(Equal("Succeeded"))
		}
		for user, other := range map[string]string{alice: bob, bob: alice} {
			found := pod.read("found-" + user)
			Expect(found).To(And(ContainSubstring(keys[user]), ContainSubstring(strings.ToUpper(user)), ContainSubstring("ssh-ed25519"),
				Not(ContainSubstring(keys[other])), Not(ContainSubstring(strings.ToUpper(other)))))
			Expect(pod.read("mode-" + user)).To(Equal("600\n"))
			for folder := range strings.FieldsSeq(pod.read("folders-" + user)) {
				Expect(pod.read("folders-" + other)).NotTo(ContainSubstring(folder))
				Expect(folder).NotTo(BeAnExistingFile(), "it is removed after the run")
			}
		}
		attack.Repelled("Secrets and hosts", "find another user's key in the files of a run, while both run", "each run has its own only", "in neither")

		By("leaving the key nowhere")
		Expect(pod.filesWith(keys[alice])).To(ConsistOf("found-alice"))
		Expect(MustJSON(Live(ctx, NewWithT(GinkgoT()), jobs[alice]).Object)).NotTo(ContainSubstring(keys[alice]))

		By("using it to delete the resource, also when somebody else deletes it")
		pod.realRunner(`cat "$ZOSCB_ENDPOINTS_DIR/lpar1_key" >"$DIR/deleted"; ` + loggedOn)
		Expect(K8s.Delete(ctx, jobs[alice])).To(Succeed())
		Expect(pod.reconcile(ctx, jobs[alice])).To(Equal("done"))
		Expect(pod.read("deleted")).To(Equal(keys[alice]))
	}, NodeTimeout(2*time.Minute))

	It("does not start without one that can be used, and status says why", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		pod.realRunner(wellDone)
		Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "plain"}, StringData: map[string]string{"password": "hunter2"}},
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty", Labels: map[string]string{endpoint.LabelCredential: "true"}},
				StringData: map[string]string{"username": "EMPTY"},
			}, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "evil", Labels: map[string]string{endpoint.LabelCredential: "true"}},
				StringData: map[string]string{"username": "{{ 6 * 7 }}", "password": "p"},
			})

		By("without the permission to read it")
		unreadable := personalJob(ctx, namespace, "unreadable", "plain")
		pod.reconcile(ctx, unreadable)
		expectLater(ctx, pod, unreadable, "PersonalCredentialUnreadable", "the operator may not read Secret plain")
		letRead(ctx, namespace)

		for name, c := range map[string]struct{ secret, reason, message string }{
			"none":    {"", "PersonalCredentialMissing", "set annotation zoscb.ibm.com/credential to the name of a Secret in namespace " + namespace},
			"missing": {"missing", "PersonalCredentialInvalid", "does not exist in namespace " + namespace},
			"plain":   {"plain", "PersonalCredentialInvalid", "is not a credential: set the type kubernetes.io/ssh-auth or add the label"},
			"empty":   {"empty", "PersonalCredentialInvalid", "has neither ssh-privatekey nor password"},
			"evil":    {"evil", "PersonalCredentialInvalid", "has a username with characters that are not allowed"},
		} {
			job := personalJob(ctx, namespace, name, c.secret)
			Expect(pod.reconcile(ctx, job)).To(Equal("10s"), name)
			expectWaiting(ctx, job, endpoint.Reason(c.reason), c.message)
			Expect(MustJSON(Live(ctx, NewWithT(GinkgoT()), job).Object)).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("6 * 7")))
		}
		Expect(pod.plays()).To(BeZero())
		attack.Repelled("Secrets and hosts", "have a Secret that is not a credential sent to a system", "the run waits, and the Secret is not used", "PersonalCredentialInvalid")

		By("starting once it is corrected")
		job := jobIn(personalGroup, namespace, "empty", nil)
		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty"}}, `{"stringData":{"password":"a password"}}`)
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(2*time.Minute))

	It("does not start where nobody decides who may use it", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		letRead(ctx, namespace)
		pod.realRunner(loggedOn)
		credentialOf(ctx, namespace, alice)
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("admissionregistration.k8s.io/v1")
		policy.SetKind("ValidatingAdmissionPolicyBinding")
		policy.SetName("collection-operator-personal-credentials")
		deny := func(ctx context.Context) { Patch(ctx, policy.DeepCopy(), `{"spec":{"validationActions":["Deny"]}}`) }
		Patch(ctx, policy.DeepCopy(), `{"spec":{"validationActions":["Warn"]}}`)
		DeferCleanup(deny, NodeTimeout(time.Minute))
		job := personalJob(ctx, namespace, "one", alice)
		named := func() error {
			return as(operatorOf(namespace)).Patch(ctx, job.DeepCopy(), merge(toUse("another")), client.DryRunAll)
		}
		Eventually(named).WithContext(ctx).Should(Succeed())
		Expect(pod.reconcile(ctx, job)).To(Equal("10s"))
		expectWaiting(ctx, job, "PersonalCredentialUnprotected", "an administrator must apply ValidatingAdmissionPolicy collection-operator-personal-credentials")
		Expect(pod.plays()).To(BeZero())
		_, waiting := waitingOf(ctx, job)
		attack.Repelled("Secrets and hosts", "use another user's Secret while the policy is not in effect", "no run with a personal credential starts", waiting["message"].(string))

		deny(ctx)
		Eventually(named).WithContext(ctx).Should(MatchError(ContainSubstring("an operator must not choose")))
		pod.reconcile(ctx, job)
		Expect(pod.plays()).To(Equal(1))
	}, NodeTimeout(2*time.Minute))

	It("that the system refused is not repeated with it, and that of another user starts", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		letRead(ctx, namespace)
		key := credentialOf(ctx, namespace, alice)
		credentialOf(ctx, namespace, bob)
		pod.realRunner(refusedRun)
		pod.reconcile(ctx, personalJob(ctx, namespace, "first", alice))
		second, other := personalJob(ctx, namespace, "second", alice), personalJob(ctx, namespace, "other", bob)
		pod.reconcile(ctx, second)
		expectWaiting(ctx, second, endpoint.ReasonCredentialRefused, "ALICE")
		Expect(pod.plays()).To(Equal(1))
		pod.realRunner(loggedOn)
		pod.reconcile(ctx, other)
		Expect(pod.plays()).To(Equal(2))
		e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lpar1"}}
		Get(ctx, NewWithT(GinkgoT()), e)
		state := string(liveState(ctx, NewWithT(GinkgoT()), e).Data[endpoint.StateFile])
		Expect(state).To(And(ContainSubstring("alice"), ContainSubstring("bob"), Not(ContainSubstring(key))))
	}, NodeTimeout(2*time.Minute))
})

// expectLater expects that status says why a run waits, once it has waited for some seconds.
func expectLater(ctx context.Context, pod *operatorPod, job *unstructured.Unstructured, reason endpoint.Reason, message string) {
	GinkgoHelper()
	Eventually(func() map[string]any {
		pod.reconcile(ctx, job)
		_, waiting := waitingOf(ctx, job)
		return waiting
	}).WithContext(ctx).WithPolling(time.Second).Should(HaveKeyWithValue("reason", string(reason)))
	expectWaiting(ctx, job, reason, message)
}

// filesWith returns the files of the pod that contain a text.
func (p *operatorPod) filesWith(text string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(p.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			name, _ := filepath.Rel(p.dir, path)
			found = append(found, name)
		}
		return err
	})).To(Succeed())
	return found
}
