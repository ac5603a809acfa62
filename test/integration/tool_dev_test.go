package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// writeFolder writes the sample as its author has it. It replaces what is there.
func (s *sample) writeFolder(folder string) {
	GinkgoHelper()
	for name, file := range Minimal(domain, s.name, s.version, s.operatorConfig(), s.files) {
		Expect(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700)).To(Succeed())
		Expect(os.WriteFile(filepath.Join(folder, name), file.Data, 0o600)).To(Succeed())
	}
}

// ownInstance is a resource of the sample where it has an API group of its own.
func (s *sample) ownInstance(namespace, name string) *unstructured.Unstructured {
	instance := s.instance(namespace, name)
	instance.SetAPIVersion(s.name + "." + domain + "." + SharedGroup + "/" + s.apiVersion())
	return instance
}

var _ = Describe("kubectl collection dev", func() {
	It("installs a folder again after each change, also of types, and removes everything at the end", func(ctx context.Context) {
		serveTLS(ctx)
		namespace, s, folder := newNamespace(ctx), newSample(), GinkgoT().TempDir()
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{s.name + "." + domain + "." + SharedGroup}, Resources: []string{"*"}, Verbs: []string{"*"}})
		s.writeFolder(folder)
		file := filepath.Join(GinkgoT().TempDir(), "resource.yaml")
		Expect(os.WriteFile(file, []byte(fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: mine}\nspec: {zosendpoint: lpar1, size: 4}\n", SharedGroup, s.kind)), 0o600)).To(Succeed())
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
		Create(ctx, account, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "collection-operator-uploader"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: "robot"}},
		})
		args := []string{"dev", folder, "-f", file, "-n", namespace, "--manager-url=https://" + theManager.artifactAddress, "--service-account=robot"}

		By("refusing a namespace that is not for development")
		session := startTool(toolBinary(), args...)
		Eventually(ctx, session).Should(gexec.Exit(2))
		Expect(string(session.Err.Contents())).To(ContainSubstring("kubectl annotate namespace " + namespace + " zoscb.ibm.com/allow-development=true"))
		Expect(TryPatch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, `{"metadata":{"annotations":{"zoscb.ibm.com/allow-development":"true"}}}`)).To(Succeed())

		By("refusing an OperatorCollection of somebody else")
		oc := newCollection(namespace, s.name+"-dev", v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true})
		Create(ctx, oc)
		session = startTool(toolBinary(), args...)
		Eventually(ctx, session.Err).Should(gbytes.Say("was not created by this command"))
		session.Interrupt()
		Eventually(ctx, session).Should(gexec.Exit(0))
		Remove(ctx, oc)
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())

		By("installing it")
		session = startTool(toolBinary(), args...)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, namespace, s.operator())
		mine := s.ownInstance(namespace, "mine")
		Eventually(ctx, func(g Gomega) any {
			Get(ctx, g, mine)
			return mine.Object["spec"].(map[string]any)["size"]
		}).Should(BeEquivalentTo(4))
		reportRun(ctx, mine, "Succeeded", runOf("1", "Succeeded", ""))
		Eventually(ctx, session.Out).Should(gbytes.Say(`Succeeded: run 1, after 7s\nDone after .*\n\nWaiting for a change`))
		Get(ctx, Default, oc)
		Expect(oc.Spec.SkipSignatureVerification).To(BeFalse())
		uid := mine.GetUID()

		By("installing a changed playbook, which runs again")
		s.files = map[string]string{"play.yml": "- {name: Other, hosts: all, gather_facts: false, tasks: [ansible.builtin.raw: 'true']}\n"}
		before := oc.Status.Artifact.Digest
		s.writeFolder(folder)
		Eventually(ctx, Field(ctx, oc, "status", "artifact", "digest")).ShouldNot(Equal(before))
		Eventually(ctx, func(g Gomega) {
			makeAvailable(ctx, namespace, s.operator())
			g.Expect(annotationOf(ctx, mine, "zoscb.ibm.com/reconcile-requested-at")(g)).NotTo(BeEmpty())
		}).Should(Succeed())
		reportRun(ctx, mine, "Failed", runOf("2", "Failed", `"failure":{"message":"no space"},`))
		Eventually(ctx, session.Out).Should(gbytes.Say(`Failed: run 2, after 7s\n  message  no space\n`))

		By("saying what is wrong with a folder, and waiting for a repair")
		working := s.variables
		s.variables = "{name: size, displayName: Size, type: nonsense}"
		s.writeFolder(folder)
		Eventually(ctx, session.Err).Should(gbytes.Say(`operator-config.yml:\d+:\d+`))
		Expect(Condition(ctx, oc, v2beta2.ConditionReady)(Default)).To(ConditionTrue())

		By("installing it anew if the type of a variable has changed")
		s.variables = strings.Replace(working, "integer, default: 3", "string", 1)
		s.writeFolder(folder)
		Expect(os.WriteFile(file, []byte(fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: mine}\nspec: {zosendpoint: lpar1, size: large}\n", SharedGroup, s.kind)), 0o600)).To(Succeed())
		Eventually(ctx, session.Out).Should(gbytes.Say("The kinds have changed in a way that needs a new installation"))
		Eventually(ctx, session.Out).Should(gbytes.Say("Removed"))
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, namespace, s.operator())
		mine = s.ownInstance(namespace, "mine")
		Eventually(ctx, Field(ctx, mine, "spec", "size")).Should(Equal("large"))
		Get(ctx, Default, mine)
		Expect(mine.GetUID()).NotTo(Equal(uid))
		reportRun(ctx, mine, "Succeeded", runOf("3", "Succeeded", ""))
		Eventually(ctx, session.Out).Should(gbytes.Say(`Succeeded: run 3`))

		By("removing everything")
		session.Interrupt()
		Eventually(ctx, session).Should(gexec.Exit(0))
		Expect(Gone(ctx, oc)(Default)).To(BeTrue())
		crd := customResourceDefinition(s.plural() + "." + s.name + "." + domain + "." + SharedGroup)
		Eventually(ctx, Gone(ctx, crd)).Should(BeTrue())
	})
})
