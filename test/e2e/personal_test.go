//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func personalSpecs() {
	It("never uses a shared credential where personal ones are asked for", attack.Label, func(ctx context.Context) {
		second := operatorCollection("second.example.1.0.0", pinned("second.tar.gz"))
		soc := &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Name: second.Name + "-soc", Namespace: namespace},
			Spec: v2beta2.SubOperatorConfigSpec{
				OperatorCollection: second.Name,
				CredentialType:     v2beta2.CredentialPersonal,
				Mapping:            []v2beta2.NamespaceMapping{{Namespace: namespace}},
			},
		}
		Create(ctx, soc, second)
		printed, err := kubectlWait(ctx, "suboperatorconfig/"+soc.Name, "4m")
		Expect(err).NotTo(HaveOccurred(), printed)
		thing := instance("SecondThing", "thing", map[string]any{"zosendpoint": lpar2.name})
		Create(ctx, thing.DeepCopy())
		Eventually(ctx, waitsFor(ctx, thing)).Should(Equal(endpoint.Reason("PersonalCredentialMissing")))
		Expect(lastRun(ctx, thing)(Default).ID).To(BeEmpty())
		attack.Repelled(secretsAndHosts, "run with a shared credential where personal ones are asked for", "the run waits for a personal credential",
			Condition(ctx, thing, "Ready")(Default).Message)

		Remove(ctx, thing.DeepCopy())
		Eventually(ctx, Gone(ctx, thing)).Should(BeTrue(), "the kind has no finalizer playbook")
		Remove(ctx, second)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})
}

const (
	diaryVersion = "v1minor0patch0"
	diaryPod     = "personal-lab-diary-operator"
)

// diaryCollection writes to the endpoint what a run finds in its pod while that of another user runs.
func diaryCollection() fs.FS {
	return Folder(map[string]string{
		"galaxy.yml": "{namespace: personal_lab, name: diary, version: 1.0.0, readme: README.md, authors: [e2e]}",
		"README.md":  "# diary\n",
		"operator-config.yml": `
domain: personal-lab
name: diary
version: 1.0.0
displayName: Diary
resources:
  - kind: Diary
    playbook: write.yml
    finalizer: burn.yml
  - kind: DiarySearch
    playbook: search.yml
`,
		"search.yml": `
- name: Make resources for diaries that exist
  hosts: all
  gather_facts: false
  tasks:
    - name: Choose whose credential is used
      kubernetes.core.k8s:
        definition:
          apiVersion: "{{ k8s_cr_version }}"
          kind: Diary
          metadata: {name: chosen, namespace: "{{ ansible_operator_meta.namespace }}", annotations: {zoscb.ibm.com/credential: bob}}
          spec: {zosendpoint: "{{ zosendpoint }}"}
      delegate_to: localhost
      register: refused
      failed_when: false
    - name: Leave that to a user
      kubernetes.core.k8s:
        definition:
          apiVersion: "{{ k8s_cr_version }}"
          kind: Diary
          metadata: {name: found, namespace: "{{ ansible_operator_meta.namespace }}"}
          spec: {zosendpoint: "{{ zosendpoint }}"}
      delegate_to: localhost
    - name: Tell the answer
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status: {answer: "{{ refused.msg | default('none') }}"}
      delegate_to: localhost
`,
		"write.yml": `
- name: Write a diary
  hosts: all
  gather_facts: false
  tasks:
    - name: Wait for the other user
      ansible.builtin.raw: "umask 077; id -un >/tmp/diary-$(id -un); while [ $(ls /tmp/diary-alice /tmp/diary-bob 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.2; done"
    - name: Write what is found
      ansible.builtin.copy:
        content: "{{ lookup('ansible.builtin.pipe', 'cat $ZOSCB_ENDPOINTS_DIR/*') }}"
        dest: "/tmp/found-{{ ansible_operator_meta.name }}"
        mode: "0600"
      no_log: true
    - name: Wait until the other user has looked
      ansible.builtin.raw: "while [ $(ls /tmp/found-alice /tmp/found-bob 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.2; done"
`,
		"burn.yml": `
- name: Burn a diary
  hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: "id -un >/tmp/burnt-{{ ansible_operator_meta.name }}"
`,
	})
}

// addUser adds an account to a system, which only the key lets in once the server has read its configuration again.
func (s *system) addUser(ctx context.Context, user, public string) {
	GinkgoHelper()
	s.shell(ctx, fmt.Sprintf(`useradd --create-home --shell /bin/sh %[1]s
usermod --password '*' %[1]s
cat >/run/ssh-target/keys-of-%[1]s <<'END'
%[2]sEND
sed -i 's/^AllowUsers /&%[1]s /' /run/ssh-target/sshd_config
printf 'Match User %[1]s\nAuthorizedKeysFile /run/ssh-target/keys-of-%[1]s\n' >>/run/ssh-target/sshd_config`, user, public))
}

var _ = Describe("A personal credential", Ordered, ContinueOnFailure, func() {
	e := &environment{namespace: "e2e-personal", domain: "personal-lab"}
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	users, keys := []string{"alice", "bob"}, map[string]string{}

	BeforeAll(func(ctx context.Context) {
		archives := archivesOf(map[string]fs.FS{"diary.tar.gz": diaryCollection()})
		e.start(ctx, archives)
		zos.start(ctx)
		for _, user := range users {
			private, public := newKey("")
			keys[user] = keyLine(private)
			zos.addUser(ctx, user, public)
			e.credential(ctx, user, map[string]string{"username": user, "ssh-privatekey": private})
			Create(ctx, &rbacv1.Role{ObjectMeta: e.meta(user), Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{SharedGroup}, Resources: []string{"diarys", "diarysearchs"}, Verbs: []string{"*"}},
				{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{user}, Verbs: []string{"get"}},
			}}, &rbacv1.RoleBinding{
				ObjectMeta: e.meta(user), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			})
		}
		zos.shell(ctx, "kill -HUP 1")
		shared, sharedKey := newKey("")
		zos.authorize(ctx, "shared", sharedKey)
		e.credential(ctx, "shared", map[string]string{"username": "ibmuser", "ssh-privatekey": shared})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "shared"})
		soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta("diary.personal-lab.1.0.0-soc"), Spec: v2beta2.SubOperatorConfigSpec{
			OperatorCollection: "diary.personal-lab.1.0.0", CredentialType: v2beta2.CredentialPersonal,
			Mapping: []v2beta2.NamespaceMapping{{Namespace: e.namespace}},
		}}
		Create(ctx, soc)
		e.installSpec(ctx, "diary.personal-lab.1.0.0", e.spec("diary.tar.gz", archives["diary.tar.gz"]))
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("lets two users log on with their own keys, which no other run has", attack.Label, func(ctx context.Context) {
		for _, user := range users {
			diary := e.instance(diaryVersion, "Diary", user, map[string]any{"zosendpoint": "zos1"})
			diary.SetAnnotations(map[string]string{endpoint.AnnotationCredential: user})
			Eventually(ctx, func() error { return As(user).Create(ctx, diary.DeepCopy()) }).Should(Succeed())
		}
		for _, user := range users {
			expectSuccess(ctx, e.instance(diaryVersion, "Diary", user, nil))
			Expect(zos.shell(ctx, "stat -c %U /tmp/found-"+user)).To(Equal(user + "\n"))
		}
		for user, other := range map[string]string{"alice": "bob", "bob": "alice"} {
			Expect(zos.shell(ctx, "cat /tmp/found-"+user)).To(And(ContainSubstring(keys[user]), Not(ContainSubstring(keys[other]))))
		}
		attack.Repelled(secretsAndHosts, "read the files of a run while another user's runs", "the run has only its own key", "neither key was found in the other run")
	})

	It("is left nowhere in the pod", attack.Label, func(ctx context.Context) {
		search := "grep -rlF -e '" + keys["alice"] + "' -e '" + keys["bob"] + "' /etc/zoscb /tmp /opt/ansible 2>/dev/null || true; ls -A /opt/ansible/home/zoscb/p"
		Expect(strings.TrimSpace(e.inOperator(ctx, diaryPod, search))).To(BeEmpty())
		Expect(e.inOperator(ctx, diaryPod, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")).NotTo(ContainSubstring("[mux]"), "connections end with the run")
	})

	It("is not chosen by a discovery playbook, but by the user of what that creates", attack.Label, func(ctx context.Context) {
		search := e.instance(diaryVersion, "DiarySearch", "search", map[string]any{"zosendpoint": "zos1"})
		search.SetAnnotations(map[string]string{endpoint.AnnotationCredential: "alice"})
		Expect(As("alice").Create(ctx, search.DeepCopy())).To(Succeed())
		expectSuccess(ctx, search)
		answer := fmt.Sprint(Field(ctx, search, "status", "answer")(Default))
		Expect(answer).To(ContainSubstring("an operator must not choose or use the credential of a user"))
		attack.Repelled(secretsAndHosts, "choose a user's credential in a discovery playbook", "the API server refuses it", answer)
		Expect(Gone(ctx, e.instance(diaryVersion, "Diary", "chosen", nil))(Default)).To(BeTrue())

		found := e.instance(diaryVersion, "Diary", "found", nil)
		Eventually(ctx, waitsFor(ctx, found)).Should(Equal(endpoint.Reason("PersonalCredentialMissing")))
		mine := fmt.Sprintf(`{"metadata":{"annotations":{%q:"bob"}}}`, endpoint.AnnotationCredential)
		Expect(As("bob").Patch(ctx, found.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(mine)))).To(Succeed())
		expectSuccess(ctx, found)
		Expect(zos.shell(ctx, "stat -c %U /tmp/found-found")).To(Equal("bob\n"))
	})

	It("cannot be used by another user, and is used to delete the resource", attack.Label, func(ctx context.Context) {
		ofAlice := e.instance(diaryVersion, "Diary", "alice", nil)
		refused := As("bob").Patch(ctx, ofAlice.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"zosendpoint":"other"}}`)))
		Expect(refused).To(MatchError(ContainSubstring("you need the permission to get secrets alice")))
		attack.Repelled(secretsAndHosts, "change the resource of another user, so that it runs elsewhere with their key", "the API server refuses it", refused.Error())
		Expect(As("bob").Delete(ctx, ofAlice.DeepCopy())).To(Succeed())
		Eventually(ctx, Gone(ctx, ofAlice)).Should(BeTrue())
		Expect(zos.shell(ctx, "cat /tmp/burnt-alice")).To(Equal("alice\n"))
	})
})
