//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// When runs may use an endpoint, and what a drift check sees there. Endpoints that refuse or are away are in
// endpointsaway_test.go. CAPS is the number of resources of the spec labelled caps (40).
var _ = Describe("Endpoints", Slow, Ordered, ContinueOnFailure, func() {
	p := newPlaysOf("e2e-endpoints", "endpoints-lab", "Limited")
	s := &endpointSpecs{plays: p, neighbor: "e2e-endpoints-neighbor"}
	neighbor := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: s.neighbor, Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": p.namespace},
	}}

	BeforeAll(func(ctx context.Context) {
		p.begin(ctx)
		Remove(ctx, neighbor.DeepCopy())
		Eventually(ctx, Gone(ctx, neighbor)).Should(BeTrue())
		Create(ctx, neighbor.DeepCopy())
		s.zos1, s.zos2 = p.system("zos1"), p.system("zos2")
		p.connect(ctx, s.zos1, v2beta2.ZosEndpointSpec{MaxConcurrentRuns: ptr.To(places)})
		p.connect(ctx, s.zos2, v2beta2.ZosEndpointSpec{MaxConcurrentRuns: ptr.To(places)})
		Create(ctx, s.mapping(p.namespace, s.neighbor))
		p.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(8), "maxRetries": int64(2)})
	})
	AfterEach(p.explain)
	AfterAll(func(ctx context.Context) {
		s.zos1.shell(ctx, "touch /tmp/go-capped /tmp/remove-go-capped") // Removals wait as well.
		p.cleanUp(ctx)
		Remove(ctx, neighbor.DeepCopy())
	})

	It("are used by no more runs than they have places, while others go on", Label("caps"), s.capped)
	It("let all runs of two kinds and two installations have their turn", Label("caps"), s.many)
	It("start runs only in their windows, or when somebody says so", s.windows)
	It("that are held start nothing", s.held)
	It("are checked for drift, and not changed", s.drift)
	It("are listed by the tool", s.listed)
	It("keep a resource whose operator has left, until it is abandoned", s.left)
})

// places is the maximum number of runs on each system.
const places int32 = 4

// endpointSpecs are what the specs about endpoints share.
type endpointSpecs struct {
	*plays
	// neighbor is another namespace, to which the collection is mapped.
	neighbor   string
	zos1, zos2 *system
}

// mapping is the SubOperatorConfig of the collection for some namespaces.
func (s *endpointSpecs) mapping(namespaces ...string) *v2beta2.SubOperatorConfig {
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: s.meta(s.name() + "-soc"), Spec: v2beta2.SubOperatorConfigSpec{OperatorCollection: s.name()}}
	for _, namespace := range namespaces {
		soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: namespace})
	}
	return soc
}

// nextDoor moves a resource to the other namespace.
func (s *endpointSpecs) nextDoor(object *unstructured.Unstructured) *unstructured.Unstructured {
	object.SetNamespace(s.neighbor)
	return object
}

// capped has more playbooks than there are places on a system wait in their middle.
func (s *endpointSpecs) capped(ctx context.Context) {
	elsewhere := s.play("elsewhere", "zos2", nil)
	Create(ctx, elsewhere.DeepCopy())
	Eventually(ctx, lastRun(ctx, elsewhere)).Should(withOutcome(gate.OutcomeSucceeded))
	var capped []*unstructured.Unstructured
	for i, object := range s.playsNamed("capped", int(places)+2, "zos1", map[string]any{"hold": "go-capped"}) {
		if i%2 == 1 {
			object = s.nextDoor(object)
		}
		capped = append(capped, object)
		Create(ctx, object.DeepCopy())
	}
	inside := func() []string { return strings.Fields(s.zos1.waits(ctx, "in-capped-*")()) }
	reasons := func(g Gomega) map[endpoint.Reason]int {
		counted := map[endpoint.Reason]int{}
		for _, object := range capped {
			counted[waitsFor(ctx, object)(g)]++
		}
		return counted
	}
	Eventually(ctx, inside).Should(HaveLen(int(places)))
	Eventually(ctx, reasons).Should(Equal(map[endpoint.Reason]int{"": int(places), endpoint.ReasonBusy: 2}))

	By("a deletion and a new resource on the other system")
	another := s.play("another", "zos2", nil)
	Create(ctx, another.DeepCopy())
	Remove(ctx, elsewhere.DeepCopy())
	Eventually(ctx, Gone(ctx, elsewhere)).Should(BeTrue())
	Eventually(ctx, lastRun(ctx, another)).Should(withOutcome(gate.OutcomeSucceeded))
	Expect(inside()).To(HaveLen(int(places)), "nobody else got in meanwhile")

	s.zos1.shell(ctx, "touch /tmp/go-capped /tmp/remove-go-capped")
	for _, object := range append(capped, another) {
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
		Remove(ctx, object.DeepCopy())
	}
	for _, object := range append(capped, another) {
		Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
	}
	Expect(s.zos1.mostPlays(ctx)).To(BeEquivalentTo(places))
	Expect(s.zos1.mostSessions(ctx)).To(BeEquivalentTo(places))
}

// many creates resources of two kinds in two namespaces for two systems.
func (s *endpointSpecs) many(ctx context.Context) {
	count := int(setting("CAPS", 24))
	var all []*unstructured.Unstructured
	for i := range count {
		name, zos := fmt.Sprintf("many-%03d", i), []string{"zos1", "zos2"}[i/2%2]
		object := s.play(name, zos, nil)
		if i%2 == 1 {
			object = s.setting(name, zos, "one of many")
		}
		if i/4%2 == 1 {
			object = s.nextDoor(object)
		}
		all = append(all, object)
	}
	begin := time.Now()
	for _, object := range all {
		Create(ctx, object.DeepCopy())
	}
	limit := 3*time.Minute + time.Duration(count)*8*time.Second
	Eventually(ctx, s.manyPhases(ctx)).WithTimeout(limit).WithPolling(2 * time.Second).
		Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: count}))
	took := time.Since(begin)
	for _, zos := range []*system{s.zos1, s.zos2} {
		Expect(zos.mostPlays(ctx)).To(BeNumerically("<=", places))
		Expect(zos.mostSessions(ctx)).To(BeNumerically("<=", places))
	}
	AddReportEntry("caps", fmt.Sprintf("%d resources of two kinds in two installations, on two systems with %d places each: all succeeded after %.0f s; sessions at the same time: at most %d and %d; memory of the operators' pods in MiB, now and at most: %s and %s",
		count, places, took.Seconds(), s.zos1.mostSessions(ctx), s.zos2.mostSessions(ctx), s.memory(ctx, s.namespace), s.memory(ctx, s.neighbor)),
		ReportEntryVisibilityAlways)

	// Their playbooks need not run once more to remove them.
	for _, object := range all {
		Patch(ctx, object.DeepCopy(), withAnnotation(gate.AnnotationAbandon, "true"))
		Remove(ctx, object.DeepCopy())
	}
	Eventually(ctx, s.manyPhases(ctx)).WithTimeout(limit).WithPolling(2 * time.Second).Should(BeEmpty())
	Expect(s.zos1.lines(ctx)).NotTo(HaveKey(HavePrefix("begin-removal many")))
}

// manyPhases counts the resources of many by phase.
func (s *endpointSpecs) manyPhases(ctx context.Context) func(Gomega) map[runstatus.Phase]int {
	return func(g Gomega) map[runstatus.Phase]int {
		counted := map[runstatus.Phase]int{}
		for _, kind := range []string{"Play", "Setting"} {
			for _, namespace := range []string{s.namespace, s.neighbor} {
				for _, object := range s.liveIn(ctx, g, namespace, kind, "many") {
					counted[statusOf(g, &object).Phase]++
				}
			}
		}
		return counted
	}
}

// memory is how many MiB the container of the operator in a namespace uses now, and used at most, with cgroups of version 2 or 1.
func (s *endpointSpecs) memory(ctx context.Context, namespace string) string {
	GinkgoHelper()
	return strings.Join(strings.Fields(kubectl(ctx, "exec", "-n", namespace, "deployment/"+s.deployment(), "-c", "operator", "--", "/bin/sh", "-euc",
		`cd /sys/fs/cgroup
		for files in "memory.current memory/memory.usage_in_bytes" "memory.peak memory/memory.max_usage_in_bytes"; do
			echo $(($(cat $files 2>/dev/null | head -n 1) >> 20))
		done`)), " ")
}

// mostPlays is the highest number of playbooks that had begun, and not ended, at the same time.
func (s *system) mostPlays(ctx context.Context) int {
	GinkgoHelper()
	running, most := 0, 0
	for line := range strings.Lines(s.shell(ctx, "cat /tmp/plays 2>/dev/null || true")) {
		switch {
		case strings.HasPrefix(line, "begin"):
			running++
		case strings.HasPrefix(line, "end"):
			running--
		}
		most = max(most, running)
	}
	return most
}

// sessionLine is what the SSH server writes when a session begins or ends, or a connection with all its sessions ends. Runs of
// the same pod share a connection.
var sessionLine = regexp.MustCompile(`(?m)^(Starting session|Close session|Disconnected).* (\S+ port \d+)( id \d+)?$`)

// mostSessions is the highest number of sessions that were open at the same time.
func (s *system) mostSessions(ctx context.Context) int {
	GinkgoHelper()
	open, most := map[string]bool{}, 0
	for _, found := range sessionLine.FindAllStringSubmatch(s.log(ctx), -1) {
		switch connection, session := found[2], found[2]+found[3]; found[1] {
		case "Starting session":
			open[session] = true
		case "Close session":
			delete(open, session)
		default:
			maps.DeleteFunc(open, func(other string, _ bool) bool { return strings.HasPrefix(other, connection+" ") })
		}
		most = max(most, len(open))
	}
	return most
}

// withAnnotation is a change that sets an annotation.
func withAnnotation(name, value string) string {
	GinkgoHelper()
	return MustJSON(map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}})
}

func rfc3339Now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// windows uses an endpoint for the first system whose window opens on the 29th of February.
func (s *endpointSpecs) windows(ctx context.Context) {
	s.register(ctx, "night", s.zos1, v2beta2.ZosEndpointSpec{CredentialName: "zos1", RunWindows: []v2beta2.RunWindow{
		{Schedule: "0 2 29 2 *", Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "Europe/Berlin"},
	}})
	// Until the kubelet has updated the mounted Secret, the operator does not know the endpoint.
	Eventually(ctx, func() error {
		_, err := Output(ctx, kubectlPath(), "exec", "-n", s.namespace, "deployment/"+s.deployment(), "-c", "operator", "--",
			"test", "-e", "/etc/zoscb/endpoints/night_vars.yaml")
		return err
	}).WithTimeout(InstallTimeout).Should(Succeed())
	nights := s.playsNamed("night", 3, "night", nil)
	for _, object := range nights {
		Create(ctx, object.DeepCopy())
	}
	for _, object := range nights {
		Eventually(ctx, waitsFor(ctx, object)).Should(Equal(endpoint.ReasonOutsideWindow))
		status := statusOf(Default, Live(ctx, Default, object))
		Expect(status.LastRun).To(BeNil())
		Expect(status.Waiting.Until).NotTo(BeNil())
		opens := status.Waiting.Until.UTC()
		Expect([]int{int(opens.Month()), opens.Day(), opens.Hour()}).To(Equal([]int{2, 29, 1}))
		Expect(Condition(ctx, object, runstatus.ConditionReady)(Default)).To(And(ConditionFalse(), WithReason("Waiting")))
	}

	By("a requested rerun")
	ask(ctx, nights[1])
	stillWaits := func(object *unstructured.Unstructured, reason endpoint.Reason) {
		GinkgoHelper()
		Consistently(ctx, waitsFor(ctx, object)).WithTimeout(5 * time.Second).Should(Equal(reason))
	}
	stillWaits(nights[1], endpoint.ReasonOutsideWindow)

	By("run-now on one resource")
	Patch(ctx, nights[0].DeepCopy(), withAnnotation(endpoint.AnnotationRunNow, rfc3339Now()))
	Eventually(ctx, lastRun(ctx, nights[0])).Should(withOutcome(gate.OutcomeSucceeded))
	Remove(ctx, nights[0].DeepCopy())
	Eventually(ctx, waitsFor(ctx, nights[0])).Should(Equal(endpoint.ReasonOutsideWindow), "one run, and the deletion is another")
	stillWaits(nights[0], endpoint.ReasonOutsideWindow)
	Expect(s.zos1.lines(ctx)).To(And(HaveKeyWithValue("end night-00 first", 1), Not(HaveKey("begin night-01 first")), Not(HaveKey("begin-removal night-00"))))

	By("run-now on the endpoint")
	Patch(ctx, &v2beta2.ZosEndpoint{ObjectMeta: s.meta("night")}, withAnnotation(endpoint.AnnotationRunNow, rfc3339Now()))
	Eventually(ctx, Gone(ctx, nights[0])).Should(BeTrue())
	for _, object := range nights[1:] {
		Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	}
	Patch(ctx, nights[2].DeepCopy(), `{"spec": {"note": "later"}}`)
	Eventually(ctx, waitsFor(ctx, nights[2])).Should(Equal(endpoint.ReasonOutsideWindow), "it was not waiting at that time")
	Expect(s.zos1.lines(ctx)).NotTo(HaveKey("begin night-02 later"))

	By("a window that is open")
	Patch(ctx, &v2beta2.ZosEndpoint{ObjectMeta: s.meta("night")}, `{"spec": {"runWindows": [{"schedule": "* * * * *", "duration": "2m"}]}}`)
	Eventually(ctx, func() int { return s.zos1.lines(ctx)["end night-02 later"] }).Should(Equal(1))
	Eventually(ctx, waitsFor(ctx, nights[2])).Should(BeEmpty())
	expectSuccess(ctx, nights[2])
}

// held sets and removes spec.hold.
func (s *endpointSpecs) held(ctx context.Context) {
	zos2 := &v2beta2.ZosEndpoint{ObjectMeta: s.meta("zos2")}
	object := s.play("held", "zos2", nil)
	Create(ctx, object.DeepCopy())
	Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	Patch(ctx, zos2.DeepCopy(), `{"spec": {"hold": "IPL on Sunday"}}`)
	DeferCleanup(func(ctx context.Context) { Patch(ctx, zos2.DeepCopy(), `{"spec": {"hold": null}}`) })
	Patch(ctx, object.DeepCopy(), `{"spec": {"note": "second"}}`)
	leaving := s.nextDoor(s.play("held-next-door", "zos2", nil))
	Create(ctx, leaving.DeepCopy())
	for _, waiting := range []*unstructured.Unstructured{object, leaving} {
		Eventually(ctx, waitsFor(ctx, waiting)).Should(Equal(endpoint.ReasonHeld))
		Expect(Condition(ctx, waiting, runstatus.ConditionReady)(Default)).To(And(ConditionFalse(), WithReason("Waiting"), WithMessage("IPL on Sunday")))
	}
	Patch(ctx, zos2.DeepCopy(), withAnnotation(endpoint.AnnotationRunNow, rfc3339Now()))
	Patch(ctx, object.DeepCopy(), withAnnotation(endpoint.AnnotationRunNow, rfc3339Now()))
	Consistently(ctx, waitsFor(ctx, object)).Should(Equal(endpoint.ReasonHeld))
	Expect(s.zos2.lines(ctx)).NotTo(Or(HaveKey("begin held second"), HaveKey("begin held-next-door first")))

	Patch(ctx, zos2.DeepCopy(), `{"spec": {"hold": null}}`)
	expectSuccess(ctx, object)
	expectSuccess(ctx, leaving)
	Expect(s.zos2.lines(ctx)).To(And(HaveKeyWithValue("end held second", 1), HaveKeyWithValue("end held-next-door first", 1)))
	Remove(ctx, leaving.DeepCopy())
	Eventually(ctx, Gone(ctx, leaving)).Should(BeTrue())
}

// drift changes a file on a system behind the back of its resource.
func (s *endpointSpecs) drift(ctx context.Context) {
	object, file := s.setting("drifting", "zos1", "as it should be"), "/tmp/drifting"
	Create(ctx, object.DeepCopy())
	Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	first := statusOf(Default, Live(ctx, Default, object))
	s.zos1.shell(ctx, "echo changed by somebody >"+file)
	sum := func() string { return s.zos1.shell(ctx, "sha256sum "+file+"; stat -c '%Y %a %U' "+file) }
	before := sum()

	Patch(ctx, object.DeepCopy(), withAnnotation(gate.AnnotationCheckRequestedAt, rfc3339Now()))
	Eventually(ctx, Condition(ctx, object, runstatus.ConditionDrifted)).Should(ConditionTrue())
	status := statusOf(Default, Live(ctx, Default, object))
	Expect(status.Drift).To(HaveValue(HaveField("Diff", And(ContainSubstring("changed by somebody"), ContainSubstring("as it should be")))))
	Expect(status.LastRun.ID).To(Equal(first.LastRun.ID), "a check is no run")
	Expect(sum()).To(Equal(before), "nothing was changed")
	Expect(kubectl(ctx, "logs", "-n", s.namespace, "deployment/"+s.deployment(), "-c", "operator")).NotTo(ContainSubstring("changed by somebody"))

	ask(ctx, object)
	Eventually(ctx, Condition(ctx, object, runstatus.ConditionDrifted)).Should(ConditionFalse())
	expectSuccess(ctx, object)
	Expect(s.zos1.shell(ctx, "cat "+file)).To(HavePrefix("as it should be"))
	Patch(ctx, object.DeepCopy(), withAnnotation(gate.AnnotationCheckRequestedAt, rfc3339Now()))
	Eventually(ctx, Condition(ctx, object, runstatus.ConditionDrifted)).
		Should(And(ConditionFalse(), WithMessage("no difference found in 1 of 1 task")))

	By("a kind without supportsCheckMode")
	play := s.play("unchecked", "zos1", nil)
	Create(ctx, play.DeepCopy())
	Eventually(ctx, lastRun(ctx, play)).Should(withOutcome(gate.OutcomeSucceeded))
	Patch(ctx, play.DeepCopy(), withAnnotation(gate.AnnotationCheckRequestedAt, rfc3339Now()))
	Eventually(ctx, Condition(ctx, play, runstatus.ConditionDrifted)).
		Should(And(HaveField("Status", metav1.ConditionUnknown), WithReason("NotSupported")))
	Expect(s.zos1.lines(ctx)).To(HaveKeyWithValue("begin unchecked first", 1))
}

// listed runs kubectl collection endpoints.
func (s *endpointSpecs) listed(ctx context.Context) {
	printed, err := s.collectionTool(ctx, "endpoints")
	Expect(err).NotTo(HaveOccurred(), printed)
	header, _, _ := strings.Cut(printed, "\n")
	Expect(strings.Fields(header)).To(ContainElements("NAME", "HOST", "REACHABLE", "LATENCY", "KEY", "USER", "REFUSED", "QUEUE", "RUNNING", "WINDOW", "HOLD"))
	rows := map[string]string{}
	for line := range strings.Lines(printed) {
		rows[strings.Fields(line)[0]] = line
	}
	for _, name := range []string{"zos1", "zos2", "night"} {
		Expect(rows).To(HaveKeyWithValue(name, ContainSubstring("SHA256:")))
	}
	Expect(rows["zos1"]).To(ContainSubstring("ibmuser"))
	AddReportEntry("kubectl collection endpoints", printed, ReportEntryVisibilityAlways)
	printed, err = s.collectionTool(ctx, "endpoints", "-o", "json")
	Expect(err).NotTo(HaveOccurred(), printed)
	Expect(json.Valid([]byte(printed))).To(BeTrue(), printed)
}

// left takes the other namespace out of the mapping while there is a resource.
func (s *endpointSpecs) left(ctx context.Context) {
	object := s.nextDoor(s.play("left", "zos1", nil))
	Create(ctx, object.DeepCopy())
	Eventually(ctx, lastRun(ctx, object)).Should(withOutcome(gate.OutcomeSucceeded))
	mapping := s.mapping(s.namespace)
	Patch(ctx, mapping.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"mapping": mapping.Spec.Mapping}}))
	Eventually(ctx, Condition(ctx, object, runstatus.ConditionReady)).Should(And(ConditionFalse(), WithReason("NoOperator")))
	message := Condition(ctx, object, runstatus.ConditionReady)(Default).Message
	Expect(message).To(ContainSubstring("abandon"), "it says what to do")

	printed, err := s.collectionToolIn(ctx, s.neighbor, "abandon", "limitedplay/left", "--yes")
	Expect(err).NotTo(HaveOccurred(), printed)
	Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
	lines := s.zos1.lines(ctx)
	Expect(lines).To(HaveKeyWithValue("end left first", 1))
	Expect(lines).NotTo(HaveKey("begin-removal left"))
	AddReportEntry("abandoned without an operator", fmt.Sprintf("%s\n%s", message, printed), ReportEntryVisibilityAlways)
}
