package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// requireScoped makes the manager ignore grants for all collections.
const requireScoped = "--require-scoped-grants"

// warningsOf a SubOperatorConfig.
// jobsPermission is a collection's request that only a grant fulfils.
const jobsPermission = "roles: [{apiGroups: [batch], resources: [jobs], verbs: [create]}]"

var _ = Describe("A grant for one collection", func() {
	It("is for nobody else, and the manager holds it only in its namespace", attack.Label, func(ctx context.Context) {
		namespace, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		s.permissions = jobsPermission + "\nclusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		oc := importSample(ctx, namespace, s)
		Eventually(lacking(ctx, defaultSOC(oc))).WithContext(ctx).Should(ContainSubstring("batch/jobs: create in namespace " + namespace))
		roles := applyManifestOf(ctx, lacking(ctx, defaultSOC(oc))(NewWithT(GinkgoT())))
		Expect(roles).To(HaveEach(HaveField("Labels", Equal(map[string]string{"zoscb.ibm.com/grant": "true"}))), "no aggregation")
		Eventually(Gone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(soon).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(warningsOf(ctx, defaultSOC(oc))(NewWithT(GinkgoT()))).To(BeEmpty())
		Expect(may(ctx, managerUser, namespace, "create", "jobs", "batch")).To(BeTrue())
		Expect(may(ctx, managerUser, other, "create", "jobs", "batch")).To(BeFalse())

		By("a second tenant with another collection, and with the same one, that ask for the same")
		rival := newSample()
		rival.permissions = s.permissions
		theirs := importSample(ctx, other, rival)
		Eventually(lacking(ctx, defaultSOC(theirs))).WithContext(ctx).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+other), ContainSubstring("/version: get")))
		same := newCollection(other, "same", s.pinned())
		Create(ctx, same)
		Eventually(lacking(ctx, defaultSOC(same))).WithContext(ctx).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+other), ContainSubstring("/version: get")))
		Expect(Gone(ctx, deployment(other, s.operator()))(NewWithT(GinkgoT()))).To(BeTrue())
		Expect(Gone(ctx, deployment(other, rival.operator()))(NewWithT(GinkgoT()))).To(BeTrue())
		attack.Repelled("Permissions", "ask for what was granted to another tenant's collection, with a collection of one's own and with the same one",
			"PermissionsNotGranted: a grant is for one collection of one namespace", seen(ctx, defaultSOC(same)))

		By("the granted collection, in a namespace that the grant does not name")
		third := newNamespace(ctx)
		allowMapping(ctx, third, namespace)
		more := newSOC(namespace, "more", "oc", mapTo(third)...)
		Create(ctx, more)
		Eventually(lacking(ctx, more)).WithContext(ctx).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+third), Not(ContainSubstring("/version"))))
		applyManifestOf(ctx, lacking(ctx, more)(NewWithT(GinkgoT())))
		Eventually(Gone(ctx, deployment(third, s.operator()))).WithContext(ctx).WithTimeout(soon).Should(BeFalse())
	}, NodeTimeout(3*time.Minute))

	It("that names one namespace does not give what the manager holds for itself in others", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "roles: [{apiGroups: [''], resources: [configmaps], verbs: [delete]}]"
		oc := importSample(ctx, namespace, s)
		Eventually(lacking(ctx, defaultSOC(oc))).WithContext(ctx).Should(ContainSubstring("configmaps: delete in namespace " + namespace))
		applyManifestOf(ctx, lacking(ctx, defaultSOC(oc))(NewWithT(GinkgoT())))
		Eventually(Gone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(soon).Should(BeFalse())
		s.version, s.permissions = "1.1.0", "clusterRoles: [{apiGroups: [''], resources: [configmaps], verbs: [delete]}]"
		changeSpec(ctx, oc, s.pinned())
		Eventually(lacking(ctx, defaultSOC(oc))).WithContext(ctx).Should(ContainSubstring("configmaps: delete in the whole cluster"))
		attack.Repelled("Permissions", "have a permission that was granted in one namespace in the whole cluster, with the next version",
			"PermissionsNotGranted: a grant counts only in the namespaces that it names", seen(ctx, defaultSOC(oc)))
	}, NodeTimeout(2*time.Minute))

	It("may be for one archive: the next one waits, and what runs goes on", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Eventually(lacking(ctx, soc)).WithContext(ctx).Should(ContainSubstring("/version: get"))
		role := applyManifestOf(ctx, lacking(ctx, soc)(NewWithT(GinkgoT())))[0]
		first := DigestOf(s.archive())
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-digest":"`+first+`"}}}`)
		Eventually(Gone(ctx, deployment(namespace, s.operator()))).WithContext(ctx).WithTimeout(soon).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-runtime"}}
		Get(ctx, NewWithT(GinkgoT()), config)

		s.version = "1.1.0"
		changeSpec(ctx, oc, s.pinned())
		second := DigestOf(s.archive())
		Eventually(lacking(ctx, soc)).WithContext(ctx).Should(And(
			ContainSubstring("ClusterRole %q is a grant for the archive %s only, and this one is %s", role.Name, first, second),
			ContainSubstring("zoscb.ibm.com/grant-digest: %q", second)))
		running := config.DeepCopy()
		Get(ctx, NewWithT(GinkgoT()), running)
		Expect(running.Data).To(Equal(config.Data), "the old version runs")
		Get(ctx, NewWithT(GinkgoT()), soc)
		Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", first)))

		By("granting them to the next one too")
		applyManifestOf(ctx, lacking(ctx, soc)(NewWithT(GinkgoT())))
		Eventually(func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", second)))
		}).WithContext(ctx).WithTimeout(soon).Should(Succeed())
	}, NodeTimeout(2*time.Minute))

	It("counts for nothing if its scope is not valid, and the message names it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Eventually(lacking(ctx, soc)).WithContext(ctx).Should(ContainSubstring("/version: get"))
		message := lacking(ctx, soc)(NewWithT(GinkgoT()))
		role := applyManifestOf(ctx, message)[0]
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-namespace":"*"}}}`)
		Eventually(lacking(ctx, soc)).WithContext(ctx).WithTimeout(soon).Should(
			ContainSubstring("ClusterRole %q is not a valid grant, and counts for nothing: annotation zoscb.ibm.com/grant-namespace: \"*\"", role.Name))
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-namespace":"`+namespace+`"}}}`)
		Eventually(func(g Gomega) {
			g.Expect(Condition(ctx, soc, v2beta2.ConditionReady)(g)).NotTo(WithReason(v2beta2.ReasonPermissionsNotGranted))
		}).WithContext(ctx).WithTimeout(soon).Should(Succeed())
	}, NodeTimeout(2*time.Minute))

	It("replaces one for all collections, which goes on with a warning until it is forbidden", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Eventually(warningsOf(ctx, soc)).WithContext(ctx).Should(ConsistOf(And(
			ContainSubstring("zoscb.ibm.com/aggregate-to-grants=true, give /version: get in the whole cluster"),
			ContainSubstring("collection it/%s of namespace %s", s.name, namespace))))
		unneeded := newSample()
		beside := newNamespace(ctx)
		installSample(ctx, beside, unneeded)
		Expect(warningsOf(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: beside, Name: "oc-soc"}})(NewWithT(GinkgoT()))).To(BeEmpty())

		By("forbidding them")
		theManager.restart(ctx, append([]string{requireScoped}, usualFlags...)...)
		Eventually(lacking(ctx, soc)).WithContext(ctx).Should(ContainSubstring("/version: get in the whole cluster"))
		Expect(Gone(ctx, deployment(namespace, s.operator()))(NewWithT(GinkgoT()))).To(BeFalse(), "what is installed stays")

		By("granting it to this collection")
		applyManifestOf(ctx, lacking(ctx, soc)(NewWithT(GinkgoT())))
		Eventually(warningsOf(ctx, soc)).WithContext(ctx).WithTimeout(soon).Should(BeEmpty())
		ExpectReady(ctx, oc)
	}, NodeTimeout(3*time.Minute))
})
