// Package plan determines what an OperandRequest wants: which operators are installed in which namespaces, and which resources are
// created. It knows no cluster.
package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
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

// Of returns what an OperandRequest wants, in the order in which it names operands first.
func Of(request *v1alpha1.OperandRequest, source *Source) []Operand {
	var operands []Operand
	for _, wanted := range group(request) {
		operand := Operand{ID: wanted.id}
		err := operand.resolve(request, wanted, source)
		if err == nil {
			err = operand.checkNames(operands)
		}
		if err != nil {
			operand = Operand{ID: wanted.id, Problem: problemOf(err), Objects: operand.copies(operands)}
		}
		operands = append(operands, operand)
	}
	return operands
}

// Registries returns the OperandRegistries that an OperandRequest names, or has something of, in any order.
func Registries(request *v1alpha1.OperandRequest) []types.NamespacedName {
	var keys []types.NamespacedName
	for _, r := range request.Spec.Requests {
		keys = append(keys, types.NamespacedName{Namespace: cmp.Or(r.RegistryNamespace, request.Namespace), Name: r.Registry})
	}
	for _, e := range request.Status.Inventory {
		keys = append(keys, IDOf(e).Registry)
	}
	return keys
}

// IDs returns the operands that an OperandRequest names, or has something of, in any order. One may be returned several times.
func IDs(request *v1alpha1.OperandRequest) []ID {
	var ids []ID
	for _, asked := range group(request) {
		ids = append(ids, asked.id)
	}
	for _, e := range request.Status.Inventory {
		ids = append(ids, IDOf(e))
	}
	return ids
}

// Names reports whether an OperandRegistry has an operator of an OperatorCollection.
func Names(registry *v1alpha1.OperandRegistry, collection types.NamespacedName) bool {
	return slices.ContainsFunc(registry.Spec.Operators, func(o v1alpha1.Operator) bool {
		return o.Collection != nil && o.Collection.Name == collection.Name && cmp.Or(o.Collection.Namespace, registry.Namespace) == collection.Namespace
	})
}

// asked is all that an OperandRequest says about one operator.
type asked struct {
	id      ID
	entries []*v1alpha1.Operand
}

// group collects what an OperandRequest says about each operator.
func group(request *v1alpha1.OperandRequest) []*asked {
	var all []*asked
	for r := range request.Spec.Requests {
		of := &request.Spec.Requests[r]
		registry := types.NamespacedName{Namespace: cmp.Or(of.RegistryNamespace, request.Namespace), Name: of.Registry}
		for o := range of.Operands {
			id := ID{registry, of.Operands[o].Name}
			at := slices.IndexFunc(all, func(a *asked) bool { return a.id == id })
			if at < 0 {
				at, all = len(all), append(all, &asked{id: id})
			}
			all[at].entries = append(all[at].entries, &of.Operands[o])
		}
	}
	return all
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

func (o *Operand) resolve(request *v1alpha1.OperandRequest, wanted *asked, source *Source) error {
	if strings.Contains(o.ID.Name, "/") {
		return fmt.Errorf("the name of an operand must not have /, but is %q", o.ID.Name)
	}
	registry := source.Registries[o.ID.Registry]
	if registry == nil {
		return refuse(v1alpha1.ReasonRegistryNotFound, "OperandRegistry %q does not exist", o.ID.Registry)
	}
	operator := registry.Find(o.ID.Name)
	if operator == nil {
		return refuse(v1alpha1.ReasonOperandNotFound, "OperandRegistry %q does not list an operator %q", o.ID.Registry, o.ID.Name)
	}
	if operator.Scope != v1alpha1.ScopePublic && request.Namespace != registry.Namespace {
		return refuse(v1alpha1.ReasonOutOfScope, "%q is private: only OperandRequests in namespace %q may request it, unless its scope in OperandRegistry %q is public",
			operator.Name, registry.Namespace, o.ID.Registry)
	}
	b := &builder{request: request, registry: registry, operator: operator, operand: o, recorded: source.Recorded}
	b.addBindings(wanted.entries, source.BindInfos) // First, as the others may need them. They are removed last.
	if err := b.findOperator(source); err != nil {
		return err
	}
	return b.build(wanted.entries, source.Configs[o.ID.Registry])
}

// findOperator determines what installs the operator, and what is known of it.
func (b *builder) findOperator(source *Source) error {
	switch b.operator.InstallMode {
	case v1alpha1.InstallModeNoOp:
		b.operand.NoOp = true
	case v1alpha1.InstallModeCluster:
		if b.operator.Collection != nil {
			return fmt.Errorf("operator %q: installMode cluster needs packageName: the operator of a collection is installed where it is requested", b.operator.Name)
		}
	case "", v1alpha1.InstallModeNamespace:
	default:
		return fmt.Errorf("operator %q: installMode must be namespace, cluster or no-op, but is %q", b.operator.Name, b.operator.InstallMode)
	}
	key := PackageOf(b.registry, b.operator, source)
	if key == nil {
		collection, err := findCollection(b.registry, b.operator, source)
		if err != nil && !b.operand.NoOp {
			return err
		}
		b.collection = collection
		return nil
	}
	b.installed, b.pkg = source.Installed[*key], key.String()
	b.operand.KindsUnknown = b.installed == nil
	if b.operand.NoOp {
		return nil
	}
	var err error
	b.operand.Package, err = newPackage(b.operand.ID, b.operator, *key, b.installed)
	return err
}

// findCollection returns the OperatorCollection of an operator, which the OperandRegistry may use.
func findCollection(registry *v1alpha1.OperandRegistry, operator *v1alpha1.Operator, source *Source) (*v2beta2.OperatorCollection, error) {
	if operator.Collection == nil {
		return nil, refuse(v1alpha1.ReasonInvalidOperand, "operator %q has neither collection nor packageName", operator.Name)
	}
	key := types.NamespacedName{Namespace: cmp.Or(operator.Collection.Namespace, registry.Namespace), Name: operator.Collection.Name}
	collection := source.Collections[key]
	if key.Namespace != registry.Namespace {
		// Whether it exists is not revealed to others.
		if collection == nil || !lists(collection.Annotations[v1alpha1.AnnotationAllowRegistries], registry.Namespace) {
			return nil, refuse(v1alpha1.ReasonOutOfScope, "OperatorCollection %q does not exist, or does not allow it: its owner can give it the annotation %s: %s",
				key, v1alpha1.AnnotationAllowRegistries, registry.Namespace)
		}
	}
	switch {
	case collection == nil:
		return nil, refuse(v2beta2.ReasonCollectionNotFound, "OperatorCollection %q does not exist", key)
	case collection.DeletionTimestamp != nil:
		return nil, refuse(v2beta2.ReasonCollectionTerminating, "OperatorCollection %q is being deleted", key)
	case collection.Status.Collection == nil:
		return nil, refuse(v2beta2.ReasonCollectionNotImported, "OperatorCollection %q is not imported yet", key)
	}
	return collection, nil
}

// lists reports whether a list of names, separated by commas, has a name.
func lists(text, name string) bool {
	return slices.ContainsFunc(strings.Split(text, ","), func(item string) bool { return strings.TrimSpace(item) == name })
}
