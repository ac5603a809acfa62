//go:build e2e

package e2e

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// The installation that all later specs share.
var (
	files    = &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Name: "zos-files.example.1.0.0", Namespace: namespace}}
	filesSOC = &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: files.Name + "-soc", Namespace: namespace}}
	operator = &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "example-zos-files-operator", Namespace: namespace}}

	// objectsBefore lists the objects that deletionSpecs looks at, before the collection was imported.
	objectsBefore []string
)

func installationSpecs() {
	It("accepts endpoints whose variables are nested and templates", attack.Label, func(ctx context.Context) {
		endpoint1 := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: lpar1.name, Namespace: namespace},
			Spec: v2beta2.ZosEndpointSpec{Host: lpar1.host(), Port: 22, Variables: Variables(
				`{"name": "site", "value": {"home": "/home/ibmuser", "folders": {"files": "files"}}}`,
				`"base_root: '{{ site.home }}'"`,
				`{"name": "zos_files_base", "value": "{{ base_root }}/{{ site.folders.files }}"}`,
				`"PYZ=/usr"`,
				`{"name": "ansible_python_interpreter", "value": "{{ PYZ }}/bin/python3"}`,
				`{"name": "zos_environment", "value": {"LPAR": "{{ inventory_hostname }}"}}`,
			)},
		}
		endpoint2 := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: lpar2.name, Namespace: namespace},
			Spec: v2beta2.ZosEndpointSpec{Host: lpar2.host(), CredentialName: lpar2.name + "-credential", Variables: Variables(
				`"zos_files_base=`+lpar2.base()+`"`, `"ansible_python_interpreter: /usr/bin/python3"`,
			)},
		}
		local := &v2beta2.ZosEndpoint{
			ObjectMeta: metav1.ObjectMeta{Name: "here", Namespace: namespace},
			Spec:       v2beta2.ZosEndpointSpec{EndpointType: v2beta2.EndpointLocal, Variables: Variables(`"zos_files_base: /tmp/files"`)},
		}
		Create(ctx, endpoint1, endpoint2, local)
		for _, name := range []string{lpar1.name, lpar2.name, local.Name} {
			_, err := kubectlWait(ctx, "zosendpoint/"+name, "60s")
			Expect(err).NotTo(HaveOccurred())
		}
		Eventually(ctx, Condition(ctx, endpoint1, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Eventually(ctx, Condition(ctx, endpoint2, v2beta2.ConditionReachable)).Should(ConditionTrue())
		Create(ctx, lpar2.credential)
		// From here on nothing but the collection's own objects may come and go.
		objectsBefore = ours(listObjects(ctx, namespace))
	})

	It("waits for a credential, and says so", attack.Label, func(ctx context.Context) {
		files.Spec = pinned("files.tar.gz")
		filesSOC.Spec = v2beta2.SubOperatorConfigSpec{
			OperatorCollection: files.Name,
			CredentialType:     v2beta2.CredentialShared,
			Mapping: []v2beta2.NamespaceMapping{{Namespace: namespace, ZosEndpoints: &[]v2beta2.EndpointMapping{
				{Name: lpar1.name, CredentialName: lpar1.name + "-credential"}, {Name: lpar2.name}, {Name: "here"},
			}}},
		}
		Create(ctx, filesSOC)
		Eventually(ctx, Condition(ctx, filesSOC, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCollectionNotFound), WithMessage(files.Name)))
		Create(ctx, files)
		Eventually(ctx, Condition(ctx, files, v2beta2.ConditionImported)).Should(ConditionTrue())
		Eventually(ctx, Condition(ctx, filesSOC, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonCredentialInvalid), WithMessage(lpar1.name+"-credential")))
		Expect(Condition(ctx, filesSOC, v2beta2.ConditionReconciling)(Default)).To(ConditionTrue())
		for _, resource := range []string{"operatorcollection/" + files.Name, "suboperatorconfig/" + filesSOC.Name} {
			_, err := kubectlWait(ctx, resource, "2s")
			Expect(err).To(HaveOccurred(), "%s is not Ready", resource)
		}
	})

	It("is Ready when, and only when, custom resources are served and the operator runs", attack.Label, func(ctx context.Context) {
		Create(ctx, lpar1.credential)
		printed, err := kubectlWait(ctx, "operatorcollection/"+files.Name, "4m")
		Expect(err).NotTo(HaveOccurred(), printed)

		// No Eventually from here: Ready must mean it.
		live := &appsv1.Deployment{}
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(operator), live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))
		Expect(live.Status.UpdatedReplicas).To(BeEquivalentTo(1))
		for _, plural := range []string{"datafiles", "filecopys", "filediscoverys", "mirrors"} {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + "." + "suboperator.zoscb.ibm.com"}}
			Expect(Condition(ctx, crd, string(apiextensionsv1.Established))(Default)).To(ConditionTrue(), plural)
		}
		_, err = kubectlWait(ctx, "suboperatorconfig/"+filesSOC.Name, "5s")
		Expect(err).NotTo(HaveOccurred())
		for object, phase := range map[client.Object]v2beta2.Phase{files: v2beta2.PhaseSuccessful, filesSOC: v2beta2.PhaseSuccessful} {
			Expect(Field(ctx, object, "status", "phase")(Default)).To(Equal(string(phase)))
			expectHealth(ctx, object, "Healthy", "Current")
		}
	})

	It("runs the operator without privileges", attack.Label, func(ctx context.Context) {
		var pods corev1.PodList
		Expect(K8s.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{"operator-domain": domain, "operator-name": "zos-files"})).To(Succeed())
		Expect(pods.Items).To(HaveLen(1))
		spec := pods.Items[0].Spec
		Expect(spec.SecurityContext.RunAsNonRoot).To(HaveValue(BeTrue()))
		Expect(spec.SecurityContext.RunAsUser).To(BeNil())
		Expect(spec.SecurityContext.FSGroup).To(BeNil())
		for _, container := range append(spec.InitContainers, spec.Containers...) {
			Expect(container.SecurityContext.ReadOnlyRootFilesystem).To(HaveValue(BeTrue()), container.Name)
			Expect(container.SecurityContext.AllowPrivilegeEscalation).To(HaveValue(BeFalse()), container.Name)
		}
		tried := inOperator(ctx, `id -u; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status; touch /opt/ansible/x /etc/zoscb/endpoints/x 2>&1 || true`)
		Expect(tried).NotTo(HavePrefix("0\n"))
		Expect(tried).To(And(MatchRegexp(`CapEff:\s+0+\n`), MatchRegexp(`NoNewPrivs:\s+1\n`), MatchRegexp(`Seccomp:\s+2\n`)))
		Expect(strings.Count(tried, "Read-only file system")).To(Equal(2))
		attack.Repelled(podsAndNetwork, "gain privileges in an operator's pod, or change its image or endpoints",
			"no root, no capability, system calls filtered, read-only", tried)
	})

	It("keeps an earlier good version when a later one is bad", func(ctx context.Context) {
		Patch(ctx, files.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"digest": digest("good.tar.gz")}}))
		Eventually(ctx, Condition(ctx, files, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonDigestMismatch)))
		_, err := kubectlWait(ctx, "operatorcollection/"+files.Name, "2s")
		Expect(err).To(HaveOccurred())
		live := &appsv1.Deployment{}
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(operator), live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))

		Patch(ctx, files.DeepCopy(), MustJSON(map[string]any{"spec": map[string]any{"digest": digest("files.tar.gz")}}))
		_, err = kubectlWait(ctx, "operatorcollection/"+files.Name, InstallTimeout.String())
		Expect(err).NotTo(HaveOccurred())
	})
}
