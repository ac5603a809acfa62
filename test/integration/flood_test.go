package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/integration/plot"
)

// floodMemory is the memory limit of config/manager/manager.yaml.
const floodMemory = 1 << 30

// flood is what hostile tenants do at the same time as others install collections. FLOOD is its size: 1 is that of
// docs/benchmarks.md. FLOOD_OUTPUT is the folder for data and plots. It fails if the manager exceeds its memory limit, but not
// for being slow.
type flood struct {
	size float64
	// begin is when the measurement began.
	begin time.Time

	mu     sync.Mutex
	report plot.Flood
}

var _ = Describe("In a flood", Serial, Label("flood"), func() {
	It("the manager stays below its memory limit, and others install collections", func(ctx context.Context) {
		size, err := strconv.ParseFloat(os.Getenv("FLOOD"), 64)
		if err != nil {
			Skip("FLOOD is not set: run make flood")
		}
		f := &flood{size: size}
		f.run(ctx)
	})
})

// scaled is a number of the full flood at the present size.
func (f *flood) scaled(number int) int { return max(1, int(math.Ceil(float64(number)*f.size))) }

func (f *flood) run(ctx context.Context) {
	GinkgoHelper()
	withFlags(ctx, fmt.Sprintf("--memory-limit=%d", floodMemory), "--fetch-max-bytes=33554432", "--fetch-timeout=1m", "--zap-log-level=info")
	f.begin = time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go f.watchMemory(ctx, theManager.command.Process.Pid)
	f.part(ctx, "nothing", true, func(ctx context.Context) { <-ctx.Done() })
	f.part(ctx, fmt.Sprintf("%d Secrets with 256 KiB of annotations", f.scaled(1000)), false, f.secrets(ctx))
	f.part(ctx, fmt.Sprintf("%d Leases like those of operators, with 256 KiB of annotations", f.scaled(1000)), false, f.leases(ctx))
	f.part(ctx, fmt.Sprintf("%d archives with an operator-config of 4 MiB", f.scaled(200)), false, f.archives(ctx, 4<<20))
	f.part(ctx, fmt.Sprintf("%d archives with an operator-config of 1 MiB", f.scaled(200)), false, f.archives(ctx, 1<<20))
	f.part(ctx, fmt.Sprintf("%d OperatorCollections of 500 kinds", f.scaled(100)), false, f.kinds(ctx))
	f.part(ctx, fmt.Sprintf("%d stalled downloads", f.scaled(5000)), true, f.downloads(ctx))
	f.part(ctx, "annotations changed in a loop", true, f.annotations(ctx))
	cancel()
	f.write()
	Expect(f.report.MostBytes()).To(BeNumerically("<", floodMemory), "memory of the manager")
}

// A part measures quietInstalls installations before its flood: what former floods have left slows the API server. During the
// flood it measures at least fewestInstalls, and goes on until the manager has dealt with all of it, but for not more than mostInstalls.
const (
	quietInstalls  = 5
	fewestInstalls = 5
	mostInstalls   = 60
)

// part measures installations in other namespaces while something goes on, which returns when the manager has dealt with all of it,
// or when its context ends.
func (f *flood) part(ctx context.Context, name string, endless bool, goesOn func(context.Context)) {
	GinkgoHelper()
	By(name)
	part := plot.Part{Name: name}
	for range quietInstalls {
		f.measure(ctx, &part.Before)
	}
	part.Begin = time.Since(f.begin).Seconds()
	ctx, cancel := context.WithCancel(ctx)
	finished := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(finished)
		goesOn(ctx)
	}()
	for isOver := false; len(part.During.Installs) < fewestInstalls || !isOver && len(part.During.Installs) < mostInstalls; {
		f.measure(ctx, &part.During)
		select {
		case <-finished:
			isOver = true
		default:
			isOver = endless
		}
	}
	cancel()
	<-finished
	part.End = time.Since(f.begin).Seconds()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.Parts = append(f.report.Parts, part)
}

// measure adds one installation, and as many writes without the manager.
func (f *flood) measure(ctx context.Context, to *plot.Times) {
	GinkgoHelper()
	to.Installs = append(to.Installs, f.install(ctx).Seconds())
	to.Writes = append(to.Writes, writes(ctx).Seconds())
}

// install returns the time until the operator of a new collection in a new namespace has a Deployment.
func (f *flood) install(ctx context.Context) time.Duration {
	GinkgoHelper()
	namespace, s := newNamespace(ctx), newSample()
	oc := newCollection(namespace, "oc", s.pinned())
	begin := time.Now()
	Create(ctx, oc)
	Eventually(ctx, Gone(ctx, deployment(namespace, s.operator()))).WithTimeout(5 * time.Minute).WithPolling(50 * time.Millisecond).Should(BeFalse())
	took := time.Since(begin)
	Remove(ctx, oc)
	return took
}

// writes returns the time that as many writes take as an installation, without the manager: floods also occupy the API server.
func writes(ctx context.Context) time.Duration {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	begin := time.Now()
	for i := range 25 {
		Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("one-", i)}})
	}
	return time.Since(begin)
}

// watchMemory records the resident memory of a process twice per second.
func (f *flood) watchMemory(ctx context.Context, pid int) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		content, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "status"))
		if err != nil {
			return
		}
		for _, line := range strings.Split(string(content), "\n") {
			if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
				f.mu.Lock()
				f.report.Memory = append(f.report.Memory, plot.Sample{Seconds: time.Since(f.begin).Seconds(), Bytes: kib << 10})
				f.mu.Unlock()
			}
		}
	}
}

// create creates objects, several at the same time, until all are there or the context ends. The rest is created then, so that
// every flood has its size.
func create(ctx context.Context, objects []client.Object) {
	queue := make(chan client.Object)
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for object := range queue {
				_ = K8s.Create(context.WithoutCancel(ctx), object)
			}
		})
	}
	for _, object := range objects {
		queue <- object
	}
	close(queue)
	wait.Wait()
}

// awaitJudged waits until the manager has imported or refused each OperatorCollection, or the context ends. The reasons are
// reported with their numbers.
func awaitJudged(ctx context.Context, objects []client.Object) {
	reasons := map[string]int{}
	for _, object := range objects {
		for ctx.Err() == nil {
			oc := &v2beta2.OperatorCollection{}
			if err := K8s.Get(ctx, client.ObjectKeyFromObject(object), oc); err != nil {
				break
			}
			imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
			if imported != nil && imported.Reason != v2beta2.ReasonProgressing {
				reasons[imported.Reason]++
				break
			}
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
	AddReportEntry("OperatorCollections", fmt.Sprint(reasons), ReportEntryVisibilityAlways)
}

func (f *flood) secrets(ctx context.Context) func(context.Context) {
	namespace := newNamespace(ctx)
	large := strings.Repeat("x", 256<<10-100)
	return func(ctx context.Context) {
		var objects []client.Object
		for i := range f.scaled(1000) {
			objects = append(objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("large-%d", i), Annotations: map[string]string{"example.com/large": large},
			}})
		}
		create(ctx, objects)
	}
}

func (f *flood) leases(ctx context.Context) func(context.Context) {
	namespace := newNamespace(ctx)
	large := strings.Repeat("x", 256<<10-100)
	return func(ctx context.Context) {
		var objects []client.Object
		for i := range f.scaled(1000) {
			objects = append(objects, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("domain-c%d-operator", i),
				Labels: map[string]string{runcount.Label: "true"}, Annotations: map[string]string{runcount.Annotation: large},
			}})
		}
		create(ctx, objects)
	}
}

// archives has operator-configs just below a number of bytes. The manager imports those of at most 1 MiB.
func (f *flood) archives(ctx context.Context, bytes int) func(context.Context) {
	const each = 40
	var objects []client.Object
	var namespace string
	for i := range f.scaled(200) {
		if i%each == 0 {
			namespace = newNamespace(ctx)
		}
		s := newSample()
		config := s.operatorConfig() + "\ndescription: " + strings.Repeat("word ", (bytes-1<<10)/5)
		objects = append(objects, newCollection(namespace, fmt.Sprintf("large-%d", i), pinned(Build(Minimal(domain, s.name, s.version, config, nil)))))
	}
	return func(ctx context.Context) { create(ctx, objects); awaitJudged(ctx, objects) }
}

func (f *flood) kinds(ctx context.Context) func(context.Context) {
	namespace := newNamespace(ctx)
	var objects []client.Object
	for i := range f.scaled(100) {
		s := newSample()
		var config strings.Builder
		fmt.Fprintf(&config, "domain: %s\nname: %s\nversion: 1.0.0\ndisplayName: Many\nresources:\n", domain, s.name)
		for kind := range 500 {
			fmt.Fprintf(&config, "  - {kind: %sK%d, playbook: play.yml, vars: [{name: size, displayName: Size, type: integer, default: 3}]}\n", s.kind, kind)
		}
		objects = append(objects, newCollection(namespace, fmt.Sprintf("many-%d", i), pinned(Build(Minimal(domain, s.name, "1.0.0", config.String(), nil)))))
	}
	return func(ctx context.Context) { create(ctx, objects); awaitJudged(ctx, objects) }
}

func (f *flood) downloads(ctx context.Context) func(context.Context) {
	s := newSample()
	s.files = map[string]string{"large.txt": noise(10 << 20)}
	oc := importSample(ctx, newNamespace(ctx), s)
	Get(ctx, Default, oc)
	path := "/artifacts/sha256/" + strings.TrimPrefix(oc.Status.Artifact.Digest, "sha256:") + ".tar.gz"
	return func(ctx context.Context) {
		connections := stallDownloads(context.WithoutCancel(ctx), theManager.artifactAddress, path, f.scaled(5000))
		defer connections.close()
		begin := time.Now()
		_, err := downloadFrom(context.WithoutCancel(ctx), "127.0.0.3", "http://"+theManager.artifactAddress+path)
		AddReportEntry("a download beside the stalled ones", fmt.Sprintf("%s, error: %v", time.Since(begin), err), ReportEntryVisibilityAlways)
		<-ctx.Done()
	}
}

func (f *flood) annotations(ctx context.Context) func(context.Context) {
	namespace := newNamespace(ctx)
	var all []*v2beta2.OperatorCollection
	for i := range f.scaled(20) {
		oc := newCollection(namespace, fmt.Sprintf("oc-%d", i), newSample().pinned())
		Create(ctx, oc)
		all = append(all, oc)
	}
	for _, oc := range all {
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).WithTimeout(3 * time.Minute).Should(ConditionTrue())
	}
	return func(ctx context.Context) {
		touched := 0
		for ctx.Err() == nil {
			for i, oc := range all {
				if TryPatch(ctx, oc.DeepCopy(), fmt.Sprintf(`{"metadata":{"annotations":{"look":"%d-%d"}}}`, touched, i)) == nil {
					touched++
				}
			}
		}
		AddReportEntry("annotations changed", fmt.Sprint(touched), ReportEntryVisibilityAlways)
	}
}

func (f *flood) write() {
	GinkgoHelper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.report.LimitBytes = floodMemory
	AddReportEntry("flood", f.report.Table(), ReportEntryVisibilityAlways)
	folder := os.Getenv("FLOOD_OUTPUT")
	if folder == "" {
		return
	}
	content, err := json.Marshal(f.report)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "flood.json"), append(content, '\n'), 0o644)).To(Succeed())
	for _, theme := range slices.Sorted(plot.Themes()) {
		Expect(os.WriteFile(filepath.Join(folder, "flood-"+theme+".svg"), []byte(f.report.SVG(theme)), 0o644)).To(Succeed())
	}
}
