//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	notesVersion = "v1minor0patch0"
	notesPod     = "credentials-lab-notes-operator"
)

// notesCollection writes a note on the endpoint: who wrote it, and one variable of the endpoint.
func notesCollection() fs.FS {
	files := map[string]string{
		"galaxy.yml": "{namespace: credentials_lab, name: notes, version: 1.0.0, readme: README.md, authors: [e2e]}",
		"README.md":  "# notes\n",
		"operator-config.yml": `
domain: credentials-lab
name: notes
version: 1.0.0
displayName: Notes
resources:
  - kind: Note
    playbook: note.yml
    vars:
      - {name: text, displayName: Text, type: string}
`,
		"note.yml": `
- name: Write a note
  hosts: all
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.shell: "echo {{ text }} {{ greeting | default('hello') }} $(id -un) > /tmp/note-{{ ansible_operator_meta.name }}"
    - name: Look at it with a module
      ansible.builtin.stat:
        path: "/tmp/note-{{ ansible_operator_meta.name }}"
`,
	}
	return Folder(files)
}

var _ = Describe("A credential", Label("story"), Ordered, ContinueOnFailure, func() {
	e := &environment{namespace: "e2e-credentials", domain: "credentials-lab"}
	zos := &system{environment: e, name: "zos1", user: "ibmuser", password: "swordfish"}

	BeforeAll(func(ctx context.Context) {
		archives := archivesOf(map[string]fs.FS{"notes.tar.gz": notesCollection()})
		e.start(ctx, archives)
		zos.start(ctx)
		e.installSpec(ctx, "notes.credentials-lab.1.0.0", e.talkative("notes.tar.gz", archives["notes.tar.gz"]))
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	Context("of each kind", func() { credentialKinds(e, zos) })
	Context("that changes while the operator runs", func() { liveChanges(e, zos) })
	Context("that is refused", func() { refusedCredentials(e, zos) })
	Context("in a pod with a user ID that the image does not know", func() { anyUserID(e, zos) })

	It("is nowhere but in its Secret, the operator's and the operator's memory", attack.Label, func(ctx context.Context) { expectSecrecy(ctx, e, zos) })

	It("cannot be read with the operator's token", attack.Label, func(ctx context.Context) {
		secrets := "GET /api/v1/namespaces/" + e.namespace + "/secrets/"
		notes := "GET /apis/suboperator.zoscb.ibm.com/" + notesVersion + "/namespaces/" + e.namespace + "/notes"
		Expect(statuses(ctx, e.namespace, notesPod, notes)).To(Equal([]string{"200"}))
		seen := statuses(ctx, e.namespace, notesPod, secrets+"plain", secrets+notesPod+"-endpoints")
		Expect(seen).To(HaveEach("403"))
		attack.Repelled(permissions, "an operator's token: read a Secret of its namespace when no kind has a password variable", "forbidden", strings.Join(seen, " "))
	})

	It("never has a module sent by SFTP", func(ctx context.Context) {
		Expect(zos.log(ctx)).To(ContainSubstring("Accepted publickey for ibmuser"))
		Expect(zos.transferred(ctx)).To(BeEmpty())
		Expect(strings.ToLower(zos.log(ctx))).NotTo(ContainSubstring("sftp"))
	})
})

// note is a resource whose playbook writes a text on an endpoint.
func (e *environment) note(name, endpoint, text string) *unstructured.Unstructured {
	return e.instance(notesVersion, "Note", name, map[string]any{"zosendpoint": endpoint, "text": text})
}

// readNote waits until the note on the system is the wanted one.
func (s *system) readNote(ctx context.Context, name, want string) {
	GinkgoHelper()
	Eventually(ctx, func() string {
		return s.shell(ctx, "cat /tmp/note-"+name+" 2>/dev/null || true")
	}).WithTimeout(InstallTimeout).Should(Equal(want + "\n"))
}

// arrives waits until a file of the mounted Secret holds a text, and reports how long it took since the change.
func (e *environment) arrives(ctx context.Context, what, file, text string) {
	GinkgoHelper()
	changed := time.Now()
	Eventually(ctx, func() string {
		return e.inOperator(ctx, notesPod, "cat /etc/zoscb/endpoints/"+file+" 2>/dev/null || true")
	}).WithTimeout(InstallTimeout).Should(ContainSubstring(text))
	AddReportEntry(what+" reached the pod after", fmt.Sprint(time.Since(changed).Round(time.Second)))
}

// talkative imports an archive into an operator that tells all that Ansible can tell.
func (e *environment) talkative(file string, archive []byte) v2beta2.OperatorCollectionSpec {
	spec := e.spec(file, archive)
	spec.Runtime = &v2beta2.RuntimeSpec{Env: []corev1.EnvVar{{Name: "ANSIBLE_VERBOSITY", Value: "4"}}}
	return spec
}

// keyLine is a line of a private key that is in no other.
func keyLine(private string) string { return strings.Split(private, "\n")[2] }

// expectSecrecy looks for all secrets of the specs where users, logs or backups could find them.
func expectSecrecy(ctx context.Context, e *environment, zos *system) {
	GinkgoHelper()
	search := "for folder in /etc/zoscb/endpoints /tmp /opt/ansible/content /etc/zoscb/runtime; do echo $folder $(grep -rlF -e '" +
		strings.Join(zos.secrets, "' -e '") + "' $folder/ | wc -l); done"
	Expect(e.inOperator(ctx, notesPod, "cat /tmp/ansible-operator/runner/suboperator.zoscb.ibm.com/"+notesVersion+"/Note/"+e.namespace+"/plain/artifacts/*/stdout")).
		To(ContainSubstring("ESTABLISH SSH CONNECTION"), "somebody asked Ansible to tell much")
	found := e.inOperator(ctx, notesPod, search)
	Expect(found).To(MatchRegexp(`^/etc/zoscb/endpoints [1-9]\d*\n/tmp 0\n/opt/ansible/content 0\n/etc/zoscb/runtime 0\n$`))
	attack.Repelled(secretsAndHosts, "turn up Ansible's verbosity, and look for keys, passphrases and passwords in files of the pod",
		"only the mounted Secret has them", "files with secrets: "+found)

	for what, args := range map[string][]string{
		"the operator's log":                           {"logs", "-n", e.namespace, "deployment/" + notesPod, "-c", "operator"},
		"the manager's log":                            {"logs", "-n", ManagerNamespace, "-l", ManagerSelector, "--tail=-1"},
		"the operator's Deployment and Pod":            {"get", "deployments,pods", "-n", e.namespace, "-l", "operator-name=notes", "-o", "yaml"},
		"events, ConfigMaps and the product's objects": {"get", "events,configmaps,zoscb,notes", "-n", e.namespace, "-o", "yaml"},
	} {
		text := kubectl(ctx, args...)
		for _, secret := range append(zos.secrets, "PRIVATE KEY") {
			Expect(strings.Contains(text, secret)).To(BeFalse(), "a secret is in %s", what)
		}
		attack.Repelled(secretsAndHosts, "look for keys, passphrases and passwords in "+what, "none", fmt.Sprintf("none in %d characters", len(text)))
	}
}

func credentialKinds(e *environment, zos *system) {
	It("is not needed to find out whether a system answers", func(ctx context.Context) {
		e.endpoint(ctx, "probed", v2beta2.ZosEndpointSpec{Host: zos.host()})
		Eventually(ctx, func() string { return zos.log(ctx) }).Should(ContainSubstring("[preauth]"))
		Expect(zos.refusals(ctx)).To(BeZero())
	})

	It("may be a key, an encrypted key or a password", attack.Label, func(ctx context.Context) {
		plain, plainKey := newKey("")
		encrypted, encryptedKey := newKey("open sesame")
		zos.secrets = append(zos.secrets, keyLine(plain), keyLine(encrypted), "open sesame", zos.password)
		zos.authorize(ctx, "plain", plainKey)
		zos.authorize(ctx, "encrypted", encryptedKey)
		for name, data := range map[string]map[string]string{
			"plain":     {"username": "ibmuser", "ssh-privatekey": plain},
			"encrypted": {"username": "ibmuser", "ssh-privatekey": encrypted, "passphrase": "open sesame"},
			"password":  {"username": "ibmuser", "password": "swordfish"},
		} {
			e.credential(ctx, name, data)
			e.endpoint(ctx, name, v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: name})
			Create(ctx, e.note(name, name, "by "+name))
		}
		for _, name := range []string{"plain", "encrypted", "password"} {
			expectSuccess(ctx, e.note(name, name, ""))
			zos.readNote(ctx, name, "by "+name+" hello ibmuser")
		}
		Expect(zos.log(ctx)).To(ContainSubstring("Accepted password for ibmuser"))
		Expect(zos.refusals(ctx)).To(BeZero())
	})

	It("is not needed in the operator's own pod", attack.Label, func(ctx context.Context) {
		e.endpoint(ctx, "here", v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal})
		here := e.note("here", "here", "inside")
		Create(ctx, here.DeepCopy())
		expectSuccess(ctx, here)
		Expect(e.inOperator(ctx, notesPod, "cat /tmp/note-here")).To(HavePrefix("inside hello "))
	})
}

func liveChanges(e *environment, zos *system) {
	var pod types.UID
	BeforeAll(func(ctx context.Context) { pod = e.operatorPod(ctx, "notes") })

	It("takes an endpoint that is new", func(ctx context.Context) {
		late := e.note("late", "late", "first")
		Create(ctx, late.DeepCopy())
		Eventually(ctx, Condition(ctx, late, "Failure")).Should(And(ConditionTrue(), WithMessage("EndpointNotFound")))
		e.endpoint(ctx, "late", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "plain", Variables: Variables(`"greeting=hi"`)})
		e.arrives(ctx, "a new endpoint", "late_vars.yaml", "hi")
		ask(ctx, late)
		expectSuccess(ctx, late)
		zos.readNote(ctx, "late", "first hi ibmuser")
	})

	It("takes variables that changed", func(ctx context.Context) {
		late := &v2beta2.ZosEndpoint{ObjectMeta: e.meta("late")}
		Patch(ctx, late, `{"spec": {"variables": [{"name": "site", "value": {"word": "good"}}, "greeting={{ site.word }}-evening"]}}`)
		e.arrives(ctx, "a changed variable", "late_vars.yaml", "evening")
		Patch(ctx, e.note("late", "late", ""), `{"spec": {"text": "second"}}`)
		zos.readNote(ctx, "late", "second good-evening ibmuser")
	})

	It("takes a key that was rotated", func(ctx context.Context) {
		rotated, rotatedKey := newKey("")
		zos.secrets = append(zos.secrets, keyLine(rotated))
		zos.authorize(ctx, "plain", rotatedKey)
		Patch(ctx, &corev1.Secret{ObjectMeta: e.meta("plain")}, MustJSON(map[string]any{"stringData": map[string]string{"ssh-privatekey": rotated}}))
		e.arrives(ctx, "a rotated key", "late_key", keyLine(rotated))
		Patch(ctx, e.note("late", "late", ""), `{"spec": {"text": "third"}}`)
		zos.readNote(ctx, "late", "third good-evening ibmuser")
		Expect(zos.refusals(ctx)).To(BeZero())
	})

	It("has needed no restart for that", func(ctx context.Context) {
		Expect(e.operatorPod(ctx, "notes")).To(Equal(pod))
		Expect(kubectl(ctx, "get", "pods", "-n", e.namespace, "-l", "operator-name=notes", "-o", "jsonpath={..restartCount}")).To(Equal("0 0"))
	})
}

func refusedCredentials(e *environment, zos *system) {
	var stranger, strangerKey string
	refused, another := e.note("refused", "refused", "let me in"), e.note("another", "refused", "me too")
	both, zep := []*unstructured.Unstructured{refused, another}, &v2beta2.ZosEndpoint{ObjectMeta: e.meta("refused")}
	var tried int

	It("is tried once, by one of many resources", attack.Label, func(ctx context.Context) {
		stranger, strangerKey = newKey("")
		zos.secrets = append(zos.secrets, keyLine(stranger))
		e.credential(ctx, "refused", map[string]string{"username": "ibmuser", "ssh-privatekey": stranger})
		e.endpoint(ctx, "refused", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "refused", SecurityDomain: "refusing"})
		e.arrives(ctx, "a credential", "refused_key", "PRIVATE KEY")
		tried = zos.refusals(ctx)
		Create(ctx, refused.DeepCopy(), another.DeepCopy())
		runs := 0
		for _, note := range both {
			Eventually(ctx, waitsFor(ctx, note)).Should(Equal(endpoint.ReasonCredentialRefused))
			Expect(Condition(ctx, note, runstatus.ConditionReady)(Default)).To(And(ConditionFalse(), WithReason("Waiting")))
			if lastRun(ctx, note)(Default).ID != "" {
				runs++
				Expect(lastRun(ctx, note)(Default)).To(withOutcome(gate.OutcomeRefused))
				Expect(Condition(ctx, note, "Failure")(Default)).To(And(ConditionTrue(), WithMessage("AuthenticationFailed")))
			}
		}
		Expect(runs).To(Equal(1))
		for edit := range 3 {
			for _, note := range both {
				ask(ctx, note)
				Patch(ctx, note.DeepCopy(), fmt.Sprintf(`{"spec": {"text": "please %d"}}`, edit))
			}
			Consistently(ctx, func() int { return zos.refusals(ctx) - tried }).WithTimeout(5*time.Second).
				Should(Equal(1), "repeated logons revoke a user ID")
		}
		attack.Repelled(secretsAndHosts, "have a user ID revoked by resources whose credential is refused", "one logon, whatever is changed or requested",
			fmt.Sprintf("%d logon: %s", zos.refusals(ctx)-tried, Condition(ctx, another, runstatus.ConditionReady)(Default).Message))
	})

	It("is tried once more when somebody asks for it", func(ctx context.Context) {
		Patch(ctx, zep.DeepCopy(), withAnnotation(endpoint.AnnotationRetry, "the user ID was resumed"))
		Eventually(ctx, func() int { return zos.refusals(ctx) - tried }).Should(Equal(2))
		for _, note := range both {
			Eventually(ctx, waitsFor(ctx, note)).Should(Equal(endpoint.ReasonCredentialRefused))
		}
		Consistently(ctx, func() int { return zos.refusals(ctx) - tried }).Should(Equal(2))
	})

	It("is not used by probes", func(ctx context.Context) {
		Patch(ctx, zep.DeepCopy(), `{"spec": {"port": 22, "host": "`+zos.name+`"}}`)
		Patch(ctx, zep.DeepCopy(), `{"spec": {"host": "`+zos.host()+`"}}`)
		Eventually(ctx, Condition(ctx, zep, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Expect(zos.refusals(ctx) - tried).To(Equal(2))
	})

	It("works as soon as the system accepts it and somebody asks", func(ctx context.Context) {
		zos.authorize(ctx, "refused", strangerKey)
		Patch(ctx, zep.DeepCopy(), withAnnotation(endpoint.AnnotationRetry, "and again"))
		for _, note := range both {
			expectSuccess(ctx, note)
			zos.readNote(ctx, note.GetName(), "please 2 hello ibmuser")
		}
		Expect(zos.refusals(ctx) - tried).To(Equal(2))
	})
}

// anyUserID is what OpenShift does to every pod: some UID, in group 0.
func anyUserID(e *environment, zos *system) {
	It("is used as in any other, also where the level restricted is enforced", attack.Label, func(ctx context.Context) {
		Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: e.namespace}}, `{"metadata": {"labels": {"`+enforced+`": "restricted"}}}`)
		deployment := &appsv1.Deployment{ObjectMeta: e.meta(notesPod)}
		before := e.operatorPod(ctx, "notes")
		Patch(ctx, deployment.DeepCopy(), `{"spec": {"template": {"spec": {"securityContext": {"runAsUser": 1000730000, "runAsGroup": 0}}}}}`)
		kubectl(ctx, "rollout", "status", "-n", e.namespace, "deployment/"+notesPod, "--timeout=3m")
		Eventually(ctx, func() types.UID { return e.operatorPod(ctx, "notes") }).ShouldNot(Equal(before))
		Expect(e.inOperator(ctx, notesPod, "id -u; id -g; id -G")).To(Equal("1000730000\n0\n0\n"))
		Expect(e.inOperator(ctx, notesPod, "ls /opt/ansible/content")).To(ContainSubstring("note.yml"))
		expectRestrictedPods(ctx, e.namespace, client.MatchingLabels{"operator-name": "notes"})

		for _, name := range []string{"plain", "encrypted", "password", "here"} {
			Patch(ctx, e.note(name, name, ""), `{"spec": {"text": "anybody"}}`)
		}
		for _, name := range []string{"plain", "encrypted", "password"} {
			zos.readNote(ctx, name, "anybody hello ibmuser")
			expectSuccess(ctx, e.note(name, name, ""))
		}
		Eventually(ctx, func() string { return e.inOperator(ctx, notesPod, "cat /tmp/note-here 2>/dev/null || true") }).Should(HavePrefix("anybody hello "))
		Expect(Condition(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("notes.credentials-lab.1.0.0-soc")}, v2beta2.ConditionReady)(Default)).To(ConditionTrue())
	})
}
