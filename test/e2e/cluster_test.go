//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

const (
	managerNamespace = "collection-operator-system"
	managerName      = "collection-operator-controller-manager"
	// instanceAPI is the API in which the kinds of the test collection are served.
	instanceAPI = "suboperator.zoscb.ibm.com/v1minor0patch0"
	// instanceFinalizer keeps an instance until its finalizer playbook ran successfully.
	instanceFinalizer = "suboperator.zoscb.ibm.com/finalizer"
)

// run runs a command, fails the spec if the command fails, and returns what it printed to its standard output.
func run(ctx context.Context, name string, args ...string) string {
	GinkgoHelper()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	Expect(err).NotTo(HaveOccurred(), "%s %s:\n%s%s", name, strings.Join(args, " "), &stdout, &stderr)
	return stdout.String()
}

// output runs a command and returns what it printed to both of its outputs.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var printed bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Stdout, command.Stderr = &printed, &printed
	err := command.Run()
	return printed.String(), err
}

func kubectlPath() string { return os.Getenv("KUBECTL") }

func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	return run(ctx, kubectlPath(), args...)
}

// kubectlWait is what a user's script does. It returns what kubectl printed, and an error if the wait timed out.
func kubectlWait(ctx context.Context, resource, timeout string) (string, error) {
	return output(ctx, kubectlPath(), "wait", "-n", namespace, "--for=condition=Ready", "--timeout="+timeout, resource)
}

// instance is a custom resource of the test collection.
func instance(kind, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": instanceAPI,
		"kind":       kind,
		"metadata":   map[string]any{"name": name, "namespace": namespace},
		"spec":       spec,
	}}
}

func dataFile(name string, spec map[string]any) *unstructured.Unstructured {
	return instance("DataFile", name, spec)
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed(), "create %T %s", object, object.GetName())
	}
}

// patch merges changes, a JSON document, into an object.
func patch(ctx context.Context, object client.Object, changes string) {
	GinkgoHelper()
	Expect(k8s.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(changes)))).To(Succeed())
}

func remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
}

// read returns the object as the cluster has it now.
func read(ctx context.Context, g Gomega, object client.Object) *unstructured.Unstructured {
	gvk, err := apiutil.GVKForObject(object, k8s.Scheme())
	g.Expect(err).NotTo(HaveOccurred())
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(gvk)
	g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), live)).To(Succeed())
	return live
}

// gone returns whether the object does not exist any more.
func gone(ctx context.Context, object client.Object) func(Gomega) bool {
	return func(g Gomega) bool {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		g.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		return apierrors.IsNotFound(err)
	}
}

// field returns a text of the live object, "" if it has none.
func field(ctx context.Context, object client.Object, path ...string) func(Gomega) string {
	return func(g Gomega) string {
		text, _, err := unstructured.NestedString(read(ctx, g, object).Object, path...)
		g.Expect(err).NotTo(HaveOccurred())
		return text
	}
}

// condition returns a condition of the live object, or an empty one.
func condition(ctx context.Context, object client.Object, conditionType string) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		conditions, _, err := unstructured.NestedSlice(read(ctx, g, object).Object, "status", "conditions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, item := range conditions {
			var c metav1.Condition
			if fields, ok := item.(map[string]any); ok {
				g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &c)).To(Succeed())
			}
			if c.Type == conditionType {
				return c
			}
		}
		return metav1.Condition{Type: conditionType}
	}
}

func beTrue() types.GomegaMatcher { return HaveField("Status", metav1.ConditionTrue) }

func beFalse() types.GomegaMatcher { return HaveField("Status", metav1.ConditionFalse) }

func because(reason string) types.GomegaMatcher { return HaveField("Reason", reason) }

func saying(text string) types.GomegaMatcher { return HaveField("Message", ContainSubstring(text)) }

// expectSuccess waits until the last run of an instance's playbook succeeded.
func expectSuccess(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(condition(ctx, object, "Successful")).WithContext(ctx).Should(beTrue())
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
		{"logs", "-n", managerNamespace, "deployment/" + managerName, "--tail=60"},
		{"logs", "-n", namespace, "-l", "operator-name", "--all-containers", "--tail=150"},
	} {
		printed, _ := output(ctx, kubectlPath(), args...)
		GinkgoWriter.Printf("\n$ kubectl %s\n%s\n", strings.Join(args, " "), printed)
	}
}

func mustJSON(value any) string {
	GinkgoHelper()
	text, err := json.Marshal(value)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}
