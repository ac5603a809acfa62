package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/test/attack"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

const (
	consentAnnotation = "zoscb.ibm.com/allow-mapping-from"
	claimAnnotation   = "zoscb.ibm.com/claimed-by"
	credentialLabel   = "zoscb.ibm.com/credential"
)

// allowMapping lets the namespaces map another one, or nobody any more.
func allowMapping(ctx context.Context, namespace string, from ...string) {
	GinkgoHelper()
	value := "null"
	if len(from) > 0 {
		value = fmt.Sprintf("%q", strings.Join(from, ", "))
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	Patch(ctx, object, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, consentAnnotation, value))
}

func mapTo(namespaces ...string) []v2beta2.NamespaceMapping {
	var mapping []v2beta2.NamespaceMapping
	for _, namespace := range namespaces {
		mapping = append(mapping, v2beta2.NamespaceMapping{Namespace: namespace})
	}
	return mapping
}

// setMapping replaces a SubOperatorConfig's mapping.
func setMapping(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespaces ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, soc)
		soc.Spec.Mapping = mapTo(namespaces...)
		g.Expect(K8s.Update(ctx, soc)).To(Succeed())
	}).Should(Succeed())
}

// notes are what the events about an object with this reason say.
func notes(ctx context.Context, object client.Object, reason string) func(Gomega) []string {
	return func(g Gomega) []string {
		events := &corev1.EventList{}
		g.Expect(K8s.List(ctx, events, client.InNamespace(object.GetNamespace()))).To(Succeed())
		var found []string
		for _, event := range events.Items {
			if event.InvolvedObject.Name == object.GetName() && event.Reason == reason {
				found = append(found, event.Message)
			}
		}
		return found
	}
}

// setRunning says on an instance's status that its playbook runs, or does not.
func setRunning(ctx context.Context, thing *unstructured.Unstructured, status string) {
	GinkgoHelper()
	conditions := []any{map[string]any{"type": "Running", "status": status, "reason": "Running"}}
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, thing)
		g.Expect(unstructured.SetNestedSlice(thing.Object, conditions, "status", "conditions")).To(Succeed())
		g.Expect(K8s.Status().Update(ctx, thing)).To(Succeed())
	}).Should(Succeed())
}

// expectOperatorOf waits until the operator in a namespace was made for a SubOperatorConfig.
func expectOperatorOf(ctx context.Context, namespace string, s *sample, soc client.Object) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		d := deployment(namespace, s.operator())
		Get(ctx, g, d)
		g.Expect(d.Annotations).To(HaveKeyWithValue("zoscb.ibm.com/suboperatorconfig", soc.GetNamespace()+"/"+soc.GetName()))
	}).Should(Succeed())
}

var _ = Describe("Mapping another namespace", func() {
	It("takes its consent, which can be withdrawn", attack.Label, func(ctx context.Context) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		s.permissions = "clusterRoles: [{nonResourceURLs: [/version], verbs: [get]}]"
		grantVersion(ctx)
		soc := newSOC(own, "soc", "oc", mapTo(own, other)...)
		Create(ctx, soc)
		oc := importSample(ctx, own, s)

		By("refusing it without, and serving the own namespace nevertheless")
		ExpectFailure(ctx, soc, v2beta2.ReasonMappingNotAllowed, consentAnnotation+": "+own, false)
		refusal := seen(ctx, soc)
		Expect(Condition(ctx, soc, v2beta2.ConditionReady)(Default)).To(WithMessage(`"` + other + `"`))
		Eventually(ctx, Gone(ctx, deployment(own, s.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, own, s.operator())
		ExpectFailure(ctx, oc, v2beta2.ReasonMappingNotAllowed, consentAnnotation, false)
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Installations).To(ConsistOf(And(HaveField("Namespace", own), HaveField("Ready", true))))
		}).Should(Succeed())
		Expect(madeIn(ctx, other)).To(BeEmpty())
		allowMapping(ctx, other, "somebody-else", own+"-not")
		Consistently(ctx, func() []string { return madeIn(ctx, other) }).Should(BeEmpty())
		attack.Repelled("Tenancy", "map a namespace that consents to others only", "nothing is made there", refusal)

		By("installing there once it consents")
		allowMapping(ctx, other, "somebody-else", own)
		Eventually(ctx, Gone(ctx, deployment(other, s.operator()))).Should(BeFalse())
		makeAvailable(ctx, other, s.operator())
		ExpectReady(ctx, soc)
		ExpectReady(ctx, oc)
		var places []string
		for _, object := range installed(ctx, soc) {
			expectIdentity(object, s)
			places = append(places, object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName())
		}
		operator := s.operator()
		Expect(places).To(ContainElements(
			"ServiceAccount "+other+"/"+operator, "Role "+other+"/"+operator, "RoleBinding "+other+"/"+operator,
			"NetworkPolicy "+other+"/"+operator,
			"ConfigMap "+other+"/"+operator+"-runtime", "Secret "+other+"/"+operator+"-endpoints", "Deployment "+other+"/"+operator,
			"ClusterRole /"+s.clusterRole(other), "ClusterRoleBinding /"+s.clusterRole(other)))
		Expect(places).To(HaveLen(18))
		Expect(madeIn(ctx, other)).To(HaveLen(7))

		By("removing the operator when the consent is withdrawn, but neither custom resources nor CRDs")
		Create(ctx, s.instance(other, "one"), s.instance(other, "two"))
		allowMapping(ctx, other)
		Eventually(ctx, func() []string { return madeIn(ctx, other) }).Should(BeEmpty())
		ExpectFailure(ctx, soc, v2beta2.ReasonMappingNotAllowed, consentAnnotation, false)
		Eventually(ctx, notes(ctx, soc, v2beta2.ReasonInstancesExist)).
			Should(ConsistOf(And(HavePrefix(`2 custom resources stay in namespace "`+other+`"`), ContainSubstring(other+"/one"))))
		Get(ctx, Default, s.instance(other, "one"))
		Get(ctx, Default, customResourceDefinition(s.crdName()))
		Get(ctx, Default, deployment(own, operator))
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.clusterRole(other)}}
		Expect(Gone(ctx, role)(Default)).To(BeTrue())
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, soc)
			g.Expect(soc.Status.Inventory).To(HaveLen(9))
			g.Expect(soc.Status.Installations).To(HaveLen(1))
		}).Should(Succeed())
		attack.Repelled("Tenancy", "stay in a namespace after its consent was withdrawn", "the operator, its keys and its permissions are removed", seen(ctx, soc))
		Remove(ctx, s.instance(other, "one"))
		Remove(ctx, s.instance(other, "two"))
	})

	It("lets it use the endpoints and credentials of the SubOperatorConfig's namespace alone", attack.Label, func(ctx context.Context) {
		own, other, s := newNamespace(ctx), newNamespace(ctx), newSample()
		ours, theirs := startSSHServer(), startSSHServer()
		key, foreignKey := SecretValue("private key of a tenant"), SecretValue("private key of another tenant")
		for namespace, value := range map[string]string{own: key, other: foreignKey} {
			Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credential"}, Type: corev1.SecretTypeSSHAuth,
				StringData: map[string]string{"username": "IN-" + strings.ToUpper(namespace), "ssh-privatekey": value},
			})
		}
		mine, foreign, onlyForeign := newEndpoint(own, "lpar1", ours), newEndpoint(other, "lpar1", theirs), newEndpoint(other, "lpar2", theirs)
		mine.Spec.CredentialName, foreign.Spec.CredentialName, onlyForeign.Spec.CredentialName = "credential", "credential", "credential"
		Create(ctx, mine, foreign, onlyForeign)
		allowMapping(ctx, other, own)
		Create(ctx, newSOC(own, "soc", "oc", mapTo(other)...))
		importSample(ctx, own, s)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: other, Name: s.operator() + "-endpoints"}}
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, secret)
			g.Expect(string(secret.Data["lpar1_key"])).To(Equal(key))
			g.Expect(string(secret.Data["lpar1_known_hosts"])).To(ContainSubstring(strings.TrimSpace(ours.hostKey())))
		}).Should(Succeed())
		Expect(string(secret.Data["lpar1_vars.yaml"])).To(ContainSubstring("IN-" + strings.ToUpper(own)))
		for name, value := range secret.Data {
			Expect(name).NotTo(HavePrefix("lpar2"))
			Expect(string(value)).NotTo(Or(ContainSubstring(foreignKey), ContainSubstring("IN-"+strings.ToUpper(other))), name)
		}

		By("not being moved by what the mapped namespace does to its own")
		version := secret.ResourceVersion
		Patch(ctx, foreign, `{"spec":{"variables":["a: b"]}}`)
		Remove(ctx, onlyForeign)
		Consistently(ctx, func(g Gomega) {
			Get(ctx, g, secret)
			g.Expect(secret.ResourceVersion).To(Equal(version))
		}).Should(Succeed())
		attack.Repelled("Tenancy", "get at the endpoints and keys of a mapped namespace, or change the mapper's from there",
			"endpoints and keys come from the SubOperatorConfig's namespace alone",
			fmt.Sprintf("the Secret holds %s; it stays as it is", strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", ")))
	})
})

var _ = Describe("Several SubOperatorConfigs", func() {
	It("that want the same namespace: the oldest wins, whoever has it now, and a younger one takes over", func(ctx context.Context) {
		one, two, shared, s := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx), newSample()
		oldest := newSOC(one, "oldest", "oc", mapTo(one)...)
		Create(ctx, oldest)
		ocOne := importSample(ctx, one, s)
		expectOperatorOf(ctx, one, s, oldest)

		By("coming first to it")
		allowMapping(ctx, shared, one, two)
		afterwards(ctx, oldest)
		younger := newSOC(two, "younger", "oc", mapTo(shared)...)
		Create(ctx, younger)
		ocTwo := importSample(ctx, two, s)
		expectOperatorOf(ctx, shared, s, younger)
		makeAvailable(ctx, shared, s.operator())
		ExpectReady(ctx, ocTwo)

		By("losing it to an older one that wants it later")
		setMapping(ctx, oldest, one, shared)
		ExpectFailure(ctx, younger, v2beta2.ReasonMappingConflict, `"oldest" in namespace "`+one+`"`, false)
		ExpectFailure(ctx, ocTwo, v2beta2.ReasonMappingConflict, "oldest", false)
		expectOperatorOf(ctx, shared, s, oldest)
		for _, namespace := range []string{one, shared} {
			makeAvailable(ctx, namespace, s.operator())
		}
		ExpectReady(ctx, ocOne)
		Eventually(ctx, func(g Gomega) []v2beta2.ObjectReference {
			Get(ctx, g, younger)
			return younger.Status.Inventory
		}).Should(BeEmpty())

		By("getting it back when the older one goes")
		Remove(ctx, oldest)
		Eventually(ctx, Gone(ctx, oldest)).Should(BeTrue())
		expectOperatorOf(ctx, shared, s, younger)
		makeAvailable(ctx, shared, s.operator())
		ExpectReady(ctx, ocTwo)
		Expect(madeIn(ctx, shared)).To(HaveLen(7))
	})

	It("that want the same namespace: the oldest wins, also when its collection is imported last", func(ctx context.Context) {
		one, two, shared, s := newNamespace(ctx), newNamespace(ctx), newNamespace(ctx), newSample()
		allowMapping(ctx, shared, one, two)
		oldest, younger := newSOC(one, "oldest", "oc", mapTo(shared)...), newSOC(two, "younger", "oc", mapTo(shared)...)
		Create(ctx, oldest)
		ExpectFailure(ctx, oldest, v2beta2.ReasonCollectionNotFound, "oc", false)
		afterwards(ctx, oldest)
		Create(ctx, younger)
		ocTwo := importSample(ctx, two, s)
		expectOperatorOf(ctx, shared, s, younger)
		makeAvailable(ctx, shared, s.operator())
		ExpectReady(ctx, ocTwo)
		importSample(ctx, one, s)
		ExpectFailure(ctx, younger, v2beta2.ReasonMappingConflict, `"oldest" in namespace "`+one+`"`, false)
		expectOperatorOf(ctx, shared, s, oldest)
	})
})

var _ = Describe("A collection that belongs to another namespace", func() {
	It("can be imported only as its owner imported it, and survives what the owner does later", attack.Label, func(ctx context.Context) {
		owner, guest, s := newNamespace(ctx), newNamespace(ctx), newSample()
		ocOwner := installSample(ctx, owner, s)
		spec := s.pinned()
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		Expect(crd.Annotations).To(HaveKeyWithValue(claimAnnotation, owner))

		By("refusing a version that the owner does not have")
		newer := *s
		newer.version = "99.0.0"
		oc := newCollection(guest, "oc", newer.pinned())
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonCollectionClaimed, `"`+owner+`"`, false)
		attack.Repelled("Tenancy", "publish version 99.0.0 of another namespace's collection", "the CRDs are not touched, nothing is installed", seen(ctx, oc))

		By("refusing the owner's version with other content")
		forged := *s
		forged.files = map[string]string{"README.md": "# other\n"}
		changeSpec(ctx, oc, forged.pinned())
		ExpectFailure(ctx, oc, v2beta2.ReasonCollectionClaimed, `"`+owner+`"`, false)
		attack.Repelled("Tenancy", "publish another namespace's version with other content", "the CRDs are not touched, nothing is installed", seen(ctx, oc))
		Expect(madeIn(ctx, guest)).To(BeEmpty())
		version := crd.ResourceVersion
		Get(ctx, Default, crd)
		Expect(crd.ResourceVersion).To(Equal(version))

		By("taking the same content, from wherever")
		changeSpec(ctx, oc, spec)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, guest, s.operator())
		ExpectReady(ctx, oc)

		By("keeping it when the owner upgrades")
		s.version = "1.1.0"
		s.variables = "{name: colour, displayName: Colour, type: string}"
		changeSpec(ctx, ocOwner, s.pinned())
		makeReadyAgain(ctx, ocOwner, s, "1.1.0")
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())

		By("keeping it when the owner goes")
		removeCollections(ctx, owner)
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"once more"}}}`)
		Consistently(ctx, Condition(ctx, oc, v2beta2.ConditionReady)).Should(ConditionTrue())
		Get(ctx, Default, crd)
		Expect(crd.Annotations).To(HaveKeyWithValue(claimAnnotation, owner))
	})

	It("changes hands when an administrator says so", func(ctx context.Context) {
		owner, heir, s := newNamespace(ctx), newNamespace(ctx), newSample()
		ocOwner := importSample(ctx, owner, s)
		s.version = "2.0.0"
		oc := newCollection(heir, "oc", s.pinned())
		Create(ctx, oc)
		ExpectFailure(ctx, oc, v2beta2.ReasonCollectionClaimed, owner, false)
		crd := customResourceDefinition(s.crdName())
		Patch(ctx, crd, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, claimAnnotation, heir))
		Patch(ctx, oc, `{"metadata":{"annotations":{"look":"again"}}}`)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(And(ConditionTrue(), WithMessage("2.0.0")))
		Get(ctx, Default, crd)
		Expect(crd.Annotations).To(HaveKeyWithValue(claimAnnotation, heir))
		Patch(ctx, ocOwner, `{"metadata":{"annotations":{"look":"again"}}}`)
		Consistently(ctx, Condition(ctx, ocOwner, v2beta2.ConditionImported)).Should(ConditionTrue())

		By("binding the former owner from then on")
		s.version = "3.0.0"
		changeSpec(ctx, ocOwner, s.pinned())
		ExpectFailure(ctx, ocOwner, v2beta2.ReasonCollectionClaimed, heir, false)
	})

	It("has one content per version inside a namespace", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		first := installSample(ctx, namespace, s)
		forged := *s
		forged.files = map[string]string{"README.md": "# other\n"}
		second := newCollection(namespace, "second", forged.pinned())
		Create(ctx, second)
		ExpectFailure(ctx, second, v2beta2.ReasonVersionConflict, `"oc" has version 1.0.0`, false)
		ExpectReady(ctx, first)
		Expect(Gone(ctx, defaultSOC(second))(Default)).To(BeTrue())
		attack.Repelled("Tenancy", "publish a version that the namespace has with other content", "the first stays as it is", seen(ctx, second))

		By("healing under another version")
		forged.version = "1.0.1"
		afterwards(ctx, defaultSOC(first))
		changeSpec(ctx, second, forged.pinned())
		Eventually(ctx, Condition(ctx, second, v2beta2.ConditionImported)).Should(ConditionTrue())
		ExpectFailure(ctx, second, v2beta2.ReasonMappingConflict, `"oc-soc"`, false)
		ExpectReady(ctx, first)
	})
})

var _ = Describe("A kind that another collection has", func() {
	It("is a clash, with an API group of its own as the way out", attack.Label, func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		first := installSample(ctx, namespace, s)
		rival := *newSample()
		rival.kind = s.kind
		crd := customResourceDefinition(s.crdName())
		Get(ctx, Default, crd)
		version := crd.ResourceVersion
		second := newCollection(namespace, "second", rival.pinned())
		Create(ctx, second)
		ExpectFailure(ctx, second, v2beta2.ReasonKindClash, "PerCollection", false)
		Expect(Condition(ctx, second, v2beta2.ConditionReady)(Default)).To(And(
			WithMessage(s.crdName()), WithMessage("collection "+domain+"/"+s.name)))
		Get(ctx, Default, crd)
		Expect(crd.ResourceVersion).To(Equal(version))
		ExpectReady(ctx, first)
		attack.Repelled("Tenancy", "claim a kind that another collection has", "its CRD is not touched", seen(ctx, second))
		Expect(TryPatch(ctx, second, `{"spec":{"apiGroup":"PerCollection"}}`)).To(MatchError(ContainSubstring("apiGroup cannot be changed")))

		By("created anew with an API group of its own, naming the permissions that this takes")
		Remove(ctx, second)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		second = newCollection(namespace, "second", rival.pinned())
		second.Spec.APIGroup = v2beta2.APIGroupPerCollection
		Create(ctx, second)
		group := rival.name + "." + domain + "." + SharedGroup
		ExpectFailure(ctx, second, v2beta2.ReasonPermissionsNotGranted, group, false)
		message := lacking(ctx, second)(Default)
		Expect(Gone(ctx, deployment(namespace, rival.operator()))(Default)).To(BeTrue())

		By("saying so also when it cannot be deleted without them")
		Remove(ctx, second)
		ExpectFailure(ctx, second, v2beta2.ReasonPermissionsNotGranted, group, false)
		attack.Repelled("Permissions", "get permissions on an API group of its own by having one", "they have to be granted as well", firstOf(message))
		applyManifestOf(ctx, message)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())

		By("working with them")
		second = newCollection(namespace, "second", rival.pinned())
		second.Spec.APIGroup = v2beta2.APIGroupPerCollection
		Create(ctx, second)
		Eventually(ctx, Gone(ctx, deployment(namespace, rival.operator()))).WithTimeout(InstallTimeout).Should(BeFalse())
		makeAvailable(ctx, namespace, rival.operator())
		ExpectReady(ctx, second)
		ExpectReady(ctx, first)
		thing, same := s.instance(namespace, "one"), rival.instance(namespace, "one")
		same.SetAPIVersion(group + "/" + rival.apiVersion())
		Create(ctx, thing, same)
		Remove(ctx, second)
		ExpectFailure(ctx, second, v2beta2.ReasonInstancesExist, s.kind+" "+namespace+"/one", false)
		Remove(ctx, same)
		Eventually(ctx, Gone(ctx, second)).Should(BeTrue())
		Get(ctx, Default, thing)
	})
})
