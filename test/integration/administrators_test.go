package integration

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var _ = Describe("The policy administrators-only", func() {
	It("keeps from users what the Operator Lifecycle Manager gives them", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		DeferCleanup(func(ctx context.Context) {
			// Other specs look at what the roles hold; admin holds what edit holds.
			Eventually(ctx, func() bool { return may(ctx, "a-admin", namespace, "create", "zosendpoints", "zoscb.ibm.com") }).Should(BeFalse())
		})
		kinds := []string{"operatorcollections", "suboperatorconfigs", "zosendpoints"}
		for role, verbs := range map[string][]string{"edit": {"create", "update", "patch", "delete"}, "admin": {"*"}} {
			// As it makes them for each kind that an operator owns.
			extension := &rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + role, Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-" + role: "true"}},
				Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"zoscb.ibm.com"}, Resources: kinds, Verbs: verbs}},
			}
			Create(ctx, extension)
			DeferCleanup(func(ctx context.Context) { Remove(ctx, extension) })
			bind(ctx, namespace, role, "a-"+role)
		}
		editor, admin, administrator := as("a-edit"), as("a-admin"), as("an-administrator")
		dryRun := func(user client.Client) error {
			return user.Create(ctx, newEndpoint(namespace, "theirs", &sshServer{host: "lpar.example.com"}), client.DryRunAll)
		}
		Eventually(ctx, func() error { return errors.Join(dryRun(editor), dryRun(admin)) }).Should(Succeed())

		applyFile(ctx, "../../config/components/administrators-only/policy.yaml")
		beForbidden := MatchError(And(ContainSubstring("only administrators may change"), ContainSubstring("collection-operator-administrator")))
		Eventually(ctx, func() error { return dryRun(editor) }).Should(beForbidden)
		refusal := dryRun(admin)
		Expect(refusal).To(beForbidden)
		attack.Repelled("Permissions", "create a ZosEndpoint with the roles that the Operator Lifecycle Manager extends, where the policy administrators-only is installed",
			"the API server refuses it", firstOf(refusal.Error()))

		By("letting administrators and the manager work")
		bind(ctx, namespace, "collection-operator-administrator", "an-administrator")
		Eventually(ctx, func() error { return dryRun(administrator) }).Should(Succeed())
		oc := newCollection(namespace, "oc", s.pinned())
		Expect(administrator.Create(ctx, oc)).To(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)

		By("forbidding others to change or delete what is there")
		Expect(admin.Delete(ctx, oc)).To(beForbidden)
		Expect(admin.Patch(ctx, oc, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`)))).To(beForbidden)

		By("forbidding others to abandon resources")
		instance := s.instance(namespace, "one")
		instance.SetFinalizers([]string{operatorsFinalizer})
		Create(ctx, instance)
		attempt := func(user client.Client, patch string) error {
			return user.Patch(ctx, instance.DeepCopy(), merge(patch), client.DryRunAll)
		}
		operator := as("system:serviceaccount:" + namespace + ":" + s.operator())
		for _, patch := range []string{annotations(toAbandon), annotations(toRunNow), `{` + unfinished + `}`} {
			Eventually(ctx, func() error { return attempt(editor, patch) }).
				Should(MatchError(ContainSubstring("only administrators may set annotations zoscb.ibm.com/abandon")), patch)
			Expect(attempt(operator, patch)).To(Succeed(), patch)
		}
		Expect(attempt(editor, `{"metadata":{"labels":{"mine":"yes"}}}`)).To(Succeed())
		bind(ctx, namespace, "collection-operator-kinds-edit", "an-administrator")
		Eventually(ctx, func() error { return attempt(administrator, annotations(toAbandon)) }).Should(Succeed())
		Patch(ctx, instance, `{`+unfinished+`}`)
		Remove(ctx, instance)

		By("letting the garbage collector follow the administrator")
		soc := defaultSOC(oc)
		Get(ctx, Default, soc)
		Expect(administrator.Delete(ctx, oc)).To(Succeed())
		Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
	})
})

// bind gives a user a ClusterRole in a namespace.
func bind(ctx context.Context, namespace, role, user string) {
	GinkgoHelper()
	Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

// applyFile creates the objects in a file, and removes them when the spec ends.
func applyFile(ctx context.Context, path string) {
	GinkgoHelper()
	content, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			Expect(err).NotTo(HaveOccurred())
		}
		Create(ctx, object)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, object) })
	}
}
