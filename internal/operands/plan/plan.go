// Package plan determines what an OperandRequest wants: which operators are installed in which namespaces, and which resources are
// created. It knows no cluster.
package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
)

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

func (b *builder) build(entries []*v1alpha1.Operand, config *v1alpha1.OperandConfig) error {
	home := cmp.Or(b.operator.Namespace, b.registry.Namespace)
	configured := slices.ContainsFunc(entries, func(e *v1alpha1.Operand) bool { return e.Kind == "" })
	if configured {
		b.places = append(b.places, home)
		b.operand.ConfigMissing = config == nil
		if config != nil {
			b.addConfigured(config.Find(cmp.Or(b.operator.ConfigName, b.operator.Name)), home)
		}
	}
	for _, e := range entries {
		if e.Kind == "" {
			continue
		}
		if err := b.addRequested(e); err != nil {
			return err
		}
	}
	b.addInstalls(home)
	return nil
}

// addInstalls adds the places in which resources need the operator. If there are none, it is its own namespace.
func (b *builder) addInstalls(home string) {
	if b.operand.NoOp || b.collection == nil {
		return
	}
	if len(b.places) == 0 {
		b.places = append(b.places, home)
	}
	slices.Sort(b.places)
	for _, namespace := range slices.Compact(b.places) {
		b.operand.Installs = append(b.operand.Installs, Install{
			Collection:   types.NamespacedName{Namespace: b.collection.Namespace, Name: b.collection.Name},
			Namespace:    namespace,
			ZosEndpoints: b.endpoints(),
		})
	}
}

// endpoints returns the ZosEndpoints that the operator may use. Those of another namespace must be named.
func (b *builder) endpoints() *[]v2beta2.EndpointMapping {
	if b.operator.Collection.ZosEndpoints == nil && b.collection.Namespace != b.registry.Namespace {
		return &[]v2beta2.EndpointMapping{}
	}
	return b.operator.Collection.ZosEndpoints
}

// checkNames refuses an object that the operand specifies twice, or that an earlier one of the request specifies. If the OperandConfig
// specifies it, only what that specifies is refused.
func (o *Operand) checkNames(before []Operand) error {
	seen := namesOfAll(before)
	err := o.checkObjects(o.Objects, maps.Clone(seen))
	if err == nil {
		return nil
	}
	if own := o.checkObjects(o.withoutConfigured(), seen); own != nil {
		return own
	}
	o.refuseConfig(err)
	return nil
}

// checkObjects refuses objects with the same name. Seen has the operand that specifies each object before, and gets these.
func (o *Operand) checkObjects(objects []Object, seen map[string]string) error {
	for i := range objects {
		object := objects[i].name()
		if other, exists := seen[object]; exists {
			return fmt.Errorf("operand %q specifies %s, which operand %q specifies, too: give it another name, such as with instanceName", o.ID.Name, object, other)
		}
		seen[object] = o.ID.Name
	}
	return nil
}

// copies returns the copies of Secrets and ConfigMaps whose names are not taken. They do not depend on the rest of the operand.
func (o *Operand) copies(before []Operand) []Object {
	seen := namesOfAll(before)
	return slices.DeleteFunc(o.Objects, func(object Object) bool {
		name := object.name()
		_, exists := seen[name]
		seen[name] = o.ID.Name
		return exists || object.Origin != v1alpha1.OriginBinding
	})
}

// namesOfAll has the operand that specifies each object.
func namesOfAll(operands []Operand) map[string]string {
	names := map[string]string{}
	for i := range operands {
		for j := range operands[i].Objects {
			names[operands[i].Objects[j].name()] = operands[i].ID.Name
		}
	}
	return names
}
