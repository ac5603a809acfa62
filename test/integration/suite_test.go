// Package integration runs the manager's real binary, as its own ServiceAccount, against a real API server. Nothing is
// faked but what needs a node: the specs themselves write the status of Deployments. One file has one behaviour.
//
// Each process of the suite starts a control plane and a manager of its own, so that specs run side by side in processes
// and each one after the other within its own: make test runs them with Ginkgo's command.
package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// What the specs of a process share.
var (
	controlPlane ControlPlane
	// kubernetesVersion is that of the API server.
	kubernetesVersion string
	// binaries is the folder with all programs of cmd.
	binaries string
	// theManager is the one under test.
	theManager *managerProcess
	// web serves the archives.
	web *WebServer
)

func TestIntegration(t *testing.T) {
	if DevclusterBinary(projectDir()) == "" {
		const lacking = "SKIPPED: the integration specs need .devcluster/bin/devcluster, which starts their control planes: run make test"
		if os.Getenv("CI") == "true" {
			t.Fatal(lacking)
		}
		t.Skip(lacking)
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(RemovalTimeout)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Collection Operator against a real API server")
}

func projectDir() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return dir
}

// One process builds the programs for all.
var _ = SynchronizedBeforeSuite(func(ctx context.Context) {
	Run(ctx, "go", "build", "-C", projectDir(), "-trimpath", "-o", "bin/", "./cmd/...")
}, func(ctx context.Context) {
	binaries = filepath.Join(projectDir(), "bin")
	EngineBinary = filepath.Join(binaries, "engine")
	// The garbage collector notices kinds that come later after a minute.
	controlPlane = StartControlPlane(projectDir(), "--apply=config/crd/bases")
	Expect(os.Setenv("KUBECONFIG", controlPlane.Kubeconfig)).To(Succeed())
	Connect(controlPlane.Kubeconfig)
	version, err := discovery.NewDiscoveryClientForConfigOrDie(RestConfig).ServerVersion()
	Expect(err).NotTo(HaveOccurred())
	kubernetesVersion = version.GitVersion
	applyManifests(ctx, filepath.Join(projectDir(), "config"))
	web = StartWebServer()
	DeferCleanup(web.Close)
	theManager = newManager(ctx, filepath.Join(binaries, "manager"))
	theManager.start(ctx)
	DeferCleanup(func() {
		theManager.stop()
		theManager.checkLog()
	})
})

var _ = AfterEach(func(ctx context.Context) {
	if CurrentSpecReport().Failed() {
		controlPlane.AbortIfEnded()
		AddReportEntry("the end of the log of the controllers", controlPlane.ControllersLog())
		AddReportEntry("the manager's log of this spec", theManager.logSince(CurrentSpecReport().StartTime))
		theManager.start(ctx) // A spec that stopped it would else fail the next ones.
	}
})

var _ = ReportAfterSuite("times", func(report Report) {
	fmt.Printf("\nTimes with Kubernetes %s\n\n%s", kubernetesVersion, Times(report))
})

var _ = ReportAfterSuite("attacks", func(report Report) {
	if table := attack.Table(report); table != "" {
		fmt.Print("\nAttacks\n\n", table)
	}
})
