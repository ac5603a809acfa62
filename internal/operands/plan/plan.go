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

// Problem is why nothing can be done about an operand. What exists of it remains as it is.
type Problem struct {
	// Reason is a constant of the API.
	Reason, Message string
}

// Operand is what an OperandRequest wants of one operator.
type Operand struct {
	ID ID
	// Problem is nil if the rest can be done.
	Problem *Problem
	// NoOp is true if the operator is not installed on purpose.
	NoOp bool
	// Installs are the places in which the operator is needed, sorted.
	Installs []Install
	// Objects are the resources. Those that the OperandConfig specifies come first.
	Objects []Object
	// ConfigMissing is true if the OperandConfig does not exist. What it specified before remains.
	ConfigMissing bool
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
		if err := operand.resolve(request, wanted, source); err != nil {
			operand = Operand{ID: wanted.id, Problem: problemOf(err)}
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
		namespace, name, _ := strings.Cut(e.Registry, "/")
		keys = append(keys, types.NamespacedName{Namespace: namespace, Name: name})
	}
	return keys
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
	entries []entry
}

// entry is an item of operands, with the number of those before it that specify a resource of the same kind without a name.
type entry struct {
	*v1alpha1.Operand
	number int
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
			all[at].add(&of.Operands[o])
		}
	}
	return all
}

func (a *asked) add(operand *v1alpha1.Operand) {
	number := 0
	for _, other := range a.entries {
		if other.InstanceName == "" && other.Kind == operand.Kind && other.APIVersion == operand.APIVersion {
			number++
		}
	}
	a.entries = append(a.entries, entry{operand, number})
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
	o.NoOp = operator.InstallMode == v1alpha1.InstallModeNoOp
	collection, err := findCollection(registry, operator, source)
	if err != nil && !o.NoOp {
		return err
	}
	b := &builder{request: request, registry: registry, operator: operator, collection: collection, operand: o}
	return b.build(wanted.entries, source.Configs[o.ID.Registry], source.BindInfos)
}

// findCollection returns the OperatorCollection of an operator, which the OperandRegistry may use.
func findCollection(registry *v1alpha1.OperandRegistry, operator *v1alpha1.Operator, source *Source) (*v2beta2.OperatorCollection, error) {
	if operator.Collection == nil {
		return nil, refuse(v1alpha1.ReasonInvalidOperand, "operator %q has no collection: packages of the Operator Lifecycle Manager cannot be requested yet", operator.Name)
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
