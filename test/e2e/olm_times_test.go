//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing/fstest"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gmeasure"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// timedRounds is how often each way of installing is measured.
const timedRounds = 5

// What the names of the measurements mean is told in docs/benchmarks.md.
const (
	timeToPackage = "OLM: PackageManifest visible"
	timeToCSV     = "OLM: CSV Succeeded"
	timeToReady   = "Direct: Ready"
	timeToApply   = "kubectl apply: Deployment Available"
)

// timesLab installs one collection after the other, each a new one: nothing of an earlier round makes a later one faster.
type timesLab struct {
	lab
	archives map[string][]byte
}

// Times are reported and never judged: they say more about the machine than about the code.
var _ = Describe("The time to install a collection", Label("olm", "times"), Ordered, func() {
	l := &timesLab{lab: lab{namespace: "e2e-olm-times", domain: "times-lab"}}

	BeforeAll(func(ctx context.Context) {
		expectOLM(ctx)
		folders := map[string]fs.FS{}
		for round := range timedRounds {
			for _, way := range []string{"olm", "direct", "apply"} {
				folders[timedName(way, round)+".tar.gz"] = timedCollection(timedName(way, round))
			}
		}
		l.archives = archivesOf(folders)
		l.start(ctx, l.archives)
	}, NodeTimeout(6*time.Minute))
	AfterEach(l.explain, NodeTimeout(time.Minute))
	AfterAll(l.cleanUp, NodeTimeout(8*time.Minute))

	It("is reported for OLM, for the manager and for kubectl apply", func(ctx context.Context) {
		experiment := gmeasure.NewExperiment("Time to install a collection")
		AddReportEntry(experiment.Name, experiment)
		for round := range timedRounds {
			l.timeOLM(ctx, experiment, timedName("olm", round))
			l.timeDirect(ctx, experiment, timedName("direct", round))
			l.timeApply(ctx, experiment, timedName("apply", round))
		}
		for _, name := range []string{timeToPackage, timeToCSV, timeToReady, timeToApply} {
			stats := experiment.GetStats(name)
			fmt.Printf("%-40s median %.1f s, %.1f to %.1f s, of %d\n", name, stats.DurationFor(gmeasure.StatMedian).Seconds(),
				stats.DurationFor(gmeasure.StatMin).Seconds(), stats.DurationFor(gmeasure.StatMax).Seconds(), stats.N)
		}
	}, NodeTimeout(30*time.Minute))
})

func timedName(way string, round int) string { return fmt.Sprintf("%s%d", way, round) }

// timedCollection has one kind, named after the collection.
func timedCollection(name string) fstest.MapFS {
	folder := minimal(name, strings.ToUpper(name[:1])+name[1:], nil)
	for _, file := range folder {
		file.Data = []byte(strings.NewReplacer("domain: example", "domain: times-lab", "namespace: example", "namespace: times_lab").Replace(string(file.Data)))
	}
	return folder
}

func (l *timesLab) url(name string) string {
	return "http://archives." + l.namespace + ".svc.cluster.local/" + name + ".tar.gz"
}

// imports creates a SubOperatorConfig that decides who installs, and then the collection. It returns when the clock started.
func (l *timesLab) imports(ctx context.Context, name string, method v2beta2.InstallMethod) (*v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig, time.Time) {
	GinkgoHelper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: l.meta(name), Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: name, Install: method, Mapping: []v2beta2.NamespaceMapping{{Namespace: l.namespace}},
	}}
	oc := &v2beta2.OperatorCollection{ObjectMeta: l.meta(name), Spec: v2beta2.OperatorCollectionSpec{
		CollectionURL: l.url(name), Digest: digestOfArchive(l.archives[name+".tar.gz"]), DeletionPolicy: v2beta2.DeletionFinalize,
	}}
	create(ctx, soc)
	Eventually(condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).Should(because(v2beta2.ReasonCollectionNotFound))
	start := time.Now()
	create(ctx, oc)
	return oc, soc, start
}

func (l *timesLab) timeOLM(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	oc, soc, start := l.imports(ctx, name, v2beta2.InstallOLM)
	operator := l.domain + "-" + name + "-operator"
	manifest := packageManifest(operator, l.namespace)
	Eventually(gone(ctx, manifest)).WithContext(ctx).WithPolling(50 * time.Millisecond).Should(BeFalse())
	experiment.RecordDuration(timeToPackage, time.Since(start))
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: l.meta(operator + ".v1.0.0")}
	Eventually(func(g Gomega) {
		g.Expect(field(ctx, csv, "status", "phase")(g)).To(BeEquivalentTo(operatorsv1alpha1.CSVPhaseSucceeded))
	}).WithContext(ctx).WithPolling(50 * time.Millisecond).Should(Succeed())
	experiment.RecordDuration(timeToCSV, time.Since(start))
	l.uninstall(ctx, oc, soc)
}

func (l *timesLab) timeDirect(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	oc, soc, start := l.imports(ctx, name, v2beta2.InstallDirect)
	Eventually(condition(ctx, soc, v2beta2.ConditionReady)).WithContext(ctx).WithPolling(50 * time.Millisecond).Should(beTrue())
	experiment.RecordDuration(timeToReady, time.Since(start))
	l.uninstall(ctx, oc, soc)
}

func (l *timesLab) uninstall(ctx context.Context, oc *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	remove(ctx, oc)
	Eventually(gone(ctx, oc)).WithContext(ctx).Should(BeTrue())
	Eventually(gone(ctx, soc)).WithContext(ctx).Should(BeTrue())
}

// artifactURL is where an operator's pod gets the archive. Here it is the web server of the lab: the manager has not
// imported this one.
var artifactURL = regexp.MustCompile(`(?m)^  artifactURL: .*$`)

// timeApply applies the objects that the manager writes, rendered beforehand, with the Secret that is never printed.
func (l *timesLab) timeApply(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	archive, manifest := filepath.Join(dir, name+".tar.gz"), filepath.Join(dir, name+".yaml")
	Expect(os.WriteFile(archive, l.archives[name+".tar.gz"], 0o600)).To(Succeed())
	rendered := run(ctx, "go", "run", "-C", projectDir, "./cmd/kubectl-collection", "render", archive, "--namespace", l.namespace,
		"--runtime-image", "localhost/collection-operator/runtime:dev")
	Expect(artifactURL.FindAllString(rendered, -1)).To(HaveLen(1))
	rendered = artifactURL.ReplaceAllLiteralString(rendered, "  artifactURL: "+l.url(name))
	Expect(os.WriteFile(manifest, []byte(rendered), 0o600)).To(Succeed())
	operator := l.domain + "-" + name + "-operator"
	create(ctx, &corev1.Secret{ObjectMeta: l.meta(operator + "-endpoints")})
	DeferCleanup(func(ctx context.Context) { l.unapply(ctx, manifest, operator) }, NodeTimeout(2*time.Minute))

	start := time.Now()
	kubectl(ctx, "apply", "--server-side", "-f", manifest)
	deployment := &appsv1.Deployment{ObjectMeta: l.meta(operator)}
	Eventually(condition(ctx, deployment, string(appsv1.DeploymentAvailable))).WithContext(ctx).WithPolling(50 * time.Millisecond).Should(beTrue())
	experiment.RecordDuration(timeToApply, time.Since(start))
	l.unapply(ctx, manifest, operator)
}

func (l *timesLab) unapply(ctx context.Context, manifest, operator string) {
	GinkgoHelper()
	kubectl(ctx, "delete", "--ignore-not-found", "-f", manifest)
	remove(ctx, &corev1.Secret{ObjectMeta: l.meta(operator + "-endpoints")})
}
