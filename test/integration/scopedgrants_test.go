package integration

import (
	"context"

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
		Eventually(ctx, lacking(ctx, defaultSOC(oc))).Should(ContainSubstring("batch/jobs: create in namespace " + namespace))
		roles := applyManifestOf(ctx, lacking(ctx, defaultSOC(oc))(Default))
		Expect(roles).To(HaveEach(HaveField("Labels", Equal(map[string]string{"zoscb.ibm.com/grant": "true"}))), "no aggregation")
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(soon).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Expect(warningsOf(ctx, defaultSOC(oc))(Default)).To(BeEmpty())
		Expect(may(ctx, managerUser, namespace, "create", "jobs", "batch")).To(BeTrue())
		Expect(may(ctx, managerUser, other, "create", "jobs", "batch")).To(BeFalse())

		By("a second tenant with another collection, and with the same one, that ask for the same")
		rival := newSample()
		rival.permissions = s.permissions
		theirs := importSample(ctx, other, rival)
		Eventually(ctx, lacking(ctx, defaultSOC(theirs))).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+other), ContainSubstring("/version: get")))
		same := newCollection(other, "same", s.pinned())
		Create(ctx, same)
		Eventually(ctx, lacking(ctx, defaultSOC(same))).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+other), ContainSubstring("/version: get")))
		Expect(Gone(ctx, deployment(other, s.operator()))(Default)).To(BeTrue())
		Expect(Gone(ctx, deployment(other, rival.operator()))(Default)).To(BeTrue())
		attack.Repelled("Permissions", "ask for what was granted to another tenant's collection, with a collection of one's own and with the same one",
			"PermissionsNotGranted: a grant is for one collection of one namespace", seen(ctx, defaultSOC(same)))

		By("the granted collection, in a namespace that the grant does not name")
		third := newNamespace(ctx)
		allowMapping(ctx, third, namespace)
		more := newSOC(namespace, "more", "oc", mapTo(third)...)
		Create(ctx, more)
		Eventually(ctx, lacking(ctx, more)).Should(And(
			ContainSubstring("batch/jobs: create in namespace "+third), Not(ContainSubstring("/version"))))
		applyManifestOf(ctx, lacking(ctx, more)(Default))
		Eventually(ctx, Gone(ctx, deployment(third, s.operator()))).WithTimeout(soon).Should(BeFalse())
	})

	It("that names one namespace does not give what the manager holds for itself in others", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "roles: [{apiGroups: [''], resources: [configmaps], verbs: [delete]}]"
		oc := importSample(ctx, namespace, s)
		Eventually(ctx, lacking(ctx, defaultSOC(oc))).Should(ContainSubstring("configmaps: delete in namespace " + namespace))
		applyManifestOf(ctx, lacking(ctx, defaultSOC(oc))(Default))
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(soon).Should(BeFalse())
		s.version, s.permissions = "1.1.0", "clusterRoles: [{apiGroups: [''], resources: [configmaps], verbs: [delete]}]"
		changeSpec(ctx, oc, s.pinned())
		Eventually(ctx, lacking(ctx, defaultSOC(oc))).Should(ContainSubstring("configmaps: delete in the whole cluster"))
		attack.Repelled("Permissions", "have a permission that was granted in one namespace in the whole cluster, with the next version",
			"PermissionsNotGranted: a grant counts only in the namespaces that it names", seen(ctx, defaultSOC(oc)))
	})

	It("may be for one archive: the next one waits, and what runs goes on", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Eventually(ctx, lacking(ctx, soc)).Should(ContainSubstring("/version: get"))
		role := applyManifestOf(ctx, lacking(ctx, soc)(Default))[0]
		first := DigestOf(s.archive())
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-digest":"`+first+`"}}}`)
		Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(soon).Should(BeFalse())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator() + "-runtime"}}
		Get(ctx, Default, config)

		s.version = "1.1.0"
		changeSpec(ctx, oc, s.pinned())
		second := DigestOf(s.archive())
		Eventually(ctx, lacking(ctx, soc)).Should(And(
			ContainSubstring("ClusterRole %q is a grant for the archive %s only, and this one is %s", role.Name, first, second),
			ContainSubstring("zoscb.ibm.com/grant-digest: %q", second)))
		running := config.DeepCopy()
		Get(ctx, Default, running)
		Expect(running.Data).To(Equal(config.Data), "the old version runs")
		Get(ctx, Default, soc)
		Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", first)))

		By("granting them to the next one too")
		applyManifestOf(ctx, lacking(ctx, soc)(Default))
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(HaveField("Digest", second)))
		}).WithTimeout(soon).Should(Succeed())
	})

	It("counts for nothing if its scope is not valid, and the message names it", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		Eventually(ctx, lacking(ctx, soc)).Should(ContainSubstring("/version: get"))
		message := lacking(ctx, soc)(Default)
		role := applyManifestOf(ctx, message)[0]
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-namespace":"*"}}}`)
		Eventually(ctx, lacking(ctx, soc)).WithTimeout(soon).Should(
			ContainSubstring("ClusterRole %q is not a valid grant, and counts for nothing: annotation zoscb.ibm.com/grant-namespace: \"*\"", role.Name))
		Patch(ctx, role, `{"metadata":{"annotations":{"zoscb.ibm.com/grant-namespace":"`+namespace+`"}}}`)
		Eventually(ctx, func(g Gomega) {
			g.Expect(Condition(ctx, soc, v2beta2.ConditionReady)(g)).NotTo(WithReason(v2beta2.ReasonPermissionsNotGranted))
		}).WithTimeout(soon).Should(Succeed())
	})

	It("replaces one for all collections, which goes on with a warning until it is forbidden", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		oc := importSample(ctx, namespace, s)
		soc := defaultSOC(oc)
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Eventually(ctx, warningsOf(ctx, soc)).Should(ConsistOf(And(
			ContainSubstring("zoscb.ibm.com/aggregate-to-grants=true, give /version: get in the whole cluster"),
			ContainSubstring("collection it/%s of namespace %s", s.name, namespace))))
		unneeded := newSample()
		beside := newNamespace(ctx)
		installSample(ctx, beside, unneeded)
		Expect(warningsOf(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: beside, Name: "oc-soc"}})(Default)).To(BeEmpty())

		By("forbidding them")
		theManager.restart(ctx, append([]string{requireScoped}, usualFlags...)...)
		Eventually(ctx, lacking(ctx, soc)).Should(ContainSubstring("/version: get in the whole cluster"))
		Expect(Gone(ctx, deployment(namespace, s.operator()))(Default)).To(BeFalse(), "what is installed stays")

		By("granting it to this collection")
		applyManifestOf(ctx, lacking(ctx, soc)(Default))
		Eventually(ctx, warningsOf(ctx, soc)).WithTimeout(soon).Should(BeEmpty())
		ExpectReady(ctx, oc)
	})
})
