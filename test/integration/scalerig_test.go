package integration

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/bench/report"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// collectionsPerNamespace are few enough for every budget of a namespace.
const collectionsPerNamespace = 10

// scale is a measurement of many collections. It stands in for the Deployment controller, the scheduler and nodes.
type scale struct {
	// view are informers of the benchmark, so that waiting for many objects does not load the API server.
	view cache.Cache
	// audit counts what the manager asks for.
	audit *AuditLog
	// starts tells whether pods can start. If they cannot, each Deployment has a pod that no node has room for.
	starts atomic.Bool
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// calm is how long the manager must be without requests to be at rest.
	calm    time.Duration
	phases  []report.Phase
	machine report.Machine
}

// newScale has a manager with the flags of an installation as far as the fixture allows, and with more.
func newScale(ctx context.Context, flags ...string) *scale {
	GinkgoHelper()
	withFlags(ctx, append([]string{
		"--zap-log-level=info", "--endpoint-probe-interval=5m", "--fetch-timeout=1m", "--max-kinds=10000",
	}, flags...)...)
	view, err := cache.New(RestConfig, cache.Options{Scheme: K8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	s := &scale{view: view, calm: 10 * time.Second, machine: report.ThisMachine(), audit: OpenAuditLog(controlPlane.AuditLog), queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.DefaultTypedControllerRateLimiter[types.NamespacedName]())}
	served, err := discovery.NewDiscoveryClientForConfig(RestConfig)
	Expect(err).NotTo(HaveOccurred())
	version, err := served.ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	s.machine.Kubernetes = version.GitVersion
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(func() { cancel(); s.queue.ShutDown() })
	go func() {
		defer GinkgoRecover()
		Expect(view.Start(ctx)).To(Succeed())
	}()
	Expect(view.WaitForCacheSync(ctx)).To(BeTrue())
	deployments, err := view.GetInformer(ctx, &appsv1.Deployment{})
	Expect(err).NotTo(HaveOccurred())
	add := func(object any) { s.queue.Add(client.ObjectKeyFromObject(object.(client.Object))) }
	_, err = deployments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, object any) { add(object) }})
	Expect(err).NotTo(HaveOccurred())
	for range 4 {
		go s.runDeployments(ctx)
	}
	return s
}

// runDeployments writes the status of Deployments as their controller does, one after the other.
func (s *scale) runDeployments(ctx context.Context) {
	for {
		key, shutdown := s.queue.Get()
		if shutdown {
			return
		}
		if err := s.runDeployment(ctx, key); err != nil && !apierrors.IsNotFound(err) {
			s.queue.AddRateLimited(key)
		} else {
			s.queue.Forget(key)
		}
		s.queue.Done(key)
	}
}

func (s *scale) runDeployment(ctx context.Context, key types.NamespacedName) error {
	d := &appsv1.Deployment{}
	if err := s.view.Get(ctx, key, d); err != nil {
		return err
	}
	starts := s.starts.Load()
	if d.Status.ObservedGeneration == d.Generation && (d.Status.AvailableReplicas == 1) == starts || ptr.Deref(d.Spec.Replicas, 1) == 0 {
		return nil
	}
	if err := s.runPod(ctx, d, starts); err != nil {
		return err
	}
	condition := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Reason: "MinimumReplicasUnavailable",
		LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
	}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, UnavailableReplicas: 1}
	if starts {
		condition.Status, condition.Reason = corev1.ConditionTrue, "MinimumReplicasAvailable"
		d.Status.UnavailableReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 1, 1
	}
	d.Status.Conditions = []appsv1.DeploymentCondition{condition}
	return K8s.Status().Update(ctx, d)
}

// runPod creates the pod of a Deployment that cannot be scheduled, or removes it.
func (s *scale) runPod(ctx context.Context, d *appsv1.Deployment, starts bool) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-0", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
	if starts {
		if d.Status.UnavailableReplicas == 0 {
			return nil
		}
		return client.IgnoreNotFound(K8s.Delete(ctx, pod))
	}
	if err := K8s.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "0/1 nodes are available: 1 Too many pods.", LastTransitionTime: metav1.Now(),
	}}}
	return K8s.Status().Update(ctx, pod)
}

// setStarts changes whether pods can start, also those of the present Deployments.
func (s *scale) setStarts(ctx context.Context, starts bool) {
	GinkgoHelper()
	s.starts.Store(starts)
	deployments := &appsv1.DeploymentList{}
	Expect(s.view.List(ctx, deployments)).To(Succeed())
	for i := range deployments.Items {
		s.queue.Add(client.ObjectKeyFromObject(&deployments.Items[i]))
	}
}

// phase measures the manager while something goes on. Its time ends when that returns.
func (s *scale) phase(name string, goesOn func() error) *report.Phase {
	GinkgoHelper()
	By(name)
	pid := theManager.command.Process.Pid
	s.audit.Requests()
	resetPeakMemory(pid)
	before, begin := cpuSeconds(pid), time.Now()
	Expect(goesOn()).To(Succeed())
	phase := report.Phase{Name: name, Seconds: time.Since(begin).Seconds()}
	if now := theManager.command.Process.Pid; now != pid {
		pid, before = now, 0
	}
	phase.CPUSeconds, phase.PeakBytes = cpuSeconds(pid)-before, peakMemory(pid)
	requests := NewRequests()
	requests.Add(managerUser, s.audit.Requests())
	phase.SetRequests(requests)
	s.phases = append(s.phases, phase)
	return &s.phases[len(s.phases)-1]
}

// settle waits until the manager has been calm, and returns the time from now to its last request.
func (s *scale) settle(ctx context.Context) time.Duration {
	GinkgoHelper()
	begin := time.Now()
	log, last := OpenAuditLog(controlPlane.AuditLog), begin
	Eventually(ctx, func() time.Duration {
		requests := NewRequests()
		requests.Add(managerUser, log.Requests())
		if requests.Total() > 0 {
			last = time.Now()
		}
		return time.Since(last)
	}).WithTimeout(10 * time.Minute).Should(BeNumerically(">", s.calm))
	return last.Sub(begin)
}

// allReady waits until OperatorCollections are Ready with their present spec, by the benchmark's own informers.
func (s *scale) allReady(ctx context.Context, collections ...client.Object) error {
	return s.await(ctx, func() (bool, error) {
		for _, object := range collections {
			oc := &v2beta2.OperatorCollection{}
			if err := s.view.Get(ctx, client.ObjectKeyFromObject(object), oc); err != nil {
				return false, client.IgnoreNotFound(err)
			}
			ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady)
			if oc.Generation < object.GetGeneration() || ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != oc.Generation {
				return false, nil
			}
		}
		return true, nil
	})
}

// await asks ten times per second.
func (s *scale) await(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// threeKinds is a collection of three kinds, each with several variables.
func threeKinds(i int, version string) []byte {
	name := fmt.Sprintf("scale%d", i)
	var config strings.Builder
	fmt.Fprintf(&config, "domain: %s\nname: %s\nversion: %s\ndisplayName: Scale %d\nresources:\n", domain, name, version, i)
	for _, kind := range []string{"Region", "Queue", "Dataset"} {
		fmt.Fprintf(&config, `  - kind: Scale%d%s
    displayName: %s %d
    description: One of three kinds of a collection to measure with.
    playbook: play.yml
    finalizer: play.yml
    vars:
      - {name: region, displayName: Region, description: Its name., type: string, required: true}
      - {name: owner, displayName: Owner, description: Who pays for it., type: string}
      - {name: size, displayName: Size, description: In MiB., type: integer, default: 16}
      - {name: shared, displayName: Shared, description: Whether others use it., type: boolean, default: false}
`, i, kind, kind, i)
	}
	return Build(Minimal(domain, name, version, config.String(), nil))
}

// collections are OperatorCollections that were not created yet, and their namespaces, which were.
func (s *scale) collections(ctx context.Context, count int) []client.Object {
	GinkgoHelper()
	var objects []client.Object
	namespace := ""
	for i := range count {
		if i%collectionsPerNamespace == 0 {
			namespace = fmt.Sprintf("scale-%d", i/collectionsPerNamespace)
			Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		}
		objects = append(objects, newCollection(namespace, fmt.Sprintf("scale-%d", i), pinned(threeKinds(i, "1.0.0"))))
	}
	return objects
}

// save writes the measurement to BENCH_OUTPUT, if that is set.
func (s *scale) save(name string, result report.Scale) {
	GinkgoHelper()
	result.Phases, result.Machine = s.phases, s.machine
	AddReportEntry(name, result.Text(), ReportEntryVisibilityAlways)
	write(name, result)
}

// write stores a measurement in BENCH_OUTPUT, if that is set. BENCH_ROUND tells rounds of the same apart.
func write(name string, measurement any) {
	GinkgoHelper()
	if folder := os.Getenv("BENCH_OUTPUT"); folder != "" {
		file := fmt.Sprintf("%s-%s.json", name, cmp.Or(os.Getenv("BENCH_ROUND"), "1"))
		Expect(report.Write(filepath.Join(folder, file), measurement)).To(Succeed())
	}
}

// size is the number in an environment variable. The spec is skipped without it.
func size(variable string) int {
	GinkgoHelper()
	number, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || number < 1 {
		Skip(variable + " is not set: run make bench-scale")
	}
	return number
}

// resetPeakMemory has peakMemory count from now on.
func resetPeakMemory(pid int) {
	GinkgoHelper()
	Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o200)).To(Succeed())
}

// peakMemory is the most resident memory of a process, in bytes.
func peakMemory(pid int) int64 {
	GinkgoHelper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	Expect(err).NotTo(HaveOccurred())
	_, after, _ := strings.Cut(string(content), "VmHWM:")
	var kibibytes int64
	_, err = fmt.Sscanf(after, "%d kB", &kibibytes)
	Expect(err).NotTo(HaveOccurred())
	return kibibytes << 10
}

// cpuSeconds is the processor time of a process. Linux counts hundredths of a second.
func cpuSeconds(pid int) float64 {
	GinkgoHelper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	Expect(err).NotTo(HaveOccurred())
	_, after, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(after)
	user, err := strconv.ParseFloat(fields[11], 64)
	Expect(err).NotTo(HaveOccurred())
	system, err := strconv.ParseFloat(fields[12], 64)
	Expect(err).NotTo(HaveOccurred())
	return (user + system) / 100
}
