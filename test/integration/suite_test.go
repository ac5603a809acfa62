// Package integration runs the manager's real binary, as its own ServiceAccount, against a real API server. Nothing is
// faked but what needs a node: the suite itself writes the status of Deployments. One file tells one behaviour.
//
// The suite needs a control plane that it may fill and that runs no controllers of workloads: make test starts one.
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
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
)

// What the stories share.
var (
	// k8s reads and writes as the cluster's administrator, without a cache.
	k8s        client.Client
	restConfig *rest.Config
	// theManager is the one under test.
	theManager *managerProcess
	// web serves the archives.
	web *webServer
)

// auditLogVariable names the environment variable with the path of the API server's audit log. Only the throwaway
// control plane sets it: its presence tells that the cluster may be written to.
const auditLogVariable = "DEVCLUSTER_AUDIT_LOG"

func TestIntegration(t *testing.T) {
	if os.Getenv("KUBECONFIG") == "" || os.Getenv(auditLogVariable) == "" {
		const lacking = "SKIPPED: the integration tests need a throwaway control plane (KUBECONFIG and " +
			auditLogVariable + " are not both set): run make test"
		if os.Getenv("CI") == "true" {
			t.Fatal(lacking)
		}
		t.Skip(lacking)
	}
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(100 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	SetDefaultConsistentlyPollingInterval(100 * time.Millisecond)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "Collection Operator against a real API server")
}

var _ = BeforeSuite(func(ctx context.Context) {
	projectDir, err := filepath.Abs("../..")
	Expect(err).NotTo(HaveOccurred())
	restConfig, err = clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	Expect(err).NotTo(HaveOccurred())
	restConfig.QPS, restConfig.Burst = 200, 400
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme, operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
	} {
		Expect(add(scheme)).To(Succeed())
	}
	k8s, err = client.New(restConfig, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())

	applyManifests(ctx, filepath.Join(projectDir, "config"))
	web = startWebServer()
	DeferCleanup(web.close)
	theManager = buildManager(ctx, projectDir)
	theManager.start(ctx)
	DeferCleanup(func() {
		theManager.stop()
		theManager.checkLog()
	})
}, NodeTimeout(5*time.Minute))

var _ = AfterEach(func() {
	if CurrentSpecReport().Failed() {
		AddReportEntry("what the manager said during the story", theManager.logSince(CurrentSpecReport().StartTime))
	}
})

var _ = ReportAfterSuite("attacks", func(report Report) {
	if table := attack.Table(report); table != "" {
		fmt.Print("\nAttacks\n\n", table)
	}
})
