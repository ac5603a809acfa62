package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// Kinds of the Operator Lifecycle Manager (OLM).
var (
	SubscriptionKind          = operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.SubscriptionKind)
	ClusterServiceVersionKind = operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind)
	OperatorGroupKind         = operatorsv1.GroupVersion.WithKind("OperatorGroup")
)

// GroupName is the name of an OperatorGroup, and its value of [v1alpha1.AnnotationOperand]: all operators of a namespace share it.
const GroupName = "collection-operator-operands"

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

// annotationExamples is that of a ClusterServiceVersion with examples, as a list in JSON.
const annotationExamples = "alm-examples"

// InstalledBy reads a ClusterServiceVersion. Examples without kind, name or spec are ignored.
func InstalledBy(csv *operatorsv1alpha1.ClusterServiceVersion) (*Installed, error) {
	installed := &Installed{}
	for _, owned := range csv.Spec.CustomResourceDefinitions.Owned {
		_, group, _ := strings.Cut(owned.Name, ".")
		installed.Kinds = append(installed.Kinds, schema.GroupKind{Group: group, Kind: owned.Kind})
	}
	text := csv.Annotations[annotationExamples]
	if text == "" {
		return installed, nil
	}
	var examples []any
	if err := json.Unmarshal([]byte(text), &examples); err != nil {
		return nil, fmt.Errorf("annotation %s of ClusterServiceVersion %q: %w", annotationExamples, csv.Name, err)
	}
	for _, item := range examples {
		fields, _ := item.(map[string]any)
		metadata, _ := fields["metadata"].(map[string]any)
		apiVersion, _ := fields["apiVersion"].(string)
		kind, _ := fields["kind"].(string)
		name, _ := metadata["name"].(string)
		spec, hasSpec := fields["spec"].(map[string]any)
		if apiVersion != "" && kind != "" && name != "" && hasSpec {
			installed.Examples = append(installed.Examples, Example{schema.FromAPIVersionAndKind(apiVersion, kind), name, spec})
		}
	}
	return installed, nil
}

// PackageOf returns where the package of an operator is installed, or nil if the operator has none.
func PackageOf(registry *v1alpha1.OperandRegistry, operator *v1alpha1.Operator, source *Source) *PackageKey {
	if operator.Collection != nil || operator.PackageName == "" {
		return nil
	}
	key := PackageKey{cmp.Or(operator.Namespace, registry.Namespace), operator.PackageName}
	if operator.InstallMode == v1alpha1.InstallModeCluster {
		key.Namespace = source.GlobalNamespace
	}
	return &key
}

// newPackage returns the package that the operator of an OperandRegistry specifies.
func newPackage(id ID, operator *v1alpha1.Operator, key PackageKey, installed *Installed) (*Package, error) {
	if operator.Channel == "" {
		return nil, fmt.Errorf("operator %q: packageName needs channel", operator.Name)
	}
	approval := cmp.Or(operator.InstallPlanApproval, string(operatorsv1alpha1.ApprovalAutomatic))
	if !slices.Contains([]string{string(operatorsv1alpha1.ApprovalAutomatic), string(operatorsv1alpha1.ApprovalManual)}, approval) {
		return nil, fmt.Errorf("operator %q: installPlanApproval must be Automatic or Manual, but is %q", operator.Name, approval)
	}
	p := &Package{
		PackageKey: key, Channels: append([]string{operator.Channel}, operator.FallbackChannels...),
		Source: operator.SourceName, SourceNamespace: operator.SourceNamespace, Global: operator.InstallMode == v1alpha1.InstallModeCluster,
	}
	if installed != nil {
		p.Kinds = installed.Kinds
	}
	spec := map[string]any{"name": key.Name, "channel": operator.Channel, "installPlanApproval": approval}
	for name, value := range map[string]string{"source": p.Source, "sourceNamespace": p.SourceNamespace, "startingCSV": operator.StartingCSV} {
		if value != "" {
			spec[name] = value
		}
	}
	if operator.SubscriptionConfig != nil {
		config, err := object(operator.SubscriptionConfig.Raw)
		if err != nil {
			return nil, fmt.Errorf("operator %q: subscriptionConfig: %w", operator.Name, err)
		}
		spec["config"] = config
	}
	p.Subscription = operatorObject(SubscriptionKind, key.Namespace, key.Name, id.String(), spec)
	if p.Global {
		return p, nil
	}
	p.Targets = []string{key.Namespace}
	if len(operator.TargetNamespaces) > 0 {
		p.Targets = slices.Compact(slices.Sorted(slices.Values(operator.TargetNamespaces)))
	}
	targets := make([]any, len(p.Targets))
	for i, target := range p.Targets {
		targets[i] = target
	}
	p.Group = operatorObject(OperatorGroupKind, key.Namespace, GroupName, GroupName, map[string]any{"targetNamespaces": targets})
	return p, nil
}

func operatorObject(kind schema.GroupVersionKind, namespace, name, owner string, spec map[string]any) Object {
	o := Object{
		Origin: v1alpha1.OriginOperator, Kind: kind, Owner: owner,
		Key: types.NamespacedName{Namespace: namespace, Name: name}, Config: map[string]any{"spec": spec},
	}
	o.mark(nil, nil)
	return o
}

// addExamples adds the resources of an operator that OLM installs: its examples of the kinds that the OperandConfig names. Other names
// have no effect. An upgrade removes nothing: a resource keeps its name if that of its example is another one now.
func (b *builder) addExamples(service *v1alpha1.ConfigService) error {
	recorded := b.recordedExamples()
	former := slices.DeleteFunc(slices.Clone(recorded), func(e v1alpha1.InventoryEntry) bool {
		isNamed := slices.ContainsFunc(slices.Collect(maps.Keys(service.Spec)), func(name string) bool { return strings.EqualFold(name, e.Kind) })
		return !isNamed || slices.ContainsFunc(b.installed.Examples, func(example Example) bool { return example.is(e) })
	})
	for i := range b.installed.Examples {
		example := &b.installed.Examples[i]
		for _, key := range slices.Sorted(maps.Keys(service.Spec)) {
			if !strings.EqualFold(key, example.Kind.Kind) {
				continue
			}
			spec, err := object(service.Spec[key].Raw)
			if err != nil {
				return fmt.Errorf("service %q: spec.%s: %w", service.Name, key, err)
			}
			name := example.Name
			at := slices.IndexFunc(former, func(e v1alpha1.InventoryEntry) bool { return groupKind(e) == example.Kind.GroupKind() })
			if at >= 0 && !slices.ContainsFunc(recorded, example.is) {
				name = former[at].Name // Before it is deleted.
				former = slices.Delete(former, at, at+1)
			}
			b.add(Object{
				Origin: v1alpha1.OriginConfig, Owner: b.operand.ID.String(), ConfigKey: key, Consent: AnnotationConsent, Kind: example.Kind,
				Key:     types.NamespacedName{Namespace: b.registry.Namespace, Name: name},
				Example: map[string]any{"spec": example.Spec}, Config: map[string]any{"spec": spec}, Package: b.pkg,
			}, nil, nil)
		}
	}
	b.operand.Former = former
	return nil
}

// recordedExamples returns what was created for examples of the package: for this request, or for others that share it.
func (b *builder) recordedExamples() []v1alpha1.InventoryEntry {
	var recorded []v1alpha1.InventoryEntry
	add := func(e v1alpha1.InventoryEntry) {
		if e.Origin == v1alpha1.OriginConfig && e.Package == b.pkg && e.Namespace == b.registry.Namespace &&
			!slices.ContainsFunc(recorded, func(other v1alpha1.InventoryEntry) bool { return Same(other, e) }) {
			recorded = append(recorded, e)
		}
	}
	for _, e := range b.request.Status.Inventory { // Of an operand that has another name now, too.
		add(e)
	}
	for _, e := range b.recorded {
		if b.operand.ID.Is(e) {
			add(e)
		}
	}
	return recorded
}

// is reports whether an entry of an inventory is about a resource that was created for an example with this name.
func (e *Example) is(entry v1alpha1.InventoryEntry) bool {
	return groupKind(entry) == e.Kind.GroupKind() && entry.Name == e.Name
}

// checkKind refuses a kind that is not one of the operator: this process could create it, but the owner of the OperandRegistry has not
// offered it.
func (b *builder) checkKind(kind schema.GroupVersionKind) error {
	var kinds []string
	var found bool
	switch {
	case b.collection != nil:
		kinds = b.collection.Status.Collection.Kinds
		found = kind.Group == groupOf(b.collection) && slices.Contains(kinds, kind.Kind)
	case b.installed != nil:
		for _, of := range b.installed.Kinds {
			kinds = append(kinds, of.Kind)
		}
		found = slices.Contains(b.installed.Kinds, kind.GroupKind())
	default:
		return fmt.Errorf("operand %q: the operator is not installed, so its kinds are not known", b.operator.Name)
	}
	if !found {
		return fmt.Errorf("operand %q: the operator has no kind %s in %s: it has %s", b.operator.Name, kind.Kind, kind.GroupVersion(), strings.Join(kinds, ", "))
	}
	return nil
}
