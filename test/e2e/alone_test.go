//go:build e2e

package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// What is proved of the whole cluster, or by killing the manager that the other specs use.
var _ = Describe("A cluster in which nothing else happens", Serial, Label("serial"), Ordered, ContinueOnFailure, func() {
	e := &environment{namespace: "e2e-alone", domain: domain}
	zos := &system{environment: e, name: "zos1", user: "ibmuser"}
	collection := &v2beta2.OperatorCollection{ObjectMeta: e.meta("zos-files.example.1.0.0")}
	keeper := e.instance(instanceVersion, "DataFile", "keeper", map[string]any{"zosendpoint": "zos1", "filename": "keeper.txt", "lines": []any{"stay"}})
	// before lists all objects of the cluster before the collection was imported.
	var before []string

	BeforeAll(func(ctx context.Context) {
		buildArchives()
		e.start(ctx, archives)
		zos.start(ctx)
		private, public := newKey("")
		zos.authorize(ctx, "ibmuser", public)
		e.credential(ctx, "zos1", map[string]string{"username": zos.user, "ssh-privatekey": private})
		e.endpoint(ctx, "zos1", v2beta2.ZosEndpointSpec{Host: zos.host(), CredentialName: "zos1", Variables: Variables(
			`"zos_files_base=/home/ibmuser/files"`, `"ansible_python_interpreter: /usr/bin/python3"`,
		)})
		before = listObjects(ctx, e.namespace)
		e.install(ctx, collection.Name, "files.tar.gz", archives["files.tar.gz"])
		Create(ctx, keeper.DeepCopy())
		expectSuccess(ctx, keeper)
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("has no writes but those of Leases", func(ctx context.Context) {
		expectIdle(ctx, idleTime(), "system:serviceaccount:"+e.namespace+":example-zos-files-operator")
	})

	It("has an installation finished in whose middle the manager was killed", func(ctx context.Context) { e.finishAfterCrash(ctx) })

	It("is as it was once a collection was deleted with its resources", func(ctx context.Context) {
		Remove(ctx, collection.DeepCopy())
		Eventually(ctx, Gone(ctx, collection)).WithTimeout(RemovalTimeout).Should(BeTrue())
		Eventually(ctx, Gone(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(collection.Name + "-soc")})).Should(BeTrue())
		Expect(zos.shell(ctx, "ls /home/ibmuser/files")).NotTo(ContainSubstring("keeper.txt"))
		Eventually(ctx, func(g Gomega) {
			after := listObjects(ctx, e.namespace)
			g.Expect(slices.DeleteFunc(slices.Clone(after), in(before))).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(before), in(after))).To(BeEmpty(), "gone too")
		}).Should(Succeed())
	})
})

// finishAfterCrash kills the manager while it installs a collection.
func (e *environment) finishAfterCrash(ctx context.Context) {
	second := &v2beta2.OperatorCollection{ObjectMeta: e.meta("second.example.1.0.0"), Spec: e.spec("second.tar.gz", archives["second.tar.gz"])}
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(second.Name + "-soc")}
	deployment := &appsv1.Deployment{ObjectMeta: e.meta("example-second-operator")}
	Create(ctx, second)
	// The inventory is written before the first object of the installation.
	Eventually(ctx, func(g Gomega) []any {
		inventory, _, err := unstructured.NestedSlice(Live(ctx, g, soc).Object, "status", "inventory")
		g.Expect(err).NotTo(HaveOccurred())
		return inventory
	}).WithPolling(20 * time.Millisecond).ShouldNot(BeEmpty())
	killManager(ctx)
	Expect(Condition(ctx, second, v2beta2.ConditionReady)(Default)).NotTo(ConditionTrue(), "the kill came too late")

	printed, err := Output(ctx, kubectlPath(), "wait", "-n", e.namespace, "--for=condition=Ready", "--timeout=3m", "operatorcollection/"+second.Name)
	Expect(err).NotTo(HaveOccurred(), printed)
	live := &appsv1.Deployment{}
	Expect(K8s.Get(ctx, client.ObjectKeyFromObject(deployment), live)).To(Succeed())
	Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))

	Remove(ctx, second)
	for _, object := range []client.Object{second, soc, deployment} {
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
	}
}
