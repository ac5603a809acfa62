package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
)

// Source has the objects that OperandRequests refer to.
type Source struct {
	Registries  map[types.NamespacedName]*v1alpha1.OperandRegistry
	Configs     map[types.NamespacedName]*v1alpha1.OperandConfig
	Collections map[types.NamespacedName]*v2beta2.OperatorCollection
	// Installed has what is known of the packages that are installed.
	Installed map[PackageKey]*Installed
	// Recorded has the entries of the inventories of all OperandRequests that are about examples of packages.
	Recorded []v1alpha1.InventoryEntry
	// GlobalNamespace is that of operators for all namespaces.
	GlobalNamespace string
	// BindInfos are sorted by namespace and name.
	BindInfos []*v1alpha1.OperandBindInfo
}

// ID identifies an operand.
type ID struct {
	Registry types.NamespacedName
	Name     string
}

// String returns <namespace of the OperandRegistry>/<OperandRegistry>/<operand>.
func (id ID) String() string { return id.Registry.String() + "/" + id.Name }

// Is reports whether an entry of an inventory is about an operand.
func (id ID) Is(e v1alpha1.InventoryEntry) bool {
	return e.Registry == id.Registry.String() && e.Operand == id.Name
}

// IDOf returns the operand of an entry of an inventory.
func IDOf(e v1alpha1.InventoryEntry) ID {
	namespace, name, _ := strings.Cut(e.Registry, "/")
	return ID{types.NamespacedName{Namespace: namespace, Name: name}, e.Operand}
}

// Problem is why nothing can be done about an operand, except for its copies. What else exists of it remains as it is.
type Problem struct {
	// Reason is a constant of the API.
	Reason, Message string
}

// problem is an error with a reason.
type problem struct{ Problem }

func (p *problem) Error() string { return p.Message }

func refuse(reason, format string, args ...any) error {
	return &problem{Problem{reason, fmt.Sprintf(format, args...)}}
}

func problemOf(err error) *Problem {
	var p *problem
	if errors.As(err, &p) {
		return &p.Problem
	}
	return &Problem{v1alpha1.ReasonInvalidOperand, err.Error()}
}

// Operand is what an OperandRequest wants of one operator.
type Operand struct {
	ID ID
	// Problem is nil if all can be done. Otherwise Objects has the copies of Secrets and ConfigMaps only.
	Problem *Problem
	// NoOp is true if the operator is not installed on purpose.
	NoOp bool
	// Installs are the places in which the operator is needed, sorted.
	Installs []Install
	// Package installs the operator with the Operator Lifecycle Manager. It is nil if that does not install it.
	Package *Package
	// Objects are the resources. Those that the OperandConfig specifies come first.
	Objects []Object
	// ConfigMissing is true if the OperandConfig does not exist. What it specified before remains.
	ConfigMissing bool
	// ConfigProblem is why nothing can be done about what the OperandConfig specifies. What exists of it remains as it is.
	ConfigProblem *Problem
	// Former has what was created for examples that the operator does not have any more, of kinds that the OperandConfig names. It
	// remains as it is.
	Former []v1alpha1.InventoryEntry
	// KindsUnknown is true if the package is not installed yet: its kinds and examples are not known, and Objects lacks resources.
	KindsUnknown bool
}

// Install is a namespace in which the operator of an OperatorCollection is needed.
type Install struct {
	// Collection is the OperatorCollection.
	Collection types.NamespacedName
	// Namespace is that of the operator.
	Namespace string
	// ZosEndpoints are those that the operator may use. Nil means all.
	ZosEndpoints *[]v2beta2.EndpointMapping
}

// Place identifies an Install.
func (i Install) Place() string { return i.Collection.String() + " " + i.Namespace }

// Is reports whether an entry of an inventory is a mapping that serves the place.
func (i Install) Is(e v1alpha1.InventoryEntry) bool {
	return e.Mapping == i.Namespace && e.Namespace == i.Collection.Namespace && e.Collection == i.Collection.Name
}

// Object is a resource that is wanted.
type Object struct {
	// Origin says what specifies the resource.
	Origin v1alpha1.InventoryOrigin
	Kind   schema.GroupVersionKind
	Key    types.NamespacedName
	// Owner is the value of [v1alpha1.AnnotationOperand].
	Owner string
	// Source is what the resource is a copy of. It is zero if it is none.
	Source types.NamespacedName
	// SourceKind is the kind of Source.
	SourceKind schema.GroupVersionKind
	// Paths are those of the fields of a Route or Service of which [Object.Data] is made. They are nil for a copy of the same kind.
	Paths map[string]string
	// Consent is the annotation with which a namespace other than that of the OperandRegistry agrees that an OperandConfig creates the
	// resource in it.
	Consent string
	// Package is that of an operator which OLM installs, if the resource needs it: that of an inventory.
	Package string
	// ConfigKey is the name of the resource in the status of an OperandConfig. It is empty if the OperandConfig does not specify it.
	ConfigKey string
	// Example and Config are its fields, other than apiVersion, kind and status. Of metadata there are labels and annotations only.
	Example, Config map[string]any
	// CreateOnly is true if the resource is not changed once it exists.
	CreateOnly bool
}

// Fields returns the fields to apply. Others are those of the live resource that others wrote.
func (o *Object) Fields(others map[string]any) map[string]any {
	return merge.Configuration(o.Example, others, o.Config)
}

// Is reports whether an entry of an inventory is this resource, whatever the version of its API.
func (o *Object) Is(e v1alpha1.InventoryEntry) bool {
	return e.Mapping == "" && schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind() == o.Kind.GroupKind() &&
		e.Namespace == o.Key.Namespace && e.Name == o.Key.Name
}

// Entry returns the entry of a resource in an inventory, without UID.
func (o *Object) Entry(id ID) v1alpha1.InventoryEntry {
	apiVersion, kind := o.Kind.ToAPIVersionAndKind()
	return v1alpha1.InventoryEntry{
		Registry: id.Registry.String(), Operand: id.Name, Origin: o.Origin,
		APIVersion: apiVersion, Kind: kind, Namespace: o.Key.Namespace, Name: o.Key.Name, Package: o.Package,
	}
}

// name identifies an object, whatever the version of its API.
func (o *Object) name() string { return fmt.Sprintf("%s %q", o.Kind.GroupKind(), o.Key) }

func (o *Object) mark(labels, annotations map[string]string) {
	o.Config["metadata"] = map[string]any{
		"labels":      with(labels, v1alpha1.LabelControl, "true"),
		"annotations": with(annotations, v1alpha1.AnnotationOperand, o.Owner),
	}
}

func with(values map[string]string, key, value string) map[string]any {
	all := map[string]any{}
	for k, v := range values {
		all[k] = v
	}
	all[key] = value
	return all
}

// PackageKey identifies a package in the namespace of its Subscription.
type PackageKey struct{ Namespace, Name string }

// String returns <namespace>/<name>, as in an inventory.
func (k PackageKey) String() string { return k.Namespace + "/" + k.Name }

// Package is a package of OLM whose operator is needed in a namespace.
type Package struct {
	PackageKey
	// Channels are those that a Subscription which was not created for the operand may have. The first is that of one which is.
	Channels []string
	// Source and SourceNamespace are the catalog. They are empty if it is to be found.
	Source, SourceNamespace string
	// Global is true if the operator is installed for all namespaces. Then there is no Group.
	Global bool
	// Targets are the namespaces of the operator, sorted. They are empty if Global.
	Targets []string
	// Kinds are those of the operator. There are none until it is installed.
	Kinds []schema.GroupKind
	// Subscription lacks the catalog if that is to be found.
	Subscription Object
	// Group is created if the namespace has none.
	Group Object
}

// Is reports whether an entry of an inventory installs the package.
func (p *Package) Is(e v1alpha1.InventoryEntry) bool {
	if e.Origin != v1alpha1.OriginOperator || e.Mapping != "" || e.Namespace != p.Namespace {
		return false
	}
	return e.Package == p.String() || !p.Global && groupKind(e) == OperatorGroupKind.GroupKind()
}

// Entry returns the entry of an object that installs the package, without UID.
func (p *Package) Entry(o *Object, id ID) v1alpha1.InventoryEntry {
	e := o.Entry(id)
	if o.Kind != OperatorGroupKind {
		e.Package = p.String()
	}
	return e
}

// Watched returns the namespaces in which a resource keeps the operator of a package, whoever has created it, sorted. Registry is that of
// the OperandRegistry.
func (p *Package) Watched(registry string) []string {
	namespaces := append([]string{p.Namespace, registry}, p.Targets...)
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

// Installed is what a ClusterServiceVersion says about an operator.
type Installed struct {
	// Kinds are those of the operator.
	Kinds []schema.GroupKind
	// Examples are resources of these kinds, or of others.
	Examples []Example
}

// Example is a resource with which an OperandConfig is merged.
type Example struct {
	Kind schema.GroupVersionKind
	Name string
	Spec map[string]any
}

// is reports whether an entry of an inventory is about a resource that was created for an example with this name.
func (e *Example) is(entry v1alpha1.InventoryEntry) bool {
	return groupKind(entry) == e.Kind.GroupKind() && entry.Name == e.Name
}

func groupKind(e v1alpha1.InventoryEntry) schema.GroupKind {
	return schema.FromAPIVersionAndKind(e.APIVersion, e.Kind).GroupKind()
}

// Kinds of the Operator Lifecycle Manager (OLM).
var (
	SubscriptionKind          = operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind)
	ClusterServiceVersionKind = operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind)
	OperatorGroupKind         = operatorsv1.GroupVersion.WithKind("OperatorGroup")
)

var (
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	serviceKind   = corev1.SchemeGroupVersion.WithKind("Service")
	routeKind     = schema.GroupVersionKind{Group: "route.openshift.io", Version: "v1", Kind: "Route"}
)

// FieldOwner is the field manager of all that is created for OperandRequests.
const FieldOwner = "collection-operator-operands"

// GroupName is the name of an OperatorGroup, and its value of [v1alpha1.AnnotationOperand]: all operators of a namespace share it.
const GroupName = "collection-operator-operands"

// AnnotationConsent on a namespace lists the namespaces, separated by commas, from which operators may be installed in it, and resources
// of their kinds created. It is that of SubOperatorConfigs.
const AnnotationConsent = "zoscb.ibm.com/allow-mapping-from"

// lists reports whether a list of names, separated by commas, has a name.
func lists(text, name string) bool {
	return slices.ContainsFunc(strings.Split(text, ","), func(item string) bool { return strings.TrimSpace(item) == name })
}
