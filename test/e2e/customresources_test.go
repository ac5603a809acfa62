//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// helloContent is read by runs of a resource, and of those that refer to it, until the last of them is deleted.
var helloContent = &corev1.Secret{
	ObjectMeta: metav1.ObjectMeta{Name: "hello-content", Namespace: namespace, Labels: map[string]string{v2beta2.LabelRuntime: v2beta2.LabelRuntimeAll}},
	StringData: map[string]string{"content": "a well kept secret"},
}

// inOperator runs a script in the operator's pod.
func inOperator(ctx context.Context, script string) string {
	GinkgoHelper()
	return kubectl(ctx, "exec", "-n", namespace, "deployment/"+operator.Name, "--", "/bin/sh", "-euc", script)
}

func customResourceSpecs() {
	hello := dataFile("hello", map[string]any{
		"zosendpoint": lpar1.name,
		"filename":    "hello.txt",
		"lines":       []any{"first line", "second line"},
		"owner_info":  map[string]any{"name": "Jane Doe", "notify": true},
	})

	It("creates what a custom resource asks for, defaults included", func(ctx context.Context) {
		Create(ctx, hello.DeepCopy())
		expectSuccess(ctx, hello)
		content := lpar1.content(ctx, "hello.txt")
		Expect(content).To(Equal(`# Managed by example.zos_files
# written on lpar1 by ibmuser
# file hello.txt, keep 1.5 years
# owner Jane Doe, Systems, extension 4711, notify
first line
second line
`))
		Expect(lpar1.shell(ctx, "stat -c '%a %U' "+lpar1.base()+"/hello.txt")).To(Equal("640 ibmuser\n"))
		Expect(Field(ctx, hello, "status", "path")(Default)).To(Equal(lpar1.base() + "/hello.txt"))
		Expect(Field(ctx, hello, "status", "sha256")(Default)).To(Equal(fmt.Sprintf("%x", sha256.Sum256([]byte(content)))))
		Expect(Live(ctx, Default, hello).GetFinalizers()).To(ContainElement(InstanceFinalizer))
	})

	It("updates it, with every type of variable, through the collection's own plugins", func(ctx context.Context) {
		Create(ctx, helloContent.DeepCopy())
		Patch(ctx, hello.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{
			"format": "records", "record_length": 12, "lines": []any{"short", "much longer than twelve"},
			"retention_years": 2.25, "uppercase": true, "contentSecret": helloContent.Name, "DFS_Mode": "0600",
			"owner_info": map[string]any{"department": "Storage", "extension": 1, "notify": false},
		}}))
		Eventually(ctx, func(g Gomega) {
			g.Expect(lpar1.content(ctx, "hello.txt")).To(HaveSuffix("\nSHORT.......\nMUCH LONGER \n"))
		}).Should(Succeed())
		expectSuccess(ctx, hello)
		content := lpar1.content(ctx, "hello.txt")
		Expect(content).To(ContainSubstring("keep 2.25 years\n# owner Jane Doe, Storage, extension 1\n"))
		Expect(content).To(ContainSubstring(fmt.Sprintf("# secret %x\n", sha256.Sum256([]byte("a well kept secret")))))
		Expect(lpar1.shell(ctx, "stat -c %a "+lpar1.base()+"/hello.txt")).To(Equal("600\n"))
		for _, log := range []string{kubectl(ctx, "logs", "-n", namespace, "deployment/"+operator.Name), runLog(ctx, "DataFile", "hello")} {
			Expect(log).NotTo(ContainSubstring("well kept"))
			Expect(log).NotTo(ContainSubstring("PRIVATE KEY"))
		}
	})

	It("keeps the run's log where clients look for it", func(ctx context.Context) {
		Expect(runLog(ctx, "DataFile", "hello")).To(ContainSubstring("PLAY RECAP"))
	})

	It("refuses values that the collection does not allow", func(ctx context.Context) {
		for _, spec := range []map[string]any{
			{"filename": "x"},
			{"zosendpoint": lpar1.name},
			{"zosendpoint": "not a name", "filename": "x"},
			{"zosendpoint": lpar1.name, "filename": "x", "format": "ebcdic"},
			{"zosendpoint": lpar1.name, "filename": "x", "lines": "one"},
			{"zosendpoint": lpar1.name, "filename": "x", "record_length": "eighty"},
			{"zosendpoint": lpar1.name, "filename": "x", "owner_info": map[string]any{"department": "nameless"}},
		} {
			err := K8s.Create(ctx, dataFile("refused", spec))
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "%v: %v", spec, err)
		}
	})

	It("runs on the endpoint that the resource names, and on no other", func(ctx context.Context) {
		second := dataFile("second", map[string]any{"zosendpoint": lpar2.name, "filename": "second.csv", "format": "csv", "lines": []any{"a", "b"}})
		Create(ctx, second.DeepCopy())
		expectSuccess(ctx, second)
		Expect(lpar2.content(ctx, "second.csv")).To(ContainSubstring("# written on lpar2 by opsuser\n"))
		Expect(lpar2.content(ctx, "second.csv")).To(HaveSuffix("\n1;a\n2;b\n"))
		Expect(lpar1.files(ctx)).NotTo(ContainElement("second.csv"))
		Expect(lpar2.files(ctx)).NotTo(ContainElement("hello.txt"))
	})

	It("runs in the operator's own pod for a local endpoint", func(ctx context.Context) {
		local := dataFile("local", map[string]any{"zosendpoint": "here", "filename": "local.txt", "lines": []any{"in the pod"}})
		Create(ctx, local.DeepCopy())
		expectSuccess(ctx, local)
		Expect(inOperator(ctx, "cat /tmp/files/local.txt")).To(HaveSuffix("\nin the pod\n"))
		Remove(ctx, local.DeepCopy())
		Eventually(ctx, Gone(ctx, local)).Should(BeTrue())
		Expect(inOperator(ctx, "ls /tmp/files")).To(BeEmpty())
	})

	It("fails a resource whose endpoint is not mapped", func(ctx context.Context) {
		stray := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: "lpar3", Namespace: namespace},
			Spec:       v2beta2.ZosEndpointSpec{Host: lpar1.host(), CredentialName: lpar2.name + "-credential"},
		}
		Create(ctx, stray)
		DeferCleanup(Remove, stray)
		unmapped := dataFile("unmapped", map[string]any{"zosendpoint": "lpar3", "filename": "unmapped.txt"})
		Create(ctx, unmapped.DeepCopy())
		Eventually(ctx, Condition(ctx, unmapped, "Failure")).Should(And(ConditionTrue(), WithMessage("EndpointNotFound")))
		Patch(ctx, unmapped.DeepCopy(), `{"spec":{"zosendpoint":"lpar1"}}`)
		expectSuccess(ctx, unmapped)
		Remove(ctx, unmapped.DeepCopy())
		Eventually(ctx, Gone(ctx, unmapped)).Should(BeTrue())
	})

	It("acts on another resource by kindReference", func(ctx context.Context) {
		fileCopy := instance("FileCopy", "hello-copy", map[string]any{"zosendpoint": lpar1.name, "source": "hello", "copy_name": "copied.txt"})
		Create(ctx, fileCopy.DeepCopy())
		expectSuccess(ctx, fileCopy)
		Expect(lpar1.shell(ctx, "cat "+lpar1.base()+"/copies/copied.txt")).To(Equal(lpar1.content(ctx, "hello.txt")))

		Remove(ctx, fileCopy.DeepCopy())
		Eventually(ctx, Gone(ctx, fileCopy)).Should(BeTrue())
		Expect(lpar1.shell(ctx, "ls "+lpar1.base()+"/copies")).To(BeEmpty())
		Expect(lpar1.files(ctx)).To(ContainElement("hello.txt"))
	})

	It("deletes through the finalizer playbook", func(ctx context.Context) {
		Remove(ctx, hello.DeepCopy())
		Eventually(ctx, Gone(ctx, hello)).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement("hello.txt"))
	})

	It("never sends a module by SFTP", func(ctx context.Context) {
		for _, t := range []*target{lpar1, lpar2} {
			log := t.log(ctx)
			Expect(log).To(ContainSubstring("Accepted publickey for " + t.user))
			Expect(strings.ToLower(log)).NotTo(ContainSubstring("sftp"), t.name)
		}
	})
}

// runLog is what ansible printed in the last run for an instance.
func runLog(ctx context.Context, kind, name string) string {
	GinkgoHelper()
	return inOperator(ctx, "cat /tmp/ansible-operator/runner/"+instanceAPI+"/"+kind+"/"+namespace+"/"+name+"/artifacts/latest/stdout")
}
