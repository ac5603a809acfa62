package integration

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	"github.com/onsi/gomega/gexec"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	requestedAt     = "zoscb.ibm.com/reconcile-requested-at"
	cancelRequested = "zoscb.ibm.com/cancel-requested"
)

// toolBinary is kubectl-collection.
func toolBinary() string { return filepath.Join(binaries, "kubectl-collection") }

// startTool starts the tool. The session ends with the spec.
func startTool(binary string, args ...string) *gexec.Session {
	GinkgoHelper()
	session, err := gexec.Start(exec.Command(binary, args...), GinkgoWriter, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { session.Kill().Wait() })
	return session
}

// runTool returns what the tool printed, and expects its exit code.
func runTool(ctx context.Context, code int, binary string, args ...string) string {
	GinkgoHelper()
	session := startTool(binary, args...)
	Eventually(ctx, session).Should(gexec.Exit(code), "%v", args)
	return string(session.Out.Contents())
}

// reportRun writes a resource's status as the gate does. run is lastRun in JSON.
func reportRun(ctx context.Context, object client.Object, phase, run string) {
	GinkgoHelper()
	ready := "False"
	if phase == "Succeeded" || phase == "Outdated" {
		ready = "True"
	}
	status := `{"phase":"` + phase + `","conditions":[{"type":"Ready","status":"` + ready + `","reason":"` + phase +
		`","message":"the message","lastTransitionTime":"2026-11-22T09:00:00Z"}],"lastRun":` + run + `}`
	patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"add","path":"/status","value":`+status+`}]`))
	Expect(K8s.Status().Patch(ctx, object, patch)).To(Succeed())
}

// runOf is a run in JSON. An empty outcome means that it has not ended.
func runOf(id, outcome, more string) string {
	if outcome != "" {
		outcome = `"outcome":"` + outcome + `","finished":"2026-11-22T09:10:07Z",`
	}
	return `{"id":"` + id + `","event":"create","reason":"Asked","attempt":1,` + outcome + more + `"started":"2026-11-22T09:10:00Z"}`
}

func annotationOf(ctx context.Context, object client.Object, name string) func(Gomega) string {
	return Field(ctx, object, "metadata", "annotations", name)
}

// createInstances creates custom resources of a sample.
func createInstances(ctx context.Context, namespace string, s *sample, names ...string) []*unstructured.Unstructured {
	GinkgoHelper()
	var instances []*unstructured.Unstructured
	for _, name := range names {
		instance := s.instance(namespace, name)
		Create(ctx, instance)
		instances = append(instances, instance)
	}
	return instances
}

// allow gives a user permissions in a namespace.
func allow(ctx context.Context, namespace, user string, rule rbacv1.PolicyRule) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: user}
	Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{rule}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}

var _ = Describe("kubectl collection", func() {
	It("shows collections, installations, resources and their runs, and what a user may not list", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		installSample(ctx, namespace, s)
		instances := createInstances(ctx, namespace, s, "bad", "good", "new")
		reportRun(ctx, instances[0], "Failed", runOf("1", "Failed", ""))
		reportRun(ctx, instances[1], "Succeeded", runOf("2", "Succeeded", ""))

		for _, args := range [][]string{{"status", "-n", namespace}, {"status", "oc", "-n", namespace}, {"status", "-A"}} {
			out := runTool(ctx, 0, binary, args...)
			Expect(out).To(MatchRegexp(`(?m)^operatorcollection/oc in %s +Ready +it/%s 1\.0\.0, sha256:[0-9a-f]{12}$`, namespace, s.name))
			Expect(out).To(MatchRegexp(`(?m)^└─ installation in ` + namespace + ` +Ready +Direct oc-soc$`))
			Expect(out).To(ContainSubstring("   └─ endpoint lpar1\n"))
			Expect(out).To(MatchRegexp(`(?m)^      ├─ %s/bad +Failed +\S+ ago +Failed +the message$`, strings.ToLower(s.kind)))
			Expect(out).To(MatchRegexp(`(?m)^      ├─ %s/good +Succeeded +\S+ ago +Succeeded +the message$`, strings.ToLower(s.kind)))
			Expect(out).To(MatchRegexp(`(?m)^      └─ %s/new +Pending$`, strings.ToLower(s.kind)))
		}

		By("as JSON")
		var report struct {
			Collections []struct {
				Installations []struct {
					Endpoints []struct {
						Resources []struct {
							Name, State string
							LastRun     struct{ ID, Outcome string }
						}
					}
				}
			}
		}
		Expect(json.Unmarshal([]byte(runTool(ctx, 0, binary, "status", "oc", "-n", namespace, "-o", "json")), &report)).To(Succeed())
		resources := report.Collections[0].Installations[0].Endpoints[0].Resources
		Expect(resources).To(HaveLen(3))
		Expect(resources[0]).To(And(HaveField("Name", "bad"), HaveField("LastRun.ID", "1"), HaveField("LastRun.Outcome", "Failed")))

		By("for a user who may list the collections alone")
		allow(ctx, namespace, "reader", rbacv1.PolicyRule{
			APIGroups: []string{"zoscb.ibm.com"}, Resources: []string{"operatorcollections", "suboperatorconfigs"}, Verbs: []string{"get", "list"},
		})
		Eventually(ctx, func(g Gomega) string {
			session := startTool(binary, "status", "-n", namespace, "--as=reader")
			g.Eventually(ctx, session).Should(gexec.Exit(0))
			return string(session.Out.Contents())
		}).Should(MatchRegexp(`(?m)^   └─ left out +you may not list %s in namespace %s$`, s.plural(), namespace))

		By("and nothing that does not exist")
		runTool(ctx, 2, binary, "status", "absent", "-n", namespace)
		runTool(ctx, 2, binary, "status", "-n", namespace, "--as=nobody")
	})

	It("requests a run and follows it to its end", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		installSample(ctx, namespace, s)
		instance := createInstances(ctx, namespace, s, "one")[0]
		reportRun(ctx, instance, "Running", runOf("1", "", ""))
		name := s.kind + "/one" // As users write it.

		session := startTool(binary, "rerun", name, "-n", namespace)
		Eventually(ctx, session).Should(gbytes.Say(s.plural() + `\.suboperator\.zoscb\.ibm\.com/one: run requested\n`))
		Eventually(ctx, session).Should(gbytes.Say(`waiting until run 1 has ended\n`))
		first := annotationOf(ctx, instance, requestedAt)(Default)
		Expect(time.Parse(time.RFC3339Nano, first)).To(BeTemporally("~", time.Now(), time.Minute))
		reportRun(ctx, instance, "Succeeded", runOf("1", "Succeeded", ""))
		reportRun(ctx, instance, "Running", runOf("2", "", `"currentTask":{"name":"Copy","since":"2026-11-22T09:10:01Z"},`))
		Eventually(ctx, session).Should(gbytes.Say(`Running: run 2, attempt 1, task Copy\n`))
		Expect(session).NotTo(gexec.Exit())
		reportRun(ctx, instance, "Failed", runOf("2", "Failed", `"nextRetry":"2026-11-22T09:10:17Z","failure":{"message":"non-zero return code","task":"Copy","file":"play.yml","line":3,"returnCode":8,"output":"the reason"},`))
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(session.Out).To(gbytes.Say(`Failed: run 2, after 7s\n  message  non-zero return code\n  task     Copy\n  file     play.yml:3\n  rc       8\n  output   the reason\n  next attempt at 2026-11-22T09:10:17Z\n`))

		By("and again, with success")
		session = startTool(binary, "rerun", s.plural()+"/one", "-n", namespace)
		Eventually(ctx, annotationOf(ctx, instance, requestedAt)).ShouldNot(Equal(first))
		Consistently(ctx, session).WithTimeout(time.Second).ShouldNot(gexec.Exit(), "the run before does not count")
		reportRun(ctx, instance, "Succeeded", runOf("3", "Succeeded", ""))
		Eventually(ctx, session).Should(gexec.Exit(0))

		By("without waiting, and not longer than allowed")
		runTool(ctx, 0, binary, "rerun", name, "-n", namespace, "--wait=false")
		runTool(ctx, 2, binary, "rerun", name, "-n", namespace, "--timeout=1s")
		runTool(ctx, 2, binary, "rerun", s.kind+"/absent", "-n", namespace)

		By("unless the user may not watch the resource")
		allow(ctx, namespace, "requester", rbacv1.PolicyRule{APIGroups: []string{SharedGroup}, Resources: []string{"*"}, Verbs: []string{"get", "patch"}})
		Eventually(ctx, func(g Gomega) {
			session := startTool(binary, "rerun", name, "-n", namespace, "--as=requester")
			g.Eventually(ctx, session).Should(gexec.Exit(2))
			g.Expect(session.Out).To(gbytes.Say("run requested"))
			g.Expect(session.Err).To(gbytes.Say(`cannot (list|watch) resource`))
		}).Should(Succeed())

		By("until the resource is deleted")
		session = startTool(binary, "rerun", name, "-n", namespace)
		Eventually(ctx, session).Should(gbytes.Say(`run requested\n`))
		Remove(ctx, instance)
		Eventually(ctx, session).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say("Deleted\n"))
	})

	It("requests runs of all resources in a state", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		installSample(ctx, namespace, s)
		instances := createInstances(ctx, namespace, s, "failed", "good", "outdated")
		for i, phase := range []string{"Failed", "Succeeded", "Outdated"} {
			reportRun(ctx, instances[i], phase, runOf("1", "Succeeded", ""))
		}
		Expect(runTool(ctx, 0, binary, "rerun", "--outdated", s.kind, "-n", namespace)).
			To(Equal(s.crdName() + "/outdated in " + namespace + ": run requested\n"))
		Expect(runTool(ctx, 0, binary, "rerun", "--failed", "-A")).
			To(ContainSubstring(s.crdName() + "/failed in " + namespace + ": run requested\n"))
		Expect(annotationOf(ctx, instances[1], requestedAt)(Default)).To(BeEmpty())
	})

	It("cancels a run, and says so if there is none", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		installSample(ctx, namespace, s)
		instance := createInstances(ctx, namespace, s, "one")[0]
		name := s.kind + "/one"
		runTool(ctx, 1, binary, "cancel", name, "-n", namespace)

		reportRun(ctx, instance, "Running", runOf("1", "", ""))
		session := startTool(binary, "cancel", name, "-n", namespace)
		Eventually(ctx, annotationOf(ctx, instance, cancelRequested)).Should(Equal("1"))
		Consistently(ctx, session).WithTimeout(time.Second).ShouldNot(gexec.Exit())
		reportRun(ctx, instance, "Failed", runOf("1", "Cancelled", ""))
		Eventually(ctx, session).Should(gexec.Exit(0))
		Expect(session.Out).To(gbytes.Say("Cancelled: run 1\n"))

		By("and has no log without a pod")
		session = startTool(binary, "logs", name, "-n", namespace)
		Eventually(ctx, session).Should(gexec.Exit(1))
		Expect(session.Err).To(gbytes.Say("no output of run 1: the namespace has no pod of the operator"))
	})
})
