package doctor

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// view is a snapshot with what belongs together.
type view struct {
	*snapshot.Snapshot
	managers    []Manager
	collections []*v2beta2.OperatorCollection
	configs     []*v2beta2.SubOperatorConfig
	endpoints   []*v2beta2.ZosEndpoint
	deployments []*appsv1.Deployment
	pods        []*corev1.Pod
	definitions []*apiextensionsv1.CustomResourceDefinition
	resources   []resource
	// kinds has the collections of kinds.
	kinds map[schema.GroupKind]model.ID
	// installations by namespace and collection.
	installations map[installationKey]*installation
	olm           olmView
	// variables that operators hand over to playbooks, by namespace and kind.
	variables map[NamespacedKind]gate.KindSettings
	// uses are the Secrets that objects name, in their order, and secretsOf those of each object.
	uses      []secretUse
	secretsOf map[Ref][]Ref
}

// NamespacedKind is a kind of custom resources in a namespace: what is installed elsewhere says nothing about them.
type NamespacedKind struct {
	Namespace string
	schema.GroupKind
}

// runtimeSuffix ends the names of the ConfigMaps of operators with the settings of their gate.
const runtimeSuffix = "-operator" + render.ConfigMapSuffix

// EachKind calls visit for what the operators of a snapshot do with each of their kinds.
func EachKind(s *snapshot.Snapshot, visit func(NamespacedKind, gate.KindSettings)) {
	for _, object := range s.Of(snapshot.ConfigMap) {
		text, _, _ := unstructured.NestedString(object.Object, "data", gate.SettingsFile)
		var settings gate.Settings
		if text == "" || !strings.HasSuffix(object.GetName(), runtimeSuffix) || json.Unmarshal([]byte(text), &settings) != nil {
			continue
		}
		for kind, of := range settings.Kinds {
			visit(NamespacedKind{object.GetNamespace(), schema.GroupKind{Group: settings.Group, Kind: kind}}, of)
		}
	}
}

type installationKey struct {
	namespace string
	model.ID
}

// installation is the operator of a collection in a namespace.
type installation struct {
	installationKey
	// config is its SubOperatorConfig, or empty if it is not known.
	config Ref
	method v2beta2.InstallMethod
	// deployment may be nil.
	deployment *appsv1.Deployment
}

func (i *installation) ref() Ref { return ref(snapshot.Deployment, i.namespace, i.OperatorName()) }

// resource is a custom resource of a collection.
type resource struct {
	*unstructured.Unstructured
	status runstatus.Status
	// err is that the status cannot be read.
	err error
}

func (r *resource) ref() Ref {
	return Ref{Kind: r.GetKind(), Namespace: r.GetNamespace(), Name: r.GetName()}
}

// argument is KIND/NAME with the namespace, as the tool's commands take it.
func (r *resource) argument() string {
	return strings.ToLower(r.GetKind()) + "/" + r.GetName() + " -n " + r.GetNamespace()
}

func (r *resource) endpoint() string {
	name, _, _ := unstructured.NestedString(r.Object, "spec", render.EndpointField)
	return name
}

func viewOf(s *snapshot.Snapshot) *view {
	v := &view{
		Snapshot:    s,
		collections: snapshot.Typed[v2beta2.OperatorCollection](s, snapshot.OperatorCollection),
		configs:     snapshot.Typed[v2beta2.SubOperatorConfig](s, snapshot.SubOperatorConfig),
		endpoints:   snapshot.Typed[v2beta2.ZosEndpoint](s, snapshot.ZosEndpoint),
		deployments: snapshot.Typed[appsv1.Deployment](s, snapshot.Deployment),
		pods:        snapshot.Typed[corev1.Pod](s, snapshot.Pod),
		definitions: snapshot.Typed[apiextensionsv1.CustomResourceDefinition](s, snapshot.CustomResourceDefinition),
		kinds:       map[schema.GroupKind]model.ID{}, installations: map[installationKey]*installation{},
		managers: managersOf(s),
	}
	for _, kind := range s.Kinds() {
		if !IsCollectionGroup(kind.Group) {
			continue
		}
		for _, object := range s.Of(kind) {
			r := resource{Unstructured: object}
			if fields, ok := object.Object["status"].(map[string]any); ok {
				r.err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &r.status)
			}
			v.resources = append(v.resources, r)
		}
	}
	v.addKinds()
	v.addInstallations()
	v.olm = olmViewOf(s)
	v.variables = map[NamespacedKind]gate.KindSettings{}
	EachKind(s, func(kind NamespacedKind, of gate.KindSettings) { v.variables[kind] = of })
	v.addUses()
	return v
}

// IsCollectionGroup reports whether an API group is for the kinds of collections.
func IsCollectionGroup(group string) bool {
	return group == model.Group || strings.HasSuffix(group, "."+model.Group)
}

// addKinds finds the collections of kinds by what is imported, and by the labels of CRDs.
func (v *view) addKinds() {
	for _, definition := range v.definitions {
		if id := render.IDOf(definition.Labels); id != (model.ID{}) {
			v.kinds[schema.GroupKind{Group: definition.Spec.Group, Kind: definition.Spec.Names.Kind}] = id
		}
	}
	for _, oc := range v.collections {
		imported := oc.Status.Collection
		if imported == nil {
			continue
		}
		group, _, _ := strings.Cut(imported.APIVersion, "/")
		for _, kind := range imported.Kinds {
			v.kinds[schema.GroupKind{Group: group, Kind: kind}] = model.ID{Domain: imported.Domain, Name: imported.Name}
		}
	}
}

func (v *view) addInstallations() {
	at := func(namespace string, id model.ID) *installation {
		key := installationKey{namespace, id}
		if v.installations[key] == nil {
			v.installations[key] = &installation{installationKey: key}
		}
		return v.installations[key]
	}
	for _, deployment := range v.deployments {
		id := render.IDOf(deployment.Labels)
		if id == (model.ID{}) || deployment.Name != id.OperatorName() {
			continue
		}
		i := at(deployment.Namespace, id)
		i.deployment = deployment
		if namespace, name, ok := strings.Cut(deployment.Annotations[render.AnnotationOwner], "/"); ok {
			i.config = ref(snapshot.SubOperatorConfig, namespace, name)
		}
	}
	for _, config := range v.configs {
		if config.Status.Collection == nil {
			continue
		}
		for j := range config.Status.Installations {
			status := &config.Status.Installations[j]
			i := at(status.Namespace, model.ID{Domain: config.Status.Collection.Domain, Name: config.Status.Collection.Name})
			i.config, i.method = ref(snapshot.SubOperatorConfig, config.Namespace, config.Name), status.Install
		}
	}
}

// installation returns that of a custom resource, or nil if there is none. isKnown is false if the collection of the kind is not known.
func (v *view) installation(r *resource) (i *installation, isKnown bool) {
	id, isKnown := v.kinds[r.GroupVersionKind().GroupKind()]
	if isKnown {
		return v.installations[installationKey{r.GetNamespace(), id}], true
	}
	return nil, false
}

// endpointOf returns the ZosEndpoint of a custom resource. Without its SubOperatorConfig, it is taken to be in the same namespace.
func (v *view) endpointOf(r *resource) Ref {
	namespace := r.GetNamespace()
	if i, _ := v.installation(r); i != nil && i.config.Namespace != "" {
		namespace = i.config.Namespace
	}
	return ref(snapshot.ZosEndpoint, namespace, r.endpoint())
}

// podsOf returns the pods with the labels of a collection's operator.
func (v *view) podsOf(key installationKey) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range v.pods {
		if pod.Namespace == key.namespace && render.IDOf(pod.Labels) == key.ID {
			pods = append(pods, pod)
		}
	}
	return pods
}

// managersOf returns the managers of a cluster.
func managersOf(s *snapshot.Snapshot) []Manager {
	managers := []Manager{}
	add := func(object Ref, labels map[string]string, template *corev1.PodSpec, want *int32, ready int32) {
		i := slices.IndexFunc(template.Containers, func(c corev1.Container) bool { return c.Name == snapshot.ManagerContainer })
		if i >= 0 && labels[snapshot.LabelManager] == snapshot.ManagerName {
			managers = append(managers, Manager{Ref: object, Image: template.Containers[i].Image, Ready: ready, Want: ptr.Deref(want, 1)})
		}
	}
	for _, set := range snapshot.Typed[appsv1.StatefulSet](s, snapshot.StatefulSet) {
		add(ref(snapshot.StatefulSet, set.Namespace, set.Name), set.Labels, &set.Spec.Template.Spec, set.Spec.Replicas, set.Status.ReadyReplicas)
	}
	for _, deployment := range snapshot.Typed[appsv1.Deployment](s, snapshot.Deployment) {
		add(ref(snapshot.Deployment, deployment.Namespace, deployment.Name), deployment.Labels, &deployment.Spec.Template.Spec,
			deployment.Spec.Replicas, deployment.Status.ReadyReplicas)
	}
	return managers
}

// secretUse is a Secret that an object names.
type secretUse struct {
	secret Ref
	// user names it in field.
	user  Ref
	field string
	// isSent is true if the Secret must be marked as a credential.
	isSent bool
	// isLogon is true if it is for logons at endpoints.
	isLogon bool
}

func secretRef(namespace, name string) Ref {
	return Ref{Kind: "Secret", Namespace: namespace, Name: name}
}

// addUses finds the Secrets that objects name.
func (v *view) addUses() {
	v.secretsOf = map[Ref][]Ref{}
	add := func(user Ref, name, field string, isSent bool) {
		if name != "" {
			secret := secretRef(user.Namespace, name)
			v.uses = append(v.uses, secretUse{secret, user, field, isSent, user.Kind != snapshot.OperatorCollection.Kind})
			v.secretsOf[user] = append(v.secretsOf[user], secret)
		}
	}
	for _, oc := range v.collections {
		user := ref(snapshot.OperatorCollection, oc.Namespace, oc.Name)
		add(user, oc.Spec.CredentialsSecret, "spec.credentialsSecret", true)
		add(user, oc.Spec.SignatureSecret, "spec.signatureSecret", false)
		if oc.Spec.Dependencies != nil {
			add(user, oc.Spec.Dependencies.CredentialsSecret, "spec.dependencies.credentialsSecret", true)
		}
	}
	for _, e := range v.endpoints {
		add(ref(snapshot.ZosEndpoint, e.Namespace, e.Name), e.Spec.CredentialName, "spec.credentialName", true)
	}
	for _, config := range v.configs {
		for _, mapping := range config.Spec.Mapping {
			if mapping.ZosEndpoints == nil {
				continue
			}
			for _, e := range *mapping.ZosEndpoints {
				add(ref(snapshot.SubOperatorConfig, config.Namespace, config.Name), e.CredentialName, "spec.mapping", true)
			}
		}
	}
}

func compareKeys(a, b installationKey) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Name, b.Name))
}

// olmView has what OLM installs from the manager's catalog.
type olmView struct {
	subscriptions []*operatorsv1alpha1.Subscription
	// ofPackage has the Subscriptions of a package in a namespace.
	ofPackage map[types.NamespacedName][]*operatorsv1alpha1.Subscription
	plans     map[types.NamespacedName]*operatorsv1alpha1.InstallPlan
	versions  map[types.NamespacedName]*operatorsv1alpha1.ClusterServiceVersion
	// groups has the names of the OperatorGroups of a namespace.
	groups map[string][]string
}

func olmViewOf(s *snapshot.Snapshot) olmView {
	v := olmView{
		ofPackage: map[types.NamespacedName][]*operatorsv1alpha1.Subscription{}, groups: map[string][]string{},
		plans:    byName(snapshot.Typed[operatorsv1alpha1.InstallPlan](s, snapshot.InstallPlan)),
		versions: byName(snapshot.Typed[operatorsv1alpha1.ClusterServiceVersion](s, snapshot.ClusterServiceVersion)),
	}
	for _, subscription := range snapshot.Typed[operatorsv1alpha1.Subscription](s, snapshot.Subscription) {
		if subscription.Spec == nil || subscription.Spec.CatalogSource != snapshot.CatalogName {
			continue
		}
		key := types.NamespacedName{Namespace: subscription.Namespace, Name: subscription.Spec.Package}
		v.subscriptions = append(v.subscriptions, subscription)
		v.ofPackage[key] = append(v.ofPackage[key], subscription)
	}
	for _, group := range snapshot.Typed[operatorsv1.OperatorGroup](s, snapshot.OperatorGroup) {
		v.groups[group.Namespace] = append(v.groups[group.Namespace], group.Name)
	}
	return v
}

func byName[T metav1.Object](objects []T) map[types.NamespacedName]T {
	named := make(map[types.NamespacedName]T, len(objects))
	for _, object := range objects {
		named[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] = object
	}
	return named
}
