//go:build e2e

package e2e

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// What is proved of the whole cluster.
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

	It("is as it was once a collection was deleted with its resources", func(ctx context.Context) {
		Remove(ctx, collection.DeepCopy())
		Eventually(ctx, Gone(ctx, collection)).Should(BeTrue())
		Eventually(ctx, Gone(ctx, &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(collection.Name + "-soc")})).Should(BeTrue())
		Expect(zos.shell(ctx, "ls /home/ibmuser/files")).NotTo(ContainSubstring("keeper.txt"))
		Eventually(ctx, func(g Gomega) {
			after := listObjects(ctx, e.namespace)
			g.Expect(slices.DeleteFunc(slices.Clone(after), in(before))).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(before), in(after))).To(BeEmpty(), "gone too")
		}).Should(Succeed())
	})
})
