//go:build e2e

// Package e2e tells the product's stories on a real node: a real kubelet, the real ansible-operator, and SSH servers in
// pods that stand in for z/OS. It needs the development cluster (make e2e starts it), and removes the demo from it.
// E2E_KUBECONFIG and KUBECTL name another cluster, which must have the same images and write the same audit log.
//
// The stories share one installation and run in the order below. Environment: E2E_IDLE is how long the idle cluster is
// watched (default 5m), E2E_KEEP=true leaves everything in place at the end.
//
// Stories labelled olm need the Operator Lifecycle Manager (devcluster up --olm) and a manager that may use it
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
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
)

// namespace holds everything that the stories make.
const namespace = "e2e"

// The cluster under test.
var (
	k8s        client.Client
	restConfig *rest.Config
	projectDir string
	lpar1      = &target{name: "lpar1", user: "ibmuser"}
	lpar2      = &target{name: "lpar2", user: "opsuser", passphrase: "open sesame"}
	archives   = map[string][]byte{}
)

func TestEndToEnd(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(2 * time.Minute)
	SetDefaultEventuallyPollingInterval(500 * time.Millisecond)
	SetDefaultConsistentlyDuration(10 * time.Second)
	SetDefaultConsistentlyPollingInterval(time.Second)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Collection Operator on a real node")
}

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	projectDir, err = filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	kubeconfig := cmp.Or(os.Getenv("E2E_KUBECONFIG"), filepath.Join(projectDir, ".devcluster", "kubeconfig"))
	for name, value := range map[string]string{
		"KUBECONFIG": kubeconfig, "DEMO_KUBECONFIG": kubeconfig,
		"KUBECTL": cmp.Or(os.Getenv("KUBECTL"), filepath.Join(projectDir, ".devcluster", "bin", "kubectl")),
	} {
		Expect(os.Setenv(name, value)).To(Succeed())
	}
	restConfig, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	restConfig.QPS, restConfig.Burst = 50, 100
	restConfig.WarningHandler = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme, operatorsv1.AddToScheme, operatorsv1alpha1.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	// The demo holds the collection's name and kinds; its script also knows how to install the manager.
	removeWorld(ctx)
	run(ctx, filepath.Join(projectDir, "hack", "demo.sh"), "clean")
	run(ctx, filepath.Join(projectDir, "hack", "demo.sh"), "install")
}, NodeTimeout(15*time.Minute))

var _ = Describe("Collection Operator", Ordered, ContinueOnFailure, func() {
	BeforeAll(startWorld, NodeTimeout(5*time.Minute))
	AfterEach(explainFailure, NodeTimeout(time.Minute))
	AfterAll(func(ctx context.Context) {
		if os.Getenv("E2E_KEEP") == "" {
			removeWorld(ctx)
		}
	}, NodeTimeout(5*time.Minute))

	Context("given bad input", badInputStories)
	Context("given a collection", installationStories)
	Context("given custom resources", customResourceStories)
	Context("given hostile text", injectionStories)
	Context("given somebody in an operator's pod", containmentStories)
	Context("given an endpoint that goes away", outageStories)
	Context("given personal credentials", personalStories)
	Context("given files it does not know", discoveryStories)
	Context("given nothing to do", idleStories)
	Context("given an archive that was uploaded", uploadStories)
	Context("given a crash", crashStories)
	Context("given a deletion", deletionStories)
})

var _ = ReportAfterSuite("attacks", func(report Report) {
	if table := attack.Table(report); table != "" {
		fmt.Print("\nAttacks\n\n", table)
	}
})
