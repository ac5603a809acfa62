//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/bench/report"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	// playsAtOnce is how many playbooks run at the same time at most.
	playsAtOnce = 10
	// startRounds is how often a pod is replaced.
	startRounds = 5
	// benchIdle is how long what is idle is watched.
	benchIdle = time.Minute
)

// benchSpecs measure what an operator costs. BENCH_PODS is the number of pods that are measured together (10).
type benchSpecs struct {
	*plays
	zos     *system
	figures report.Figures
	// idleMiB is the memory of the operator before any playbook.
	idleMiB float64
}

// Nothing fails for being slow or large.
var _ = Describe("What an operator costs", Label("bench"), Serial, Ordered, func() {
	p := newPlaysOf("e2e-bench", "bench-lab", "Bench")
	s := &benchSpecs{plays: p, figures: report.Figures{Name: "bench-node", Machine: report.ThisMachine()}}

	BeforeAll(func(ctx context.Context) {
		p.begin(ctx)
		s.zos = p.system("zos1")
		p.connect(ctx, s.zos, v2beta2.ZosEndpointSpec{MaxConcurrentRuns: ptr.To[int32](playsAtOnce)})
		p.importing(ctx, "1.0.0", map[string]any{"maxConcurrentReconciles": int64(playsAtOnce)})
	})
	AfterEach(p.explain)
	AfterAll(func(ctx context.Context) {
		s.zos.shell(ctx, "touch /tmp/go-one /tmp/go-many")
		p.cleanUp(ctx)
	})
	AfterAll(func() { saveFigures(&s.figures) })

	It("is reported while it is idle", s.idle)
	It("is reported for one playbook, and for ten at the same time", s.busy)
	It("is reported for the start of its pod", s.starts)
	It("is reported for several", s.several)
})

// saveFigures prints figures, and stores them in BENCH_OUTPUT if that is set.
func saveFigures(figures *report.Figures) {
	GinkgoHelper()
	fmt.Printf("\n%s\n\n%s\n", figures.Name, figures.Markdown())
	if folder := os.Getenv("BENCH_OUTPUT"); folder != "" {
		Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
		Expect(report.Write(filepath.Join(folder, figures.Name+".json"), figures)).To(Succeed())
	}
}

// usageScript prints bytes of memory without the page cache that the kernel can take back, and nanoseconds of the processor, with
// cgroups of version 2 or 1.
const usageScript = `cd /sys/fs/cgroup
if [ -e memory.current ]; then
	used=$(cat memory.current) cache=$(awk '$1 == "inactive_file" {print $2}' memory.stat)
	cpu=$(awk '$1 == "usage_usec" {print $2 * 1000}' cpu.stat)
else
	used=$(cat memory/memory.usage_in_bytes) cache=$(awk '$1 == "total_inactive_file" {print $2}' memory/memory.stat)
	cpu=$(cat cpuacct/cpuacct.usage)
fi
echo $((used - cache)) $cpu`

// usage is the memory in MiB and the processor time of the operator in a namespace so far.
func (s *benchSpecs) usage(ctx context.Context, namespace string) (mebibytes float64, cpu time.Duration) {
	GinkgoHelper()
	printed := strings.Fields(kubectl(ctx, "exec", "-n", namespace, "deployment/"+s.deployment(), "-c", "operator", "--", "/bin/sh", "-euc", usageScript))
	Expect(printed).To(HaveLen(2))
	bytes, err := strconv.ParseFloat(printed[0], 64)
	Expect(err).NotTo(HaveOccurred())
	nanoseconds, err := strconv.ParseFloat(printed[1], 64)
	Expect(err).NotTo(HaveOccurred())
	return bytes / (1 << 20), time.Duration(nanoseconds)
}

// watchIdle adds memory and processor time of the operators in namespaces while nothing happens.
func (s *benchSpecs) watchIdle(ctx context.Context, who string, namespaces ...string) {
	GinkgoHelper()
	before := map[string]time.Duration{}
	for _, namespace := range namespaces {
		_, before[namespace] = s.usage(ctx, namespace)
	}
	select {
	case <-ctx.Done():
		Fail("the idle time was interrupted")
	case <-time.After(benchIdle):
	}
	for _, namespace := range namespaces {
		mebibytes, cpu := s.usage(ctx, namespace)
		s.figures.Add("memory of "+who, "MiB", mebibytes)
		s.figures.Add("processor time of "+who+" in a minute", "ms", float64((cpu - before[namespace]).Milliseconds()))
	}
}

func (s *benchSpecs) idle(ctx context.Context) {
	logons := s.zos.logons(ctx)
	s.watchIdle(ctx, "an idle operator", s.namespace)
	s.figures.Add("logons of an idle operator in a minute", "", float64(s.zos.logons(ctx)-logons))
	s.idleMiB, _ = s.usage(ctx, s.namespace)
}

func (s *benchSpecs) busy(ctx context.Context) {
	logons := s.zos.logons(ctx)
	s.hold(ctx, "one", 1)
	s.hold(ctx, "many", playsAtOnce)
	s.figures.Add("logons for each run", "", float64(s.zos.logons(ctx)-logons)/(1+playsAtOnce))
}

// hold measures while playbooks wait in their middle, and then lets them end.
func (s *benchSpecs) hold(ctx context.Context, prefix string, count int) {
	GinkgoHelper()
	for _, object := range s.playsNamed(prefix, count, "zos1", map[string]any{"hold": "go-" + prefix}) {
		Create(ctx, object)
	}
	for i := range count {
		Eventually(ctx, s.zos.waits(ctx, fmt.Sprintf("in-%s-%02d", prefix, i))).WithTimeout(3 * time.Minute).ShouldNot(BeEmpty())
	}
	used, _ := s.usage(ctx, s.namespace)
	s.figures.Add(fmt.Sprintf("memory of %d playbooks at once, beyond idle", count), "MiB", used-s.idleMiB)
	s.zos.shell(ctx, "touch /tmp/go-"+prefix)
	Eventually(ctx, s.phases(ctx, prefix)).WithTimeout(3 * time.Minute).Should(Equal(map[runstatus.Phase]int{runstatus.PhaseSucceeded: count}))
}

// starts measures from the creation of a pod whose image is on the node to its first run.
func (s *benchSpecs) starts(ctx context.Context) {
	for round := range startRounds {
		before := s.pod(ctx, Default).UID
		Expect(K8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(s.namespace), client.MatchingLabels{"operator-name": "zos-plays"})).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			var pods corev1.PodList
			g.Expect(K8s.List(ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{"operator-name": "zos-plays"})).To(Succeed())
			g.Expect(pods.Items).To(ContainElement(HaveField("UID", Not(Equal(before)))))
		}).WithPolling(20 * time.Millisecond).Should(Succeed())
		created := time.Now()
		object := s.play(fmt.Sprintf("start-%d", round), "zos1", nil)
		Create(ctx, object)
		Eventually(ctx, func(g Gomega) {
			g.Expect(lastRun(ctx, object)(g).Started.Time).NotTo(BeZero())
		}).WithPolling(20 * time.Millisecond).Should(Succeed())
		s.figures.Add("from the creation of a pod to its first run", "s", time.Since(created).Seconds())
		expectSuccess(ctx, object)
	}
}

// several maps the collection to more namespaces, and measures the pods of all.
func (s *benchSpecs) several(ctx context.Context) {
	count := 10
	if text := os.Getenv("BENCH_PODS"); text != "" {
		var err error
		count, err = strconv.Atoi(text)
		Expect(err).NotTo(HaveOccurred(), "BENCH_PODS")
	}
	namespaces := []string{s.namespace}
	for i := range count - 1 {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", s.namespace, i), Annotations: map[string]string{"zoscb.ibm.com/allow-mapping-from": s.namespace},
		}}
		Create(ctx, space)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, space) })
		namespaces = append(namespaces, space.Name)
	}
	var mapping []map[string]string
	for _, namespace := range namespaces {
		mapping = append(mapping, map[string]string{"namespace": namespace})
	}
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: s.meta(s.name() + "-soc")}
	started := time.Now()
	Patch(ctx, soc, MustJSON(map[string]any{"spec": map[string]any{"mapping": mapping}}))
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(10 * time.Minute).Should(ConditionTrue())
	for _, namespace := range namespaces {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.deployment()}}
		Eventually(ctx, Condition(ctx, d, string(appsv1.DeploymentAvailable))).Should(ConditionTrue())
	}
	s.figures.Add(fmt.Sprintf("until %d operators run", count), "s", time.Since(started).Seconds())
	s.watchIdle(ctx, fmt.Sprintf("each of %d idle operators", count), namespaces...)
	Patch(ctx, soc, MustJSON(map[string]any{"spec": map[string]any{"mapping": mapping[:1]}}))
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithTimeout(5 * time.Minute).Should(ConditionTrue())
}
