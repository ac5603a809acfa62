package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const ownerAnnotation = "zoscb.ibm.com/suboperatorconfig"

// withToken is a client with the manager's own token, as someone who has taken it has.
func (m *managerProcess) withToken() client.Client {
	GinkgoHelper()
	config, err := clientcmd.BuildConfigFromFlags("", m.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	c, err := client.New(config, client.Options{Scheme: K8s.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	return c
}

// abuse is a request with the manager's token, and what its refusal says.
type abuse struct {
	what    string
	attempt func() error
	refusal string
}

func tryAll(abuses []abuse) {
	GinkgoHelper()
	for _, a := range abuses {
		err := a.attempt()
		Expect(err).To(MatchError(And(ContainSubstring("denied request"), ContainSubstring(a.refusal))), a.what)
		attack.Repelled("The manager's token", a.what, "a policy refuses it", firstOf(err.Error()))
	}
}

// ofInstallation is the metadata of an object that claims to belong to a SubOperatorConfig.
func ofInstallation(namespace, name, owner string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{ownerAnnotation: owner}}
}

var _ = Describe("The manager's token", func() {
	var (
		stolen          client.Client
		namespace, bare string
		s               *sample
		running         *appsv1.Deployment
		create          func(context.Context, client.Object) func() error
	)
	BeforeEach(func(ctx context.Context) {
		namespace, bare, s, stolen = newNamespace(ctx), newNamespace(ctx), newSample(), theManager.withToken()
		installSample(ctx, namespace, s)
		running = deployment(namespace, s.operator())
		Get(ctx, Default, running)
		create = func(ctx context.Context, object client.Object) func() error {
			return func() error { return stolen.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll) }
		}
	})

	It("creates no token of another account, and changes no Secret of others", attack.Label, func(ctx context.Context) {
		secret := func(name string, of corev1.SecretType) *corev1.Secret {
			return &corev1.Secret{ObjectMeta: ofInstallation(namespace, name, namespace+"/oc-soc"), Type: of}
		}
		token := secret("x-operator-endpoints", corev1.SecretTypeServiceAccountToken)
		token.Annotations[corev1.ServiceAccountNameKey] = s.operator()
		disguised := secret("x-operator-endpoints", corev1.SecretTypeOpaque)
		disguised.Annotations[corev1.ServiceAccountNameKey] = s.operator()
		anywhere := secret("token", corev1.SecretTypeServiceAccountToken)
		anywhere.Namespace, anywhere.Annotations = "kube-system", map[string]string{corev1.ServiceAccountNameKey: "clusterrole-aggregation-controller"}
		foreign := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: bare, Name: "x-operator-endpoints", Labels: map[string]string{"managed-by": "ibm-zos-cloud-broker"}},
		}
		Create(ctx, foreign)
		changed := foreign.DeepCopy()
		changed.Annotations = map[string]string{ownerAnnotation: namespace + "/oc-soc"}
		tryAll([]abuse{
			{"create a token of an account in kube-system", create(ctx, anywhere), ""},
			{"create a token with the name of an operator's Secret", create(ctx, token), "creates only Secrets of type Opaque"},
			{"annotate a Secret for the token controller", create(ctx, disguised), "creates no tokens"},
			{"create a Secret that no operator has", create(ctx, secret("mine", corev1.SecretTypeOpaque)), "does not write secrets mine"},
			{"take over a Secret of another owner", func() error { return stolen.Update(ctx, changed, client.DryRunAll) }, "created for a SubOperatorConfig"},
			{"delete a Secret of another owner", func() error { return stolen.Delete(ctx, foreign, client.DryRunAll) }, "created for a SubOperatorConfig"},
		})
		Expect(stolen.Get(ctx, client.ObjectKeyFromObject(foreign), foreign.DeepCopy())).To(Succeed(), "no policy restricts reading: docs/security.md says so")
	})

	It("runs no pod as another account, or with privileges", attack.Label, func(ctx context.Context) {
		update := func(change func(*corev1.PodSpec)) func() error {
			return func() error {
				d := running.DeepCopy()
				change(&d.Spec.Template.Spec)
				return stolen.Update(ctx, d, client.DryRunAll)
			}
		}
		volume := func(source corev1.VolumeSource) func() error {
			return update(func(pod *corev1.PodSpec) {
				pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "more", VolumeSource: source})
			})
		}
		powerful := running.DeepCopy()
		powerful.ObjectMeta = ofInstallation(namespace, "powerful-operator", namespace+"/oc-soc")
		powerful.Spec.Template.Spec.ServiceAccountName = powerful.Name
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "powerful-" + namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: powerful.Name}},
		}
		Create(ctx, binding)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, binding) })
		awaitRight(ctx, "system:serviceaccount:"+namespace+":"+powerful.Name, "", "escalate", "clusterroles", rbacv1.GroupName)
		system := powerful.DeepCopy()
		system.Namespace, system.Annotations[ownerAnnotation] = "kube-system", "kube-system/oc-soc"
		tryAll([]abuse{
			{"run a pod as another account", update(func(pod *corev1.PodSpec) { pod.ServiceAccountName, pod.DeprecatedServiceAccount = "default", "default" }), "must use the ServiceAccount of the same name"},
			{"run a pod as an operator of somebody else, which is cluster admin", create(ctx, powerful), "has permission to escalate"},
			{"run a pod in kube-system", create(ctx, system), ""},
			{"mount a folder of the node", volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}), "must mount only ConfigMaps"},
			{"mount a token with another audience", volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
				ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"},
			}}}}), "must mount only ConfigMaps"},
			{"mount a volume of a driver", volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "driver.example.com"}}), "must mount only ConfigMaps"},
			{"run a pod with a priority of the system", update(func(pod *corev1.PodSpec) { pod.PriorityClassName = "system-node-critical" }), "PriorityClass of the system"},
			{"use the network of the node", update(func(pod *corev1.PodSpec) { pod.HostNetwork = true }), "namespaces and ports of its node"},
			{"use a port of the node", update(func(pod *corev1.PodSpec) {
				pod.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8443, HostPort: 443}}
			}), "namespaces and ports of its node"},
			{"run a privileged container", update(func(pod *corev1.PodSpec) {
				pod.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
			}), "without root and privileges"},
			{"delete a Deployment of another owner", func() error {
				other := deployment(bare, "their-operator")
				other.Spec = running.Spec
				if err := K8s.Create(ctx, other); err != nil {
					return err
				}
				return stolen.Delete(ctx, other, client.DryRunAll)
			}, "created for a SubOperatorConfig"},
		})
	})

	It("gives permissions to operators only", attack.Label, func(ctx context.Context) {
		binding := func(role string, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
			return &rbacv1.RoleBinding{
				ObjectMeta: ofInstallation(namespace, "x-operator", namespace+"/oc-soc"), Subjects: subjects,
				RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			}
		}
		account := func(namespace, name string) rbacv1.Subject {
			return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		}
		everybody := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:authenticated"}
		ofEndpoint := binding("zosendpoint-lpar1", everybody)
		ofEndpoint.Name = "zosendpoint-lpar1"
		role := &rbacv1.Role{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "zosendpoint-lpar1"},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}},
		}
		aggregated := &rbacv1.ClusterRole{ObjectMeta: ofInstallation("", "zoscb:"+namespace+":x-operator", namespace+"/oc-soc")}
		aggregated.Labels = map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}
		wide := &rbacv1.ClusterRoleBinding{
			ObjectMeta: ofInstallation("", "zoscb:"+namespace+":x-operator", namespace+"/oc-soc"),
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "zoscb:" + namespace + ":x-operator"},
			Subjects:   []rbacv1.Subject{account(namespace, "default")},
		}
		for _, name := range []string{"x-operator", "another", "zosendpoint-lpar1"} { // The API server looks for the role first.
			Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
		}
		existing := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: wide.RoleRef.Name}}
		Create(ctx, existing)
		DeferCleanup(func(ctx context.Context) { Remove(ctx, existing) })
		role.Name, aggregated.Name = "zosendpoint-lpar2", "zoscb:"+namespace+":y-operator"
		tryAll([]abuse{
			{"bind a role to all users", create(ctx, binding("x-operator", everybody)), "for its own ServiceAccount only"},
			{"bind a role to the manager", create(ctx, binding("x-operator", account(ManagerNamespace, managerAccount))), "for its own ServiceAccount only"},
			{"bind a role to the operator's account of another namespace", create(ctx, binding("x-operator", account(bare, "x-operator"))), "for its own ServiceAccount only"},
			{"bind another role", create(ctx, binding("another", account(namespace, "x-operator"))), "must refer to the role of the same name"},
			{"bind the role of an endpoint to all users", create(ctx, ofEndpoint), "for its own ServiceAccount only"},
			{"let a role of an endpoint read all Secrets", create(ctx, role), "and the state of its security domain only"},
			{"aggregate a role to view", create(ctx, aggregated), "must not be aggregated"},
			{"bind a ClusterRole to another account", create(ctx, wide), "for its own ServiceAccount only"},
			{"create a role that is no operator's", create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "mine"}}), "does not write clusterroles mine"},
		})
	})

	It("reaches no namespace that does not consent, and decides nothing that users decide", attack.Label, func(ctx context.Context) {
		d := running.DeepCopy()
		d.ObjectMeta = ofInstallation(bare, s.operator(), namespace+"/oc-soc")
		unowned := d.DeepCopy()
		unowned.Annotations = nil
		oc := newCollection(bare, "oc", s.pinned())
		lock := &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.operator()}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("pod_uid")},
		}
		Create(ctx, lock)
		announce := func(patch string) func() error {
			return func() error {
				return stolen.Patch(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lock.Name}}, merge(patch), client.DryRunAll)
			}
		}
		Expect(announce(`{"metadata":{"annotations":{"`+noNewRuns+`":"pod_uid"}}}`)()).To(Succeed(), "as it does before it removes an operator")
		existing := newCollection(namespace, "oc", v2beta2.OperatorCollectionSpec{})
		theirs := s.instance(namespace, "theirs")
		Create(ctx, theirs)
		tryAll([]abuse{
			{"install an operator in a namespace without its consent", create(ctx, d), "does not consent to mappings from namespace " + namespace},
			{"install an operator for no SubOperatorConfig", create(ctx, unowned), "created for a SubOperatorConfig"},
			{"create an OperatorCollection there", create(ctx, oc), "neither creates nor deletes OperatorCollections"},
			{"let an OperatorCollection fetch another archive", func() error {
				return stolen.Patch(ctx, existing, merge(`{"spec":{"collectionURL":"https://archives.example.com/evil.tar.gz"}}`), client.DryRunAll)
			}, "does not change their spec"},
			{"create a custom resource", create(ctx, s.instance(namespace, "one")), "does not create custom resources"},
			{"take the lock of an operator", announce(`{"spec":{"holderIdentity":"other_uid"}}`), "changes only the metadata of an operator's Lease"},
			{"change a custom resource as if it were rewritten", func() error {
				return stolen.Patch(ctx, theirs, merge(`{"spec":{"size":9}}`), client.DryRunAll)
			}, "does not change their spec"},
		})

		By("letting it into a namespace that consents")
		allowMapping(ctx, bare, namespace)
		Eventually(ctx, create(ctx, d)).Should(Succeed())
		By("keeping it out of one that an administrator has excluded")
		excluded := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bare}}
		Patch(ctx, excluded, `{"metadata":{"annotations":{"zoscb.ibm.com/managed":"false"}}}`)
		Eventually(ctx, create(ctx, d)).Should(MatchError(ContainSubstring("annotated zoscb.ibm.com/managed")))
	})

	It("writes no CRD of others, and no other kind, whatever was granted to collections", attack.Label, func(ctx context.Context) {
		group := "example.com"
		crd := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Scope: apiextensionsv1.NamespaceScoped,
				Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Name: "v1", Served: true, Storage: true,
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
				}},
			},
		}
		ours := &apiextensionsv1.CustomResourceDefinition{}
		Expect(K8s.Get(ctx, client.ObjectKey{Name: s.plural() + "." + SharedGroup}, ours)).To(Succeed())
		own := &apiextensionsv1.CustomResourceDefinition{}
		Expect(K8s.Get(ctx, client.ObjectKey{Name: "zosendpoints.zoscb.ibm.com"}, own)).To(Succeed())
		webhook := ours.DeepCopy()
		webhook.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
			Strategy: apiextensionsv1.WebhookConverter,
			Webhook: &apiextensionsv1.WebhookConversion{
				ConversionReviewVersions: []string{"v1"}, ClientConfig: &apiextensionsv1.WebhookClientConfig{URL: ptr.To("https://evil.example.com")},
			},
		}
		grant(ctx, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"create", "delete"}})
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x-operator"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
		}
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-settings"}}
		trustedCA := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ManagerNamespace, Name: "collection-operator-trusted-ca"}}
		Eventually(ctx, create(ctx, pod)).Should(MatchError(ContainSubstring("denied request")))
		tryAll([]abuse{
			{"create a CRD of another group", create(ctx, crd), "writes only CRDs of the API group"},
			{"delete a CRD of the manager's own group", func() error { return stolen.Delete(ctx, own, client.DryRunAll) }, ""},
			{"convert resources with a webhook", func() error { return stolen.Update(ctx, webhook, client.DryRunAll) }, "no conversion webhook"},
			{"create a pod, which was granted to collections", create(ctx, pod), "does not write pods"},
			{"change the manager's settings", create(ctx, settings), "does not write configmaps collection-operator-settings"},
			{"decide which authorities are trusted", create(ctx, trustedCA), "does not write configmaps collection-operator-trusted-ca"},
		})
	})
})

var _ = Describe("The policies for the manager", func() {
	It("cannot be changed by the manager", attack.Label, func(ctx context.Context) {
		const group = "admissionregistration.k8s.io"
		for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingwebhookconfigurations"} {
			for _, verb := range []string{"create", "update", "patch", "delete"} {
				Expect(may(ctx, managerUser, "", verb, resource, group)).To(BeFalse(), fmt.Sprintf("%s %s", verb, resource))
			}
		}
		attack.Repelled("The manager's token", "change or delete the policies", "the API server does not allow it", "not allowed")
	})
})

var _ = Describe("The policy allowed-images", func() {
	It("allows operators only images of the administrators' registries", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		oc := installSample(ctx, namespace, s)
		content, err := os.ReadFile(filepath.Join(projectDir(), "config", "components", "allowed-images", "policy.yaml"))
		Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(GinkgoT().TempDir(), "policy.yaml")
		text := strings.ReplaceAll(string(content), "registry.example.com/collection-operator/", "registry.invalid/")
		Expect(os.WriteFile(file, []byte(text), 0o600)).To(Succeed())
		applyFile(ctx, file)
		stolen, evil := theManager.withToken(), deployment(namespace, s.operator())
		var refusal error
		Eventually(ctx, func(g Gomega) error {
			Get(ctx, g, evil)
			evil.Spec.Template.Spec.InitContainers[0].Image = "evil.example.com/runtime:1"
			refusal = stolen.Update(ctx, evil.DeepCopy(), client.DryRunAll)
			return refusal
		}).Should(MatchError(ContainSubstring("image evil.example.com/runtime:1 is not allowed for operators")))
		attack.Repelled("The manager's token", "run another image, where the policy allowed-images is installed", "the policy refuses it", firstOf(refusal.Error()))

		By("saying in status why a user's image is not used, and keeping what runs")
		Patch(ctx, defaultSOC(oc), `{"spec":{"runtime":{"image":"registry.example.com/zosmf/runtime:1"}}}`)
		ExpectFailure(ctx, defaultSOC(oc), v2beta2.ReasonObjectRefused, "spec.runtime.image must begin with one of registry.example.com/zos/, registry.invalid/", false)
		running := deployment(namespace, s.operator())
		Get(ctx, Default, running)
		Expect(running.Spec.Template.Spec.Containers[0].Image).To(HavePrefix("registry.invalid/"))
		Patch(ctx, defaultSOC(oc), `{"spec":{"runtime":{"image":"registry.example.com/zos/runtime:1"}}}`)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, running)
			g.Expect(running.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example.com/zos/runtime:1"))
		}).Should(Succeed())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
	})
})
