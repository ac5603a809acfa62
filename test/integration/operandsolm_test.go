package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	operandsv1alpha1 "github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	operandsOLMRole      = operandsAccount + "-olm"
	operandsBindingsRole = operandsAccount + "-bindings"
	jenkinsPackage       = "jenkins-operator"
)

// openCRD is that of a kind with any fields.
func openCRD(group, plural, kind string) *apiextensionsv1.CustomResourceDefinition {
	crd := customResourceDefinition(plural + "." + group)
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: plural[:len(plural)-1], Kind: kind, ListKind: kind + "List"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}},
		}},
	}
	return crd
}

// withPackages gives the cluster the API of OLM and of its package server, and a package's kind, until the specs end.
func withPackages(ctx context.Context) {
	GinkgoHelper()
	withoutOLM()
	installOLM(ctx)
	for _, crd := range []*apiextensionsv1.CustomResourceDefinition{
		openCRD("packages.operators.coreos.com", "packagemanifests", "PackageManifest"), openCRD("jenkins.example", "jenkinses", "Jenkins"),
	} {
		Create(ctx, crd)
		DeferCleanup(func(ctx context.Context) { // Other specs create it again.
			Remove(ctx, crd)
			Eventually(ctx, GoneInTheEnd(ctx, crd)).WithPolling(time.Second).Should(BeTrue())
		})
		serve(ctx, crd, "v1")
	}
}

// ci is a namespace with an OperandRegistry that offers a package, as in the documentation of ODLM.
type ci struct {
	namespace    string
	registry     *operandsv1alpha1.OperandRegistry
	config       *operandsv1alpha1.OperandConfig
	subscription *operatorsv1alpha1.Subscription
	group        *operatorsv1.OperatorGroup
}

// newCI offers the package, which one catalog has.
func newCI(ctx context.Context) *ci {
	GinkgoHelper()
	t := &ci{namespace: newNamespace(ctx)}
	grantOperands(ctx, t.namespace, operandsOLMRole)
	grantOperands(ctx, t.namespace, operandsBindingsRole)
	grantJenkins(ctx, t.namespace)
	manifest := &unstructured.Unstructured{}
	manifest.SetAPIVersion("packages.operators.coreos.com/v1")
	manifest.SetKind("PackageManifest")
	manifest.SetNamespace(t.namespace)
	manifest.SetName(jenkinsPackage)
	manifest.SetLabels(map[string]string{"catalog": "community-operators", "catalog-namespace": "olm"})
	object := metav1.ObjectMeta{Namespace: t.namespace, Name: "tools"}
	t.registry = &operandsv1alpha1.OperandRegistry{ObjectMeta: object}
	Expect(yaml.UnmarshalStrict([]byte("{operators: [{name: jenkins, packageName: jenkins-operator, channel: alpha, scope: public}]}"), &t.registry.Spec)).To(Succeed())
	t.config = &operandsv1alpha1.OperandConfig{ObjectMeta: object}
	Expect(yaml.UnmarshalStrict([]byte("{services: [{name: jenkins, spec: {jenkins: {service: {port: 8081}}}}]}"), &t.config.Spec)).To(Succeed())
	Create(ctx, manifest, t.registry, t.config)
	t.subscription = &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: jenkinsPackage}}
	t.group = &operatorsv1.OperatorGroup{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: operandsAccount}}
	return t
}

// grantJenkins lets the component use the package's kind, as an administrator does with the command in its messages.
func grantJenkins(ctx context.Context, namespace string) {
	GinkgoHelper()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: operandsAccount + "-jenkinses"}
	Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"jenkins.example"}, Resources: []string{"jenkinses"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
	}}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ManagerNamespace, Name: operandsAccount}},
	})
	awaitRight(ctx, operandsUser, namespace, "create", "jenkinses", "jenkins.example")
}

func (t *ci) request(ctx context.Context, namespace, name string, operands ...string) *operandsv1alpha1.OperandRequest {
	GinkgoHelper()
	return (&tools{namespace: t.namespace}).request(ctx, namespace, name, operands...)
}

func jenkins(namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetAPIVersion("jenkins.example/v1")
	u.SetKind("Jenkins")
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (t *ci) csv(version string) *operatorsv1alpha1.ClusterServiceVersion {
	return &operatorsv1alpha1.ClusterServiceVersion{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: jenkinsPackage + ".v" + version}}
}

// installs plays the part of OLM, which installs a version for the Subscription.
func (t *ci) installs(ctx context.Context, version string, phase operatorsv1alpha1.ClusterServiceVersionPhase) {
	GinkgoHelper()
	csv := t.csv(version)
	csv.Annotations = map[string]string{"alm-examples": `[{"apiVersion": "jenkins.example/v1", "kind": "Jenkins", "metadata": {"name": "example"},
		"spec": {"service": {"port": 8080, "type": "ClusterIP"}}}]`}
	csv.Spec.DisplayName = "jenkins"
	csv.Spec.InstallStrategy.StrategyName = operatorsv1alpha1.InstallStrategyNameDeployment
	csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs = []operatorsv1alpha1.StrategyDeploymentSpec{}
	csv.Spec.CustomResourceDefinitions.Owned = []operatorsv1alpha1.CRDDescription{{Name: "jenkinses.jenkins.example", Version: "v1", Kind: "Jenkins"}}
	Expect(yaml.Unmarshal([]byte(version), &csv.Spec.Version)).To(Succeed())
	Create(ctx, csv)
	Eventually(ctx, Gone(ctx, t.subscription)).Should(BeFalse())
	t.reports(ctx, version, phase)
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, t.subscription)
		t.subscription.Status.CurrentCSV, t.subscription.Status.InstalledCSV = csv.Name, csv.Name
		t.subscription.Status.LastUpdated = metav1.Now()
		g.Expect(K8s.Status().Update(ctx, t.subscription)).To(Succeed())
	}).Should(Succeed())
}

// reports plays the part of OLM, which reports the phase of a version.
func (t *ci) reports(ctx context.Context, version string, phase operatorsv1alpha1.ClusterServiceVersionPhase) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		csv := t.csv(version)
		Get(ctx, g, csv)
		csv.Status.Phase, csv.Status.Message = phase, "said by OLM"
		g.Expect(K8s.Status().Update(ctx, csv)).To(Succeed())
	}).Should(Succeed())
}

var _ = Describe("Operand requests for packages of the Operator Lifecycle Manager", Ordered, func() {
	BeforeAll(withPackages)

	It("install, upgrade and remove them as the documentation of ODLM says, also after crashes", func(ctx context.Context) {
		p := startOperands(ctx)
		t := newCI(ctx)
		team := newNamespace(ctx)
		grantOperands(ctx, team, operandsBindingsRole)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "jenkins-admin"}, StringData: map[string]string{"user": "admin"}}
		info := &operandsv1alpha1.OperandBindInfo{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "ci"}}
		Expect(yaml.UnmarshalStrict([]byte("{operand: jenkins, registry: tools, bindings: {public: {secret: jenkins-admin, service: {name: jenkins, data: {url: 'http://+.spec.clusterIP+:+.spec.ports[0].port'}}}}}"),
			&info.Spec)).To(Succeed())
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "jenkins"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8081}}}}
		Create(ctx, secret, service, info)
		first := t.request(ctx, team, "team-a", "{name: jenkins, bindings: {public: {secret: ci-login}}}")
		second := t.request(ctx, t.namespace, "second", "{name: jenkins}")

		By("subscribing to the package in the only catalog that has it")
		Eventually(ctx, Gone(ctx, t.subscription)).Should(BeFalse())
		Get(ctx, Default, t.subscription)
		Expect(t.subscription.Spec).To(Equal(&operatorsv1alpha1.SubscriptionSpec{
			Package: jenkinsPackage, Channel: "alpha", CatalogSource: "community-operators", CatalogSourceNamespace: "olm", InstallPlanApproval: operatorsv1alpha1.ApprovalAutomatic,
		}))
		Get(ctx, Default, t.group)
		Expect(t.group.Spec.TargetNamespaces).To(ConsistOf(t.namespace))
		Eventually(ctx, phaseOf(ctx, first)).Should(Equal(operandsv1alpha1.RequestInstalling))
		p.kill()
		t.installs(ctx, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		p.start(ctx)

		By("merging the OperandConfig over the example")
		example := jenkins(t.namespace, "example")
		Eventually(ctx, Gone(ctx, example)).Should(BeFalse())
		Expect(Live(ctx, Default, example).Object["spec"]).To(Equal(map[string]any{"service": map[string]any{"port": int64(8081), "type": "ClusterIP"}}))
		ExpectReady(ctx, first)
		ExpectReady(ctx, second)
		login := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "ci-login"}}
		Get(ctx, Default, login)
		Expect(login.Data).To(HaveKeyWithValue("user", []byte("admin")))
		address := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: "ci-jenkins"}}
		Get(ctx, Default, address)
		Expect(address.Data).To(Equal(map[string]string{"url": "http://" + service.Spec.ClusterIP + ":8081"}))

		By("changing the configuration, and the channel")
		Patch(ctx, t.config, `{"spec":{"services":[{"name":"jenkins","spec":{"jenkins":{"service":{"type":"NodePort"}}}}]}}`)
		Eventually(ctx, func(g Gomega) any { return Live(ctx, g, example).Object["spec"] }).
			Should(Equal(map[string]any{"service": map[string]any{"port": int64(8080), "type": "NodePort"}}))
		Patch(ctx, t.registry, `{"spec":{"operators":[{"name":"jenkins","packageName":"jenkins-operator","channel":"beta","scope":"public"}]}}`)
		Eventually(ctx, Field(ctx, t.subscription, "spec", "channel")).Should(Equal("beta"))
		t.installs(ctx, "2.0.0", operatorsv1alpha1.CSVPhaseInstalling)
		Remove(ctx, t.csv("1.0.0"))
		Eventually(ctx, phaseOf(ctx, first)).Should(Equal(operandsv1alpha1.RequestUpdating))
		t.reports(ctx, "2.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		ExpectReady(ctx, first)
		ExpectReady(ctx, second)

		By("deleting one request")
		Remove(ctx, first)
		Eventually(ctx, Gone(ctx, first)).Should(BeTrue())
		Expect(Gone(ctx, login)(Default)).To(BeTrue())
		Expect(Gone(ctx, address)(Default)).To(BeTrue())
		for _, object := range []client.Object{example, t.subscription, t.csv("2.0.0"), t.group} {
			Expect(Live(ctx, Default, object).GetDeletionTimestamp()).To(BeNil())
		}

		By("deleting the other one, while somebody else uses the operator")
		theirs := jenkins(t.namespace, "theirs")
		Create(ctx, theirs)
		Remove(ctx, second)
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionReady)).Should(And(
			ConditionFalse(), WithReason(operandsv1alpha1.ReasonRemovalWaiting), WithMessage(`"`+t.namespace+`/theirs"`)))
		Expect(Gone(ctx, example)(Default)).To(BeTrue())
		Expect(Gone(ctx, t.subscription)(Default)).To(BeFalse())
		Patch(ctx, t.subscription, fmt.Sprintf(`{"metadata":{"finalizers":[%q]}}`, InstanceFinalizer))
		Remove(ctx, theirs)
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionReady)).Should(WithMessage(`Subscription "` + t.namespace + `/jenkins-operator"`))
		Expect(Live(ctx, Default, t.csv("2.0.0")).GetDeletionTimestamp()).To(BeNil(), "OLM would create it again")
		p.kill()
		Patch(ctx, t.subscription, `{"metadata":{"finalizers":null}}`)
		p.start(ctx)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		for _, object := range []client.Object{t.subscription, t.csv("2.0.0"), t.group} {
			Expect(Gone(ctx, object)(Default)).To(BeTrue())
		}
		Expect(Gone(ctx, secret)(Default)).To(BeFalse())
	})

	It("name all permissions that are missing to see who uses an operator", func(ctx context.Context) {
		global, folders, jobs := openCRD("jenkins.example", "worlds", "World"), openCRD("jenkins.example", "folders", "Folder"), openCRD("jenkins.example", "jobs", "Job")
		global.Spec.Scope = apiextensionsv1.ClusterScoped
		for _, crd := range []*apiextensionsv1.CustomResourceDefinition{global, folders, jobs} {
			Create(ctx, crd)
			DeferCleanup(func(ctx context.Context) { Remove(ctx, crd) })
			Eventually(ctx, func(g Gomega) {
				Get(ctx, g, crd)
				g.Expect(established(crd)).To(BeTrue())
			}).Should(Succeed())
		}
		startOperands(ctx)
		t := newCI(ctx)
		request := t.request(ctx, t.namespace, "request", "{name: jenkins}")
		t.installs(ctx, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		ExpectReady(ctx, request)
		Patch(ctx, t.csv("1.0.0"), `{"spec":{"customresourcedefinitions":{"owned":[{"name":"worlds.jenkins.example","version":"v1","kind":"World"},
			{"name":"folders.jenkins.example","version":"v1","kind":"Folder"},{"name":"jobs.jenkins.example","version":"v1","kind":"Job"}]}}}`)
		Remove(ctx, request)
		Eventually(ctx, Condition(ctx, request, v2beta2.ConditionReady)).Should(And(ConditionFalse(), WithReason(operandsv1alpha1.ReasonNotGranted),
			WithMessage("kubectl create role collection-operator-operands-list-folders -n "+t.namespace+" --verb=list,watch --resource=folders.jenkins.example,jobs.jenkins.example && ")))
		meta := metav1.ObjectMeta{Namespace: t.namespace, Name: operandsAccount + "-list-folders"}
		Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"jenkins.example"}, Resources: []string{"folders", "jobs"}, Verbs: []string{"list", "watch"},
		}}}, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: ManagerNamespace, Name: operandsAccount}},
		})
		awaitRight(ctx, operandsUser, t.namespace, "list", "jobs", "jenkins.example")
		Patch(ctx, t.registry, `{"spec":{"touched":"now"}}`)
		Eventually(ctx, Gone(ctx, request)).Should(BeTrue())
		for _, object := range []client.Object{t.subscription, t.csv("1.0.0"), t.group} {
			Expect(Gone(ctx, object)(Default)).To(BeTrue())
		}
	})

	It("create no objects of kinds that the operator does not have", attack.Label, func(ctx context.Context) {
		startOperands(ctx)
		t := newCI(ctx)
		request := t.request(ctx, t.namespace, "request", "{name: jenkins, kind: Subscription, apiVersion: operators.coreos.com/v1alpha1, instanceName: any, spec: {name: any, channel: any, source: any, sourceNamespace: olm}}",
			"{name: jenkins, kind: Jenkins, apiVersion: jenkins.example/v1, instanceName: own}")
		t.installs(ctx, "1.0.0", operatorsv1alpha1.CSVPhaseSucceeded)
		ExpectFailure(ctx, request, operandsv1alpha1.ReasonInvalidOperand, "the operator has no kind Subscription", false)
		theirs := &operatorsv1alpha1.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "any"}}
		Expect(Gone(ctx, theirs)(Default)).To(BeTrue())
		attack.Repelled("Tenancy", "request a Subscription with the permissions of the component", "nothing is created", seen(ctx, request))
	})
})
