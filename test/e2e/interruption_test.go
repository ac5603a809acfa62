//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// What stops the manager or the API server that all specs use.
var _ = Describe("Playbooks whose cluster is interrupted", Serial, Label("serial"), Ordered, ContinueOnFailure, func() {
	i := &interruption{plays: newPlays("e2e-interruption")}

	BeforeAll(func(ctx context.Context) {
		i.begin(ctx)
		i.zos = i.connectTo(ctx, "zos1")
		i.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(heldPlays + 1)})
	})
	AfterEach(i.explain)
	AfterAll(func(ctx context.Context) {
		i.zos.shell(ctx, "touch /tmp/go-held /tmp/remove-go-held /tmp/remove-go-leaving") // Removals wait as well.
		i.cleanUp(ctx)
	})

	It("run once each when the API server is away for a minute, and a deletion's too", i.outage)
	It("do not run again for a manager of another version", i.newManager)
})

type interruption struct {
	*plays
	zos *system
}

const (
	heldPlays = 10
	// outageTime is less than the manager's renew deadline of 107 s.
	outageTime = time.Minute
)

// outage stops the API server while many playbooks and that of a deletion are in their middle. They end while it is away.
func (i *interruption) outage(ctx context.Context) {
	leaving := i.play("leaving", "zos1", map[string]any{"hold": "go-leaving"})
	i.zos.shell(ctx, "touch /tmp/go-leaving")
	Create(ctx, leaving.DeepCopy())
	Eventually(ctx, lastRun(ctx, leaving)).Should(withOutcome(gate.OutcomeSucceeded))
	Remove(ctx, leaving.DeepCopy())
	Eventually(ctx, i.zos.waits(ctx, "out-leaving")).ShouldNot(BeEmpty())
	held := i.playsNamed("held", heldPlays, "zos1", map[string]any{"hold": "go-held"})
	for n := 0; n < heldPlays; n += 5 { // Many that connect at once take longer than one after the other.
		for _, object := range held[n : n+5] {
			Create(ctx, object)
		}
		Eventually(ctx, func() []string { return strings.Fields(i.zos.waits(ctx, "in-held-*")()) }).Should(HaveLen(n + 5))
	}
	Expect(i.phases(ctx, "held")(Default)).To(Equal(map[runstatus.Phase]int{runstatus.PhaseRunning: heldPlays}))

	ids, conditions, restarts := i.runIDs(ctx), managerConditions(ctx), allRestarts(ctx)
	auditLog := OpenAuditLog(filepath.Join(projectDir, ".devcluster", "audit.log"))
	// Nobody can reach the system by the API server once that is stopped.
	i.zos.shell(ctx, "setsid sh -c 'sleep 15; touch /tmp/go-held /tmp/remove-go-leaving' >/dev/null 2>&1 &")
	back := withoutAPIServer(ctx, outageTime)

	Eventually(ctx, i.phases(ctx, "held")).Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: heldPlays}))
	Eventually(ctx, Gone(ctx, leaving)).Should(BeTrue())
	Expect(i.runIDs(ctx)).To(Equal(ids), "the runs that were there before")
	writes := i.writesUntilQuiet(ctx, auditLog)
	Expect(allRestarts(ctx)).To(Equal(restarts), "pods and their restarts")
	Expect(managerConditions(ctx)).To(Equal(conditions), "conditions and when they changed")
	lines := i.zos.lines(ctx)
	Expect(lines).To(And(HaveLen(2*heldPlays+4), HaveEach(1)), "every playbook ran once")
	last, err := strconv.ParseInt(strings.TrimSpace(i.zos.shell(ctx, "stat -c %Y /tmp/plays")), 10, 64)
	Expect(err).NotTo(HaveOccurred())
	Expect(time.Unix(last, 0)).To(BeTemporally("<", back), "they ended while the API server was away")
	// For each run: its outcome, the record, and some of the progress; for the deletion also the finalizer.
	Expect(len(writes["operator"])).To(BeNumerically("<=", 6*(heldPlays+1)), "writes by the operator:\n%s", strings.Join(writes["operator"], "\n"))
	Expect(len(writes["manager"])).To(BeNumerically("<=", 10), "writes by the manager:\n%s", strings.Join(writes["manager"], "\n"))
	AddReportEntry("API server away", fmt.Sprintf("for %s while %d playbooks ended: %d lines of playbooks, each once; since then writes by operator %d, manager %d, all %d; dry runs %d; requests to the API server %.0f",
		outageTime, heldPlays+1, len(lines), len(writes["operator"]), len(writes["manager"]), len(writes["all"]), len(writes["dry runs"]), apiRequests(ctx)), ReportEntryVisibilityAlways)
}

// withoutAPIServer stops the API server for a time, and returns when it is started again. Until it is back, no function that uses the
// cluster works.
func withoutAPIServer(ctx context.Context, away time.Duration) (back time.Time) {
	GinkgoHelper()
	devcluster := filepath.Join(projectDir, ".devcluster", "bin", "devcluster")
	start := func(ctx context.Context) { Run(ctx, devcluster, "start", "kube-apiserver") }
	DeferCleanup(start)
	Run(ctx, devcluster, "stop", "kube-apiserver")
	Consistently(ctx, func() error {
		return K8s.List(ctx, &corev1.NamespaceList{}, client.Limit(1))
	}).WithTimeout(away).Should(HaveOccurred())
	back = time.Now()
	start(ctx)
	return back
}

// runIDs are the IDs of the last runs by resource.
func (i *interruption) runIDs(ctx context.Context) map[string]string {
	GinkgoHelper()
	ids := map[string]string{}
	for _, object := range i.live(ctx, Default, "held") {
		run := statusOf(Default, &object).LastRun
		Expect(run).NotTo(BeNil(), object.GetName())
		ids[object.GetName()] = run.ID
	}
	return ids
}

// managerConditions lists the conditions of the manager's kinds in all namespaces, with the times at which they changed.
func managerConditions(ctx context.Context) []string {
	GinkgoHelper()
	printed := kubectl(ctx, "get", "zoscb", "-A", "-o",
		`jsonpath={range .items[*]}{range .status.conditions[*]}{.type}={.status} {.lastTransitionTime}{"\t"}{end}{.kind}/{.metadata.name}{"\n"}{end}`)
	lines := strings.Split(strings.TrimSpace(printed), "\n")
	slices.Sort(lines)
	Expect(len(lines)).To(BeNumerically(">=", 3), printed)
	return lines
}

// allRestarts counts the restarts of each container of each pod.
func allRestarts(ctx context.Context) map[string]int32 {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(K8s.List(ctx, &pods)).To(Succeed())
	counted := map[string]int32{}
	for _, pod := range pods.Items {
		for _, status := range pod.Status.ContainerStatuses {
			counted[pod.Namespace+"/"+pod.Name+"/"+status.Name] = status.RestartCount
		}
	}
	return counted
}

// writesUntilQuiet lists the writes, by who wrote, until neither the manager nor the operator has written for ten seconds, but
// for Leases.
func (i *interruption) writesUntilQuiet(ctx context.Context, auditLog *AuditLog) map[string][]string {
	GinkgoHelper()
	writes, last := map[string][]string{}, time.Now()
	Eventually(ctx, func() time.Duration {
		for _, event := range auditLog.Next() {
			if event.DryRun() {
				writes["dry runs"] = append(writes["dry runs"], event.ObjectRef.Name)
				continue
			}
			object := event.ObjectRef
			write := strings.Join([]string{event.Verb, object.Resource, object.Subresource, object.Namespace, object.Name}, " ")
			writes["all"] = append(writes["all"], write)
			who := ""
			switch {
			case object.Resource == "leases" || strings.HasSuffix(object.Resource, "reviews"):
			case strings.HasPrefix(event.User.Username, "system:serviceaccount:"+ManagerNamespace+":"):
				who = "manager"
			case strings.HasPrefix(event.User.Username, "system:serviceaccount:"+i.namespace+":"):
				who = "operator"
			}
			if who != "" {
				writes[who] = append(writes[who], write)
				last = time.Now()
			}
		}
		return time.Since(last)
	}).WithPolling(time.Second).Should(BeNumerically(">", 10*time.Second))
	return writes
}

// apiRequests is how many requests the API server has served since it was started.
func apiRequests(ctx context.Context) float64 {
	GinkgoHelper()
	httpClient, err := rest.HTTPClientFor(RestConfig)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, RestConfig.Host+"/metrics", nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := httpClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	total := 0.0
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "apiserver_request_total{") {
			var count float64
			_, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &count)
			Expect(err).NotTo(HaveOccurred(), line)
			total += count
		}
	}
	return total
}

// newManager replaces the manager by one of another image, which has neither a shell nor tar, and which then does its work.
func (i *interruption) newManager(ctx context.Context) {
	before, logons, operator := i.snapshot(ctx, Default, "held"), i.zos.logons(ctx), i.pod(ctx, Default).UID
	manager := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: ManagerName, Namespace: ManagerNamespace}}
	old := Live(ctx, Default, manager)
	begin := time.Now()
	kubectl(ctx, "set", "image", "-n", ManagerNamespace, "statefulset/"+ManagerName, "manager=localhost/collection-operator/manager-next:dev")
	DeferCleanup(func(ctx context.Context) {
		kubectl(ctx, "set", "image", "-n", ManagerNamespace, "statefulset/"+ManagerName, "manager=localhost/collection-operator/manager:dev")
		kubectl(ctx, "rollout", "status", "-n", ManagerNamespace, "statefulset/"+ManagerName, "--timeout=3m")
	})
	kubectl(ctx, "rollout", "status", "-n", ManagerNamespace, "statefulset/"+ManagerName, "--timeout=3m")
	Expect(Live(ctx, Default, manager).GetGeneration()).To(BeNumerically(">", old.GetGeneration()))
	i.endpoint(ctx, "new", v2beta2.ZosEndpointSpec{Host: i.zos.host(), CredentialName: "zos1"})

	Expect(i.pod(ctx, Default).UID).To(Equal(operator), "the operator was not replaced")
	Expect(i.snapshot(ctx, Default, "held")).To(Equal(before))
	Expect(i.zos.logons(ctx) - logons).To(BeZero())
	pushed := &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: "pushed"},
		Spec:       v2beta2.OperatorCollectionSpec{SkipSignatureVerification: true},
	}
	pushArchive(ctx, pushed, Build(notesCollection()))
	AddReportEntry("new manager", fmt.Sprintf("%d resources as before after %.1f s, without a logon", len(before), time.Since(begin).Seconds()), ReportEntryVisibilityAlways)
}

// removeManagerLease lets the next manager begin at once.
func removeManagerLease(ctx context.Context) {
	GinkgoHelper()
	Expect(K8s.DeleteAllOf(ctx, &coordinationv1.Lease{}, client.InNamespace(ManagerNamespace))).To(Succeed())
}

// sum adds the values of a map.
func sum(counts map[string]int) int {
	total := 0
	for count := range maps.Values(counts) {
		total += count
	}
	return total
}
