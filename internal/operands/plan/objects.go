package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/operands/merge"
)

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

// builder determines the resources of an operand, and where its operator is needed.
type builder struct {
	request    *v1alpha1.OperandRequest
	registry   *v1alpha1.OperandRegistry
	operator   *v1alpha1.Operator
	collection *v2beta2.OperatorCollection // Nil for no-op.
	operand    *Operand
	places     []string
}

func (b *builder) build(entries []entry, config *v1alpha1.OperandConfig, infos []*v1alpha1.OperandBindInfo) error {
	home := cmp.Or(b.operator.Namespace, b.registry.Namespace)
	configured := slices.ContainsFunc(entries, func(e entry) bool { return e.Kind == "" })
	if configured {
		b.places = append(b.places, home)
		b.operand.ConfigMissing = config == nil
		if config != nil {
			if err := b.addService(config.Find(cmp.Or(b.operator.ConfigName, b.operator.Name)), home); err != nil {
				return fmt.Errorf("OperandConfig %q: %w", b.operand.ID.Registry, err)
			}
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
	b.addBindings(entries, infos)
	b.addInstalls(home)
	return b.checkNames()
}

// addService adds what the OperandConfig specifies. The resources come first, as the others may need them.
func (b *builder) addService(service *v1alpha1.ConfigService, home string) error {
	if service == nil {
		return nil
	}
	for i := range service.Resources {
		if err := b.addResource(&service.Resources[i]); err != nil {
			return fmt.Errorf("service %q: resources[%d]: %w", service.Name, i, err)
		}
	}
	if b.collection == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(service.Spec)) {
		kinds := b.collection.Status.Collection.Kinds
		at := slices.IndexFunc(kinds, func(kind string) bool { return strings.EqualFold(kind, name) })
		if at < 0 {
			return fmt.Errorf("service %q: collection %q has no kind %q: it has %s", service.Name, b.collection.Name, name, strings.Join(kinds, ", "))
		}
		spec, err := object(service.Spec[name].Raw)
		if err != nil {
			return fmt.Errorf("service %q: spec.%s: %w", service.Name, name, err)
		}
		b.add(Object{
			Origin: v1alpha1.OriginConfig, Owner: b.operand.ID.String(), ConfigKey: name,
			Kind:   schema.FromAPIVersionAndKind(b.collection.Status.Collection.APIVersion, kinds[at]),
			Key:    types.NamespacedName{Namespace: home, Name: b.operand.ID.Name},
			Config: map[string]any{"spec": spec},
		}, nil, nil)
	}
	return nil
}

func (b *builder) addResource(r *v1alpha1.ConfigResource) error {
	data := map[string]any{}
	if r.Data != nil {
		var err error
		if data, err = object(r.Data.Raw); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	for _, field := range []string{"apiVersion", "kind", "metadata", "status"} {
		if _, exists := data[field]; exists {
			return fmt.Errorf("data must not have %s", field)
		}
	}
	namespace := cmp.Or(r.Namespace, b.registry.Namespace)
	b.add(Object{
		Origin: v1alpha1.OriginConfig, Owner: b.operand.ID.String(),
		ConfigKey: strings.Join([]string{r.APIVersion, r.Kind, namespace, r.Name}, "@"),
		Kind:      schema.FromAPIVersionAndKind(r.APIVersion, r.Kind),
		Key:       types.NamespacedName{Namespace: namespace, Name: r.Name},
		Config:    data, CreateOnly: r.Force != nil && !*r.Force,
	}, r.Labels, r.Annotations)
	return nil
}

// addRequested adds a resource that the OperandRequest specifies itself.
func (b *builder) addRequested(e entry) error {
	kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
	if e.APIVersion == "" {
		return fmt.Errorf("operand %q: kind %s needs apiVersion", e.Name, e.Kind)
	}
	fields := map[string]any{}
	if e.Spec != nil {
		spec, err := object(e.Spec.Raw)
		if err != nil {
			return fmt.Errorf("operand %q: spec: %w", e.Name, err)
		}
		fields["spec"] = spec
	}
	b.add(Object{
		Origin: v1alpha1.OriginRequest, Kind: kind,
		Owner:  b.operand.ID.String() + "/" + b.request.Namespace + "/" + b.request.Name,
		Key:    types.NamespacedName{Namespace: b.request.Namespace, Name: cmp.Or(e.InstanceName, generatedName(b.request.Name, e))},
		Config: fields,
	}, nil, nil)
	if b.collection != nil && kind.Group == groupOf(b.collection) {
		b.places = append(b.places, b.request.Namespace)
	}
	return nil
}

// add adds a resource, with labels and annotations, and those by which it is recognized.
func (b *builder) add(o Object, labels, annotations map[string]string) {
	o.Config["metadata"] = map[string]any{
		"labels":      with(labels, v1alpha1.LabelControl, "true"),
		"annotations": with(annotations, v1alpha1.AnnotationOperand, o.Owner),
	}
	b.operand.Objects = append(b.operand.Objects, o)
}

func with(values map[string]string, key, value string) map[string]any {
	all := map[string]any{}
	for k, v := range values {
		all[k] = v
	}
	all[key] = value
	return all
}

// generatedName is the name of a resource that has none: that of the OperandRequest, and 14 digits of a hash.
func generatedName(request string, e entry) string {
	sum := sha256.Sum256([]byte(e.APIVersion + e.Kind + strconv.Itoa(e.number)))
	const digits = 14
	request = request[:min(len(request), validation.DNS1123SubdomainMaxLength-digits-1)]
	return request + "-" + hex.EncodeToString(sum[:])[:digits]
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
			ZosEndpoints: b.operator.Collection.ZosEndpoints,
		})
	}
}

// checkNames refuses two resources that are the same object.
func (b *builder) checkNames() error {
	seen := map[string]bool{}
	for _, o := range b.operand.Objects {
		name := fmt.Sprintf("%s %q", o.Kind.GroupKind(), o.Key)
		if seen[name] {
			return fmt.Errorf("operand %q specifies %s twice", b.operand.ID.Name, name)
		}
		seen[name] = true
	}
	return nil
}

func groupOf(collection *v2beta2.OperatorCollection) string {
	return schema.FromAPIVersionAndKind(collection.Status.Collection.APIVersion, "").Group
}

// object decodes a JSON object. Integers remain integers. Null, which may have been decoded to nothing, is an empty object.
func object(raw []byte) (map[string]any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case map[string]any:
		return value, nil
	case nil:
		return map[string]any{}, nil
	}
	return nil, fmt.Errorf("must be an object, such as {}, but is %s", describe(value))
}

// describe names the type of a decoded JSON value.
func describe(value any) string {
	switch value.(type) {
	case []any:
		return "a list"
	case string:
		return "a text"
	case bool:
		return "true or false"
	}
	return "a number"
}
