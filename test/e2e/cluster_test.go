//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	// instanceAPI is the API in which the kinds of the test collection are served.
	instanceAPI = SharedGroup + "/" + instanceVersion
	// instanceVersion is version 1.0.0.
	instanceVersion = "v1minor0patch0"
)

func kubectlPath() string { return os.Getenv("KUBECTL") }

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return Run(ctx, kubectlPath(), args...)
}

// kubectlWait is what a user's script does. It returns what kubectl printed, and an error if the wait timed out.
func kubectlWait(ctx context.Context, resource, timeout string) (string, error) {
	return Output(ctx, kubectlPath(), "wait", "-n", namespace, "--for=condition=Ready", "--timeout="+timeout, resource)
}

// instance is a custom resource of the test collection.
func instance(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return Instance(instanceVersion, kind, namespace, name, spec)
}

func dataFile(name string, spec map[string]any) *unstructured.Unstructured {
	return instance("DataFile", name, spec)
}

// expectSuccess waits until the last run of an instance's playbook succeeded, and no other one is due for the present spec.
func expectSuccess(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		g.Expect(Condition(ctx, object, runstatus.ConditionReady)(g)).
			To(And(ConditionTrue(), HaveField("ObservedGeneration", Live(ctx, g, object).GetGeneration())))
		g.Expect(Condition(ctx, object, runstatus.ConditionSuccessful)(g)).To(ConditionTrue())
	}).Should(Succeed())
}

// ask requests a run of an instance's playbook.
func ask(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Patch(ctx, object.DeepCopyObject().(client.Object), MustJSON(map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{gate.AnnotationRequestedAt: time.Now().Format(time.RFC3339Nano)},
	}}))
}

// explainFailure prints what one needs to understand a spec that failed.
func explainFailure(ctx context.Context) {
	if !CurrentSpecReport().Failed() {
		return
	}
	for _, args := range [][]string{
		{"get", "pods,deployments", "-A", "-o", "wide"},
		{"get", "zoscb", "-n", namespace, "-o", "yaml"},
		{"get", "datafiles,filecopys,filediscoverys,mirrors", "-n", namespace, "-o", "yaml"},
		{"logs", "-n", ManagerNamespace, "-l", ManagerSelector, "--tail=60"},
		{"logs", "-n", namespace, "-l", "operator-name", "--all-containers", "--tail=150"},
	} {
		printed, _ := Output(ctx, kubectlPath(), args...)
		GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
	}
}
