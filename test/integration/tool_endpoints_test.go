package integration

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// reportWaiting writes the status of a resource whose run waits, as the gate does.
func reportWaiting(ctx context.Context, object client.Object) {
	GinkgoHelper()
	status := `{"phase":"Waiting","waiting":{"reason":"EndpointBusy","message":"it waits","since":"2026-11-22T09:00:00Z"}}`
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/status","value":`+status+`}]`))
	Expect(K8s.Status().Patch(ctx, object, patch)).To(Succeed())
}

var _ = Describe("kubectl collection endpoints", func() {
	It("shows the state of ZosEndpoints, and counts runs", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		server := startSSHServer()
		lpar1, lpar2 := newEndpoint(namespace, "lpar1", server), newEndpoint(namespace, "lpar2", server)
		lpar1.Spec.MaxConcurrentRuns, lpar2.Spec.MaxConcurrentRuns = ptr.To[int32](3), ptr.To[int32](2)
		lpar2.Spec.Hold = "IPL on Sunday"
		Create(ctx, lpar1, lpar2)
		installSample(ctx, namespace, s)
		instances := createInstances(ctx, namespace, s, "ended", "new", "running", "waiting")
		reportRun(ctx, instances[0], "Succeeded", runOf("1", "Succeeded", `"user":"ibmuser",`))
		reportRun(ctx, instances[2], "Running", runOf("2", "", ""))
		reportWaiting(ctx, instances[3])
		Eventually(ctx, Condition(ctx, lpar1, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Eventually(ctx, Condition(ctx, lpar2, v2beta2.ConditionReachable)).Should(ConditionTrue())

		out := runTool(ctx, 0, binary, "endpoints", "-n", namespace)
		Expect(out).To(MatchRegexp(`^NAME +HOST +REACHABLE +LATENCY +KEY +USER +REFUSED +QUEUE +RUNNING +WINDOW +HOLD\n`))
		Expect(out).To(MatchRegexp(`(?m)^lpar1 +%s +True, \S+ +\S+ +SHA256:\S{43} +ibmuser +- +1 +1/2 +always +-$`, server.address()))
		Expect(out).To(MatchRegexp(`(?m)^lpar2 +%s +True, \S+ +\S+ +SHA256:\S{43} +- +- +0 +0/2 +always +IPL on Sunday$`, server.address()))
		Expect(runTool(ctx, 0, binary, "endpoints", "-A")).To(MatchRegexp(`(?m)^%s +lpar2 `, namespace))

		By("one of them, as JSON")
		var report struct {
			Endpoints []struct {
				Name                  string
				Queue, Running, Limit int
			}
		}
		Expect(json.Unmarshal([]byte(runTool(ctx, 0, binary, "endpoints", "lpar1", "-n", namespace, "-o", "json")), &report)).To(Succeed())
		Expect(report.Endpoints).To(HaveExactElements(And(
			HaveField("Name", "lpar1"), HaveField("Queue", 1), HaveField("Running", 1), HaveField("Limit", 2))))

		By("for users who may not list everything")
		allow(ctx, namespace, "endpoint-reader", rbacv1.PolicyRule{
			APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"zosendpoints"}, Verbs: []string{"list"},
		})
		Eventually(ctx, func(g Gomega) {
			session := startTool(binary, "endpoints", "-n", namespace, "--as=endpoint-reader")
			g.Eventually(ctx, session).Should(gexec.Exit(0))
			g.Expect(string(session.Err.Contents())).To(Equal("runs are not counted: you may not list OperatorCollections in namespace " + namespace + "\n"))
			g.Expect(string(session.Out.Contents())).To(MatchRegexp(`(?m)^lpar1 .* 0 +0/2 +always`))
		}).Should(Succeed())
		runTool(ctx, 2, binary, "endpoints", "-n", namespace, "--as=nobody")
		runTool(ctx, 2, binary, "endpoints", "absent", "-n", namespace)
	})
})
