//go:build e2e

// Package e2e tries the product on a real node: a real kubelet, the real ansible-operator, and SSH servers in pods that
// stand in for z/OS. It needs the development cluster (make e2e starts it), and removes the demo from it. E2E_KUBECONFIG and
// KUBECTL name another cluster, which must have the same images and write the same audit log.
//
// Ordered containers run side by side, in the processes of Ginkgo's command, each in namespaces of its own. What disturbs
// the manager or needs a cluster in which nothing else happens is Serial: it runs after all others. Environment: E2E_IDLE
// is how long the idle cluster is watched (default 1m), E2E_OUTAGE how long a system is away (default 30s), E2E_KEEP=true
// leaves everything in place at the end.
//
// Specs labelled olm need the Operator Lifecycle Manager (devcluster up --olm) and a manager that may use it
// (COMPONENTS=olm). The others run with a manager that may not.
package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// namespace is that of the main container, Collection Operator.
const namespace = "e2e"

// What the specs of a process share.
var (
	projectDir string
	// kubectlCollection is the path of the tool.
	kubectlCollection string
	lpar1             = &target{name: "lpar1", user: "ibmuser"}
	lpar2             = &target{name: "lpar2", user: "opsuser", passphrase: "open sesame"}
	archives          = map[string][]byte{}
)

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(RunTimeout)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	SetDefaultConsistentlyDuration(10 * time.Second)
	SetDefaultConsistentlyPollingInterval(time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Collection Operator on a real node")
}

// One process builds the tool and installs the manager for all.
var _ = SynchronizedBeforeSuite(func(ctx context.Context) {
	connect()
	Run(ctx, "go", "build", "-C", projectDir, "-trimpath", "-o", kubectlCollection, "./cmd/kubectl-collection")
	// The demo holds the collection's name and kinds; its script also knows how to install the manager.
	tearDown(ctx)
	Run(ctx, filepath.Join(projectDir, "hack", "demo.sh"), "clean")
	Run(ctx, filepath.Join(projectDir, "hack", "demo.sh"), "install")
}, func(context.Context) { connect() })

func connect() {
	var err error
	projectDir, err = filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	kubectlCollection = filepath.Join(projectDir, "bin", "kubectl-collection")
	kubeconfig := cmp.Or(os.Getenv("E2E_KUBECONFIG"), filepath.Join(projectDir, ".devcluster", "kubeconfig"))
	for name, value := range map[string]string{
		"KUBECONFIG": kubeconfig, "DEMO_KUBECONFIG": kubeconfig,
		"KUBECTL": cmp.Or(os.Getenv("KUBECTL"), filepath.Join(projectDir, ".devcluster", "bin", "kubectl")),
	} {
		Expect(os.Setenv(name, value)).To(Succeed())
	}
	Connect(kubeconfig)
}

var _ = Describe("Collection Operator", Label("story"), Slow, Ordered, ContinueOnFailure, func() {
	BeforeAll(setUp)
	AfterEach(explainFailure)
	AfterAll(func(ctx context.Context) {
		if os.Getenv("E2E_KEEP") == "" {
			tearDown(ctx)
		}
	})

	Context("given bad input", badInputSpecs)
	Context("given a collection", installationSpecs)
	Context("given custom resources", customResourceSpecs)
	Context("given hostile text", injectionSpecs)
	Context("given somebody in an operator's pod", containmentSpecs)
	Context("given an endpoint that goes away", outageSpecs)
	Context("given personal credentials", personalSpecs)
	Context("given files it does not know", discoverySpecs)
	Context("given an archive that was uploaded", uploadSpecs)
	Context("given an archive that is pushed", pushSpecs)
	Context("given an author without Ansible", authorSpecs)
	Context("given a deletion", deletionSpecs)
})

var _ = ReportAfterSuite("times", func(report Report) {
	fmt.Print("\nTimes\n\n", Times(report))
})

var _ = ReportAfterSuite("attacks", func(report Report) {
	if table := attack.Table(report); table != "" {
		fmt.Print("\nAttacks\n\n", table)
	}
})
