package runner_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const personalGroup = "gate.example." + SharedGroup

// The users of these specs.
const (
	alice = "alice"
	bob   = "bob"
)

// operatorOf is the ServiceAccount of the operator.
func operatorOf(namespace string) string {
	return "system:serviceaccount:" + namespace + ":" + JobOperator
}

// grant gives the operator permissions in its namespace, and waits until the API server knows the last one.
func grant(ctx context.Context, namespace, name string, rules ...rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: operatorOf(namespace)}},
	})
	last := rules[len(rules)-1]
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: operatorOf(namespace), ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: last.Verbs[0], Group: last.APIGroups[0], Resource: last.Resources[0], Name: strings.Join(last.ResourceNames, ""),
		},
	}}
	Eventually(ctx, func(g Gomega) bool {
		g.Expect(K8s.Create(ctx, review)).To(Succeed())
		return review.Status.Allowed
	}).Should(BeTrue())
}

// newPersonalPod makes a pod with the permissions of an operator, and an endpoint for personal credentials.
func newPersonalPod(ctx context.Context, namespace string) *operatorPod {
	GinkgoHelper()
	p := newPodOfOperator(ctx, namespace, JobOperator, "operator-1")
	p.Settings.Group = personalGroup
	p.WriteSettings()
	e := remoteEndpoint(namespace, "lpar1")
	p.AddEndpoint(ctx, e)
	for _, suffix := range []string{"password", "credential"} {
		Expect(os.Remove(filepath.Join(p.Dir, "endpoints/lpar1_"+suffix))).To(Succeed())
	}
	p.Write("endpoints/lpar1_vars.yaml", MustJSON(map[string]any{"ansible_host": e.Spec.Host, "ansible_port": e.Spec.Port}))
	p.Write("endpoints/lpar1_known_hosts", "lpar1.example.com ssh-ed25519 AAAA")
	p.Write("endpoints/lpar1_personal", strings.Repeat("p", endpoint.KeyBytes))
	all := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"*"}}
	}
	grant(ctx, namespace, JobOperator, all(personalGroup, "jobs", "jobs/status"), all("zoscb.ibm.com", "runs", "zosendpoints"),
		all("coordination.k8s.io", "leases"), all("", "pods", "events"),
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{endpoint.StateName(e)}, Verbs: []string{"get", "update"}})
	p.API.WriteKubeconfig(filepath.Join(p.Dir, "kubeconfig"), operatorOf(namespace))
	theirs := JobIn(personalGroup, namespace, "probe", nil)
	theirs.SetAnnotations(map[string]string{endpoint.AnnotationCredential: "theirs"})
	Eventually(ctx, func() error { return As(operatorOf(namespace)).Create(ctx, theirs.DeepCopy(), client.DryRunAll) }).
		Should(MatchError(ContainSubstring("an operator must not choose")), "the policy is in effect")
	return p
}

// letRead lets an operator read the Secrets of its namespace.
func letRead(ctx context.Context, namespace string) {
	GinkgoHelper()
	grant(ctx, namespace, "personal", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
}

// personalJob makes a resource that uses a Secret, or none.
func personalJob(ctx context.Context, namespace, name, secret string) *unstructured.Unstructured {
	GinkgoHelper()
	job := JobIn(personalGroup, namespace, name, map[string]any{"zosendpoint": "lpar1", "title": "a"})
	if secret != "" {
		job.SetAnnotations(map[string]string{endpoint.AnnotationCredential: secret})
	}
	CreateWithFinalizer(ctx, job)
	return job
}

// credentialOf makes the Secret of a user with a key.
func credentialOf(ctx context.Context, namespace, user string) string {
	GinkgoHelper()
	key := "S3cret" + rand.Text()
	Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user}, Type: corev1.SecretTypeSSHAuth,
		StringData: map[string]string{"username": strings.ToUpper(user), "ssh-privatekey": key},
	})
	return key
}

var _ = Describe("A run with a personal credential", Ordered, func() {
	BeforeAll(func(ctx context.Context) {
		MakeJobKindIn(ctx, personalGroup)
		server.Apply(GinkgoTB(), "config/policy/*.yaml")
	})

	It("gets the credential that its resource names, and no other run does, side by side too", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod, keys := newPersonalPod(ctx, namespace), map[string]string{}
		letRead(ctx, namespace)
		// Each run tells what it finds while the other one runs.
		pod.RealRunner(`me=$(basename "$2")
touch "$DIR/began-$me"
while [ ! -e "$DIR/began-alice" ] || [ ! -e "$DIR/began-bob" ]; do sleep 0.05; done
cat "$ZOSCB_ENDPOINTS_DIR"/* >"$DIR/found-$me"
stat -c %a "$ZOSCB_ENDPOINTS_DIR/lpar1_key" >"$DIR/mode-$me"
mkdir "$ZOSCB_STATE_DIR" && echo copy >"$ZOSCB_STATE_DIR/key"
echo "$ZOSCB_ENDPOINTS_DIR $ZOSCB_STATE_DIR $ANSIBLE_SSH_CONTROL_PATH_DIR" >"$DIR/folders-$me"
touch "$DIR/looked-$me"
while [ ! -e "$DIR/looked-alice" ] || [ ! -e "$DIR/looked-bob" ]; do sleep 0.05; done
` + LoggedOn)
		jobs := map[string]*unstructured.Unstructured{}
		for _, user := range []string{alice, bob} {
			keys[user], jobs[user] = credentialOf(ctx, namespace, user), personalJob(ctx, namespace, user, user)
		}
		calls := map[string]*Call{}
		for user, job := range jobs {
			calls[user] = pod.Start(Live(ctx, Default, job))
		}
		for _, user := range []string{alice, bob} {
			calls[user].Answer(ctx)
			phase, _ := waitingOf(ctx, jobs[user])
			Expect(phase).To(Equal("Succeeded"))
		}
		for user, other := range map[string]string{alice: bob, bob: alice} {
			found := pod.Read("found-" + user)
			Expect(found).To(And(ContainSubstring(keys[user]), ContainSubstring(strings.ToUpper(user)), ContainSubstring("ssh-ed25519"),
				Not(ContainSubstring(keys[other])), Not(ContainSubstring(strings.ToUpper(other)))))
			Expect(pod.Read("mode-" + user)).To(Equal("600\n"))
			for folder := range strings.FieldsSeq(pod.Read("folders-" + user)) {
				Expect(pod.Read("folders-" + other)).NotTo(ContainSubstring(folder))
				Expect(folder).NotTo(BeAnExistingFile(), "it is removed after the run")
			}
		}
		attack.Repelled("Secrets and hosts", "find another user's key in the files of a run, while both run", "each run has its own only", "in neither")

		By("leaving the key nowhere")
		Expect(pod.filesWith(keys[alice])).To(ConsistOf("found-alice"))
		Expect(MustJSON(Live(ctx, Default, jobs[alice]).Object)).NotTo(ContainSubstring(keys[alice]))

		By("using it to delete the resource, also when somebody else deletes it")
		pod.RealRunner(`cat "$ZOSCB_ENDPOINTS_DIR/lpar1_key" >"$DIR/deleted"; ` + LoggedOn)
		Expect(K8s.Delete(ctx, jobs[alice])).To(Succeed())
		Expect(pod.Reconcile(ctx, jobs[alice])).To(Equal("done"))
		Expect(pod.Read("deleted")).To(Equal(keys[alice]))
	})

	It("does not start without one that can be used, and status says why", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		pod.RealRunner(WellDone)
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
		pod.Reconcile(ctx, unreadable)
		expectWaiting(ctx, unreadable, "PersonalCredentialUnreadable", "the operator may not read Secret plain")
		letRead(ctx, namespace)

		for name, c := range map[string]struct{ secret, reason, message string }{
			"none":    {"", "PersonalCredentialMissing", "set annotation zoscb.ibm.com/credential to the name of a Secret in namespace " + namespace},
			"missing": {"missing", "PersonalCredentialInvalid", "does not exist in namespace " + namespace},
			"plain":   {"plain", "PersonalCredentialInvalid", "is not a credential: set the type kubernetes.io/ssh-auth or add the label"},
			"empty":   {"empty", "PersonalCredentialInvalid", "has neither ssh-privatekey nor password"},
			"evil":    {"evil", "PersonalCredentialInvalid", "has a username with characters that are not allowed"},
		} {
			job := personalJob(ctx, namespace, name, c.secret)
			Expect(pod.Reconcile(ctx, job)).To(Equal("10s"), name)
			expectWaiting(ctx, job, endpoint.Reason(c.reason), c.message)
			Expect(MustJSON(Live(ctx, Default, job).Object)).NotTo(Or(ContainSubstring("hunter2"), ContainSubstring("6 * 7")))
		}
		Expect(pod.Plays()).To(BeZero())
		attack.Repelled("Secrets and hosts", "have a Secret that is not a credential sent to a system", "the run waits, and the Secret is not used", "PersonalCredentialInvalid")

		By("starting once it is corrected")
		job := JobIn(personalGroup, namespace, "empty", nil)
		Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "empty"}}, `{"stringData":{"password":"a password"}}`)
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1))
	})

	It("does not start where nobody decides who may use it", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		letRead(ctx, namespace)
		pod.RealRunner(LoggedOn)
		credentialOf(ctx, namespace, alice)
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("admissionregistration.k8s.io/v1")
		policy.SetKind("ValidatingAdmissionPolicyBinding")
		policy.SetName("collection-operator-personal-credentials")
		deny := func(ctx context.Context) { Patch(ctx, policy.DeepCopy(), `{"spec":{"validationActions":["Deny"]}}`) }
		Patch(ctx, policy.DeepCopy(), `{"spec":{"validationActions":["Warn"]}}`)
		DeferCleanup(deny)
		job := personalJob(ctx, namespace, "one", alice)
		another := fmt.Sprintf(`{"metadata":{"annotations":{%q:"another"}}}`, endpoint.AnnotationCredential)
		named := func() error {
			return As(operatorOf(namespace)).Patch(ctx, job.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(another)), client.DryRunAll)
		}
		Eventually(ctx, named).Should(Succeed())
		Expect(pod.Reconcile(ctx, job)).To(Equal("10s"))
		expectWaiting(ctx, job, "PersonalCredentialUnprotected", "an administrator must apply ValidatingAdmissionPolicy collection-operator-personal-credentials")
		Expect(pod.Plays()).To(BeZero())
		_, waiting := waitingOf(ctx, job)
		attack.Repelled("Secrets and hosts", "use another user's Secret while the policy is not in effect", "no run with a personal credential starts", waiting["message"].(string))

		deny(ctx)
		Eventually(ctx, named).Should(MatchError(ContainSubstring("an operator must not choose")))
		pod.Reconcile(ctx, job)
		Expect(pod.Plays()).To(Equal(1))
	})

	It("that the system refused is not repeated with it, and that of another user starts", attack.Label, func(ctx context.Context) {
		namespace := newNamespace(ctx)
		pod := newPersonalPod(ctx, namespace)
		letRead(ctx, namespace)
		key := credentialOf(ctx, namespace, alice)
		credentialOf(ctx, namespace, bob)
		pod.RealRunner(RefusedRun)
		pod.Reconcile(ctx, personalJob(ctx, namespace, "first", alice))
		second, other := personalJob(ctx, namespace, "second", alice), personalJob(ctx, namespace, "other", bob)
		pod.Reconcile(ctx, second)
		expectWaiting(ctx, second, endpoint.ReasonCredentialRefused, "ALICE")
		Expect(pod.Plays()).To(Equal(1))
		pod.RealRunner(LoggedOn)
		pod.Reconcile(ctx, other)
		Expect(pod.Plays()).To(Equal(2))
		e := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "lpar1"}}
		Get(ctx, Default, e)
		state := string(LiveState(ctx, Default, e).Data[endpoint.StateFile])
		Expect(state).To(And(ContainSubstring("alice"), ContainSubstring("bob"), Not(ContainSubstring(key))))
	})
})

// filesWith returns the files of the pod that contain a text.
func (p *operatorPod) filesWith(text string) []string {
	GinkgoHelper()
	var found []string
	Expect(filepath.WalkDir(p.Dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			name, _ := filepath.Rel(p.Dir, path)
			found = append(found, name)
		}
		return err
	})).To(Succeed())
	return found
}
