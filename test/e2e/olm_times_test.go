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
	"github.com/collection-operator/collection-operator/test/bench/report"
	. "github.com/collection-operator/collection-operator/test/fixture"
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
type timesEnvironment struct {
	environment
	archives map[string][]byte
}

// Times are reported and never judged: they say more about the machine than about the code.
var _ = Describe("The time to install a collection", Label("olm", "times"), Ordered, func() {
	e := &timesEnvironment{environment: environment{namespace: "e2e-olm-times", domain: "times-lab"}}

	BeforeAll(func(ctx context.Context) {
		expectOLM(ctx)
		folders := map[string]fs.FS{}
		for round := range timedRounds {
			for _, way := range []string{"olm", "direct", "apply"} {
				folders[timedName(way, round)+".tar.gz"] = timedCollection(timedName(way, round))
			}
		}
		e.archives = archivesOf(folders)
		e.start(ctx, e.archives)
		operatorGroup(ctx, e.namespace)
	})
	AfterEach(e.explain)
	AfterAll(e.cleanUp)

	It("is reported for OLM, for the manager and for kubectl apply", func(ctx context.Context) {
		experiment := gmeasure.NewExperiment("Time to install a collection")
		AddReportEntry(experiment.Name, experiment)
		for round := range timedRounds {
			e.timeOLM(ctx, experiment, timedName("olm", round))
			e.timeDirect(ctx, experiment, timedName("direct", round))
			e.timeApply(ctx, experiment, timedName("apply", round))
		}
		figures := report.Figures{Name: "bench-olm", Machine: report.ThisMachine()}
		for _, name := range []string{timeToPackage, timeToCSV, timeToReady, timeToApply} {
			for _, took := range experiment.Get(name).Durations {
				figures.Add(name, "s", took.Seconds())
			}
		}
		figures.AddRatio(timeToReady+" / "+timeToApply, timeToReady, timeToApply)
		figures.AddRatio(timeToCSV+" / "+timeToApply, timeToCSV, timeToApply)
		saveFigures(&figures)
	})
})

func timedName(way string, round int) string { return fmt.Sprintf("%s%d", way, round) }

// timedCollection has one kind, named after the collection.
func timedCollection(name string) fstest.MapFS {
	return minimalOf("times-lab", name, strings.ToUpper(name[:1])+name[1:], nil)
}

func (e *timesEnvironment) url(name string) string {
	return "http://archives." + e.namespace + ".svc.cluster.local/" + name + ".tar.gz"
}

// imports creates a SubOperatorConfig that decides who installs, and then the collection. It returns when the clock started.
func (e *timesEnvironment) imports(ctx context.Context, name string, method v2beta2.InstallMethod) (*v2beta2.OperatorCollection, *v2beta2.SubOperatorConfig, time.Time) {
	GinkgoHelper()
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: e.meta(name), Spec: v2beta2.SubOperatorConfigSpec{
		OperatorCollection: name, Install: method, Mapping: []v2beta2.NamespaceMapping{{Namespace: e.namespace}},
	}}
	oc := &v2beta2.OperatorCollection{ObjectMeta: e.meta(name), Spec: v2beta2.OperatorCollectionSpec{
		CollectionURL: e.url(name), Digest: DigestOf(e.archives[name+".tar.gz"]), DeletionPolicy: v2beta2.DeletionFinalize,
	}}
	Create(ctx, soc)
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).Should(WithReason(v2beta2.ReasonCollectionNotFound))
	start := time.Now()
	Create(ctx, oc)
	return oc, soc, start
}

func (e *timesEnvironment) timeOLM(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	oc, soc, start := e.imports(ctx, name, v2beta2.InstallOLM)
	operator := e.domain + "-" + name + "-operator"
	manifest := packageManifest(operator, e.namespace)
	Eventually(ctx, Gone(ctx, manifest)).WithPolling(50 * time.Millisecond).Should(BeFalse())
	experiment.RecordDuration(timeToPackage, time.Since(start))
	csv := &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: e.meta(operator + ".v1.0.0")}
	Eventually(ctx, func(g Gomega) {
		g.Expect(Field(ctx, csv, "status", "phase")(g)).To(BeEquivalentTo(operatorsv1alpha1.CSVPhaseSucceeded))
	}).WithPolling(50 * time.Millisecond).Should(Succeed())
	experiment.RecordDuration(timeToCSV, time.Since(start))
	e.uninstall(ctx, oc, soc)
}

func (e *timesEnvironment) timeDirect(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	oc, soc, start := e.imports(ctx, name, v2beta2.InstallDirect)
	Eventually(ctx, Condition(ctx, soc, v2beta2.ConditionReady)).WithPolling(50 * time.Millisecond).Should(ConditionTrue())
	experiment.RecordDuration(timeToReady, time.Since(start))
	e.uninstall(ctx, oc, soc)
}

func (e *timesEnvironment) uninstall(ctx context.Context, oc *v2beta2.OperatorCollection, soc *v2beta2.SubOperatorConfig) {
	GinkgoHelper()
	Remove(ctx, oc)
	Eventually(ctx, Gone(ctx, oc)).Should(BeTrue())
	Eventually(ctx, Gone(ctx, soc)).Should(BeTrue())
}

// artifactURL is where an operator's pod gets the archive. Here it is the web server of the lab: the manager has not
// imported this one.
var artifactURL = regexp.MustCompile(`(?m)^  artifactURL: .*$`)

// timeApply applies the objects that the manager writes, rendered beforehand, with the Secret that is never printed.
func (e *timesEnvironment) timeApply(ctx context.Context, experiment *gmeasure.Experiment, name string) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	archive, manifest := filepath.Join(dir, name+".tar.gz"), filepath.Join(dir, name+".yaml")
	Expect(os.WriteFile(archive, e.archives[name+".tar.gz"], 0o600)).To(Succeed())
	rendered := Run(ctx, kubectlCollection, "render", archive, "--namespace", e.namespace,
		"--runtime-image", "localhost/collection-operator/runtime:dev", "--artifact-url", "http://archives")
	Expect(artifactURL.FindAllString(rendered, -1)).To(HaveLen(1))
	rendered = artifactURL.ReplaceAllLiteralString(rendered, "  artifactURL: "+e.url(name))
	Expect(os.WriteFile(manifest, []byte(rendered), 0o600)).To(Succeed())
	operator := e.domain + "-" + name + "-operator"
	Create(ctx, &corev1.Secret{ObjectMeta: e.meta(operator + "-endpoints")})
	DeferCleanup(func(ctx context.Context) { e.unapply(ctx, manifest, operator) })

	start := time.Now()
	kubectl(ctx, "apply", "--server-side", "-f", manifest)
	deployment := &appsv1.Deployment{ObjectMeta: e.meta(operator)}
	Eventually(ctx, Condition(ctx, deployment, string(appsv1.DeploymentAvailable))).WithPolling(50 * time.Millisecond).Should(ConditionTrue())
	experiment.RecordDuration(timeToApply, time.Since(start))
	e.unapply(ctx, manifest, operator)
}

func (e *timesEnvironment) unapply(ctx context.Context, manifest, operator string) {
	GinkgoHelper()
	kubectl(ctx, "delete", "--ignore-not-found", "-f", manifest)
	Remove(ctx, &corev1.Secret{ObjectMeta: e.meta(operator + "-endpoints")})
}
