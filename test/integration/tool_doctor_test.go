package integration

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// doctorFindings runs doctor with JSON, and returns what it found as "severity kind/name: reason", without the manager, which has no pod here.
func doctorFindings(ctx context.Context, code int, binary string, args ...string) (found, unread []string) {
	GinkgoHelper()
	var report struct {
		Findings []struct {
			Severity, Check, Reason, Next string
			Object                        struct{ Kind, Name string }
			Affects                       []struct{ Kind, Name string }
		}
		Unread []string
	}
	Expect(json.Unmarshal([]byte(runTool(ctx, code, binary, append([]string{"doctor", "-o", "json"}, args...)...)), &report)).To(Succeed())
	for _, f := range report.Findings {
		if f.Check == "manager" {
			continue
		}
		line := f.Severity + " " + f.Object.Kind + "/" + f.Object.Name + ": " + f.Reason
		for _, object := range f.Affects {
			line += " > " + object.Kind + "/" + object.Name
		}
		found = append(found, line)
	}
	return found, report.Unread
}

// gathered returns the files of an archive that must-gather has written, by their name below its folder.
func gathered(path string) map[string]string {
	GinkgoHelper()
	file, err := os.Open(path)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	uncompressed, err := gzip.NewReader(file)
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for reader := tar.NewReader(uncompressed); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		Expect(err).NotTo(HaveOccurred())
		text, err := io.ReadAll(reader)
		Expect(err).NotTo(HaveOccurred())
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}

var _ = Describe("kubectl collection doctor", func() {
	It("finds causes and not their consequences, for administrators and users", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		lpar1 := newEndpoint(namespace, "lpar1", nil)
		lpar1.Spec.Host, lpar1.Spec.Hold = "192.0.2.1", "IPL on Sunday"
		Create(ctx, lpar1)
		installSample(ctx, namespace, s)
		instances := createInstances(ctx, namespace, s, "bad", "good", "waits")
		reportRun(ctx, instances[0], "Failed", runOf("1", "Failed", ""))
		reportRun(ctx, instances[1], "Succeeded", runOf("2", "Succeeded", ""))
		reportWaiting(ctx, instances[2])
		bad := "error " + s.kind + "/bad: Failed"

		found, _ := doctorFindings(ctx, 1, binary, "-n", namespace)
		Expect(found).To(ContainElements(bad, "info ZosEndpoint/lpar1: EndpointHeld", "info ZosEndpoint/lpar1: EndpointBusy > "+s.kind+"/waits"))
		Expect(found).NotTo(ContainElement(ContainSubstring("/good")))
		Expect(runTool(ctx, 1, binary, "doctor", strings.ToLower(s.kind)+"/bad", "-n", namespace)).To(And(
			MatchRegexp(`(?m)^error %s/bad in %s: Failed$`, strings.ToLower(s.kind), namespace),
			ContainSubstring("next: see its output: kubectl collection logs "+strings.ToLower(s.kind)+"/bad -n "+namespace)))

		By("with a pod that fails, in a namespace that is mapped, and a credential that is missing")
		Patch(ctx, lpar1, `{"spec":{"credentialName":"absent"}}`)
		Eventually(ctx, func(g Gomega) {
			found, _ := doctorFindings(ctx, 1, binary, "oc", "-n", namespace)
			g.Expect(found).To(ContainElement(And(HavePrefix("error Secret/absent: NotFound"), ContainSubstring(" > SubOperatorConfig/oc-soc"))))
			g.Expect(found).NotTo(ContainElement(HavePrefix("error SubOperatorConfig/")))
		}).Should(Succeed())
		runTool(ctx, 1, binary, "doctor", "-A")
		runTool(ctx, 2, binary, "doctor", "absent", "-n", namespace)

		By("for a user who may read no more than the custom resources")
		allow(ctx, namespace, "resource-reader", rbacv1.PolicyRule{APIGroups: []string{SharedGroup}, Resources: []string{"*"}, Verbs: []string{"list"}})
		Eventually(ctx, func(g Gomega) {
			session := startTool(binary, "doctor", "-o", "json", "-n", namespace, "--as=resource-reader")
			g.Eventually(ctx, session).Should(gexec.Exit(1))
		}).Should(Succeed())
		found, unread := doctorFindings(ctx, 1, binary, "-n", namespace, "--as=resource-reader")
		Expect(found).To(ContainElement(bad))
		Expect(unread).To(ContainElements("you may not read deployments in namespace "+namespace, "you may not read operatorcollections in namespace "+namespace))
		runTool(ctx, 2, binary, "doctor", "-n", namespace, "--as=nobody")
	})
})

var _ = Describe("kubectl collection must-gather", func() {
	It("writes an archive without the secrets that are in the cluster", func(ctx context.Context) {
		binary, namespace, s := toolBinary(), newNamespace(ctx), newSample()
		s.variables = "{name: logon, displayName: Logon, type: password}\n      - {name: note, displayName: Note, type: string}"
		planted := map[string]string{
			"Secret": "planted-in-secret", "last applied": "planted-last-applied", "password": "Planted-Password", "variable": "planted-variable", "token": "planted-token",
		}
		endpoint := newEndpoint(namespace, "lpar1", nil)
		endpoint.Spec.Host, endpoint.Spec.CredentialName = "192.0.2.1", "logon"
		endpoint.Spec.Variables = []apiextensionsv1.JSON{{Raw: []byte(`"ansible_password: ` + planted["variable"] + `"`)}}
		Create(ctx, endpoint, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "logon", Annotations: map[string]string{
				"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"ssh-privatekey":"` + planted["last applied"] + `"}}`,
			}},
			Type: corev1.SecretTypeSSHAuth, StringData: map[string]string{"ssh-privatekey": planted["Secret"]},
		})
		oc := importSample(ctx, namespace, s)
		makeAvailable(ctx, namespace, s.operator()) // It is not Ready: the credential is no key.
		Patch(ctx, oc, `{"spec":{"collectionURLToken":"`+planted["token"]+`"}}`)
		instance := s.instance(namespace, "hello")
		spec := instance.Object["spec"].(map[string]any)
		spec["logon"], spec["note"] = planted["password"], "a plain note"
		instance.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"logon":"` + planted["password"] + `"}}`})
		Create(ctx, instance)
		Create(ctx, &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "hello.1"},
			InvolvedObject: corev1.ObjectReference{Kind: s.kind, Namespace: namespace, Name: "hello"},
			Reason:         "Failed", Type: "Warning", Message: `Secret "` + planted["password"] + `" was not found`,
		})

		path := filepath.Join(GinkgoT().TempDir(), "gathered.tar.gz")
		Expect(runTool(ctx, 0, binary, "must-gather", "-n", namespace, "-o", path)).To(HavePrefix(path + ": "))
		files := gathered(path)
		for name, text := range files {
			for where, value := range planted {
				Expect(text).NotTo(ContainSubstring(value), "%s: secret in %s", name, where)
				Expect(text).NotTo(ContainSubstring(base64.StdEncoding.EncodeToString([]byte(value))), "%s: secret in %s", name, where)
			}
		}
		folder := "namespaces/" + namespace + "/"
		Expect(files[folder+strings.ToLower(s.kind)+"."+SharedGroup+"/hello.yaml"]).To(And(ContainSubstring("note: a plain note"), ContainSubstring("logon: REDACTED")))
		Expect(files[folder+"events.txt"]).To(ContainSubstring(`Secret "REDACTED" was not found`))
		Expect(files[folder+"secrets-without-content.yaml"]).To(ContainSubstring("type: kubernetes.io/ssh-auth"))
		Expect(files).To(And(
			HaveKey("doctor.txt"), HaveKey("versions.yaml"), HaveKey("cluster/customresourcedefinition.apiextensions.k8s.io/"+s.crdName()+".yaml"),
			HaveKey(folder+"operatorcollection.zoscb.ibm.com/oc.yaml"), HaveKey(folder+"deployment.apps/"+s.operator()+".yaml"),
			HaveKey(folder+"configmap/"+s.operator()+"-runtime.yaml")))
		info, err := os.Stat(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		runTool(ctx, 2, binary, "must-gather", "-n", namespace, "-o", path)
	})
})
