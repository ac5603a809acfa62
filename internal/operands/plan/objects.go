package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// builder determines the resources of an operand, and where its operator is needed.
type builder struct {
	request  *v1alpha1.OperandRequest
	registry *v1alpha1.OperandRegistry
	operator *v1alpha1.Operator
	// collection is nil if there is a package, and for no-op.
	collection *v2beta2.OperatorCollection
	// installed is nil unless there is a package which is installed.
	installed *Installed
	// pkg is the package as in an inventory. It is empty if there is none.
	pkg string
	// recorded is that of [Source].
	recorded []v1alpha1.InventoryEntry
	operand  *Operand
	places   []string
}

// add adds a resource, with labels and annotations, and those by which it is recognized.
func (b *builder) add(o Object, labels, annotations map[string]string) {
	o.mark(labels, annotations)
	b.operand.Objects = append(b.operand.Objects, o)
}

// addConfigured adds what the OperandConfig specifies, or the problem of that. It does not concern what the OperandRequest specifies itself.
func (b *builder) addConfigured(service *v1alpha1.ConfigService, home string) {
	if err := b.addService(service, home); err != nil {
		b.operand.refuseConfig(err)
	}
}

// refuseConfig lets nothing be done about what the OperandConfig specifies.
func (o *Operand) refuseConfig(err error) {
	o.ConfigProblem = problemOf(fmt.Errorf("OperandConfig %q: %w", o.ID.Registry, err))
	o.Objects = o.withoutConfigured()
}

func (o *Operand) withoutConfigured() []Object {
	return slices.DeleteFunc(slices.Clone(o.Objects), func(object Object) bool { return object.Origin == v1alpha1.OriginConfig })
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
	if b.installed != nil {
		return b.addExamples(service)
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
			Origin: v1alpha1.OriginConfig, Owner: b.operand.ID.String(), ConfigKey: name, Consent: AnnotationConsent,
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
	if err := checkResource(r, data); err != nil {
		return err
	}
	if r.APIVersion == "v1" && r.Kind == secretKind.Kind {
		if err := encodeStrings(data); err != nil {
			return err
		}
	}
	namespace := cmp.Or(r.Namespace, b.registry.Namespace)
	b.add(Object{
		Origin: v1alpha1.OriginConfig, Owner: b.operand.ID.String(),
		Consent:   v1alpha1.AnnotationAllowConfigs,
		ConfigKey: strings.Join([]string{r.APIVersion, r.Kind, namespace, r.Name}, "@"),
		Kind:      schema.FromAPIVersionAndKind(r.APIVersion, r.Kind),
		Key:       types.NamespacedName{Namespace: namespace, Name: r.Name},
		Config:    data, CreateOnly: r.Force != nil && !*r.Force,
	}, r.Labels, r.Annotations)
	return nil
}

// checkResource refuses what the author of an OperandConfig could not do without the permissions of the component.
func checkResource(r *v1alpha1.ConfigResource, data map[string]any) error {
	for name := range r.Annotations {
		prefix, _, _ := strings.Cut(name, "/")
		if prefix == v2beta2.GroupVersion.Group || strings.HasSuffix(prefix, ".operatorframework.io") {
			return fmt.Errorf("annotation %s cannot be set for others", name)
		}
	}
	if r.Kind == secretKind.Kind && data["type"] == string(corev1.SecretTypeServiceAccountToken) {
		return errors.New("a Secret with a token of a ServiceAccount cannot be created")
	}
	return nil
}

// encodeStrings moves stringData of a Secret to data, as the API server does. It does not return stringData, so that each comparison would
// find a difference, and what was removed from it would remain.
func encodeStrings(secret map[string]any) error {
	texts, isMap := secret["stringData"].(map[string]any)
	if secret["stringData"] != nil && !isMap {
		return errors.New("data.stringData must be an object")
	}
	data, isMap := secret["data"].(map[string]any)
	if secret["data"] != nil && !isMap {
		return errors.New("data.data must be an object")
	}
	delete(secret, "stringData")
	if len(texts) == 0 {
		return nil
	}
	all := maps.Clone(data)
	if all == nil {
		all = map[string]any{}
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		text, isText := texts[name].(string)
		if !isText {
			return fmt.Errorf("data.stringData.%s must be a text", name)
		}
		all[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	secret["data"] = all
	return nil
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

// addRequested adds a resource that the OperandRequest specifies itself.
func (b *builder) addRequested(e *v1alpha1.Operand) error {
	kind := schema.FromAPIVersionAndKind(e.APIVersion, e.Kind)
	if e.APIVersion == "" {
		return fmt.Errorf("operand %q: kind %s needs apiVersion", e.Name, e.Kind)
	}
	if b.operand.KindsUnknown && !b.operand.NoOp {
		return nil // Until the operator is installed.
	}
	if err := b.checkKind(kind); err != nil {
		return err
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
		Key:    types.NamespacedName{Namespace: b.request.Namespace, Name: cmp.Or(e.InstanceName, generatedName(b.request.Name, kind.GroupKind()))},
		Config: fields, Package: b.pkg,
	}, nil, nil)
	if b.collection != nil {
		b.places = append(b.places, b.request.Namespace)
	}
	return nil
}

// generatedName is the name of a resource that has none: that of the OperandRequest, and 14 digits of a hash. There can be one for each
// kind: a number would give a resource another name when an item before it is removed. So would the version of the API, which is that of
// the collection.
func generatedName(request string, kind schema.GroupKind) string {
	sum := sha256.Sum256([]byte(kind.String()))
	const digits = 14
	request = request[:min(len(request), validation.DNS1123SubdomainMaxLength-digits-1)]
	return request + "-" + hex.EncodeToString(sum[:])[:digits]
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
		if hasTemplate(value) {
			return nil, fmt.Errorf("%s is not supported: write the value, or copy a Secret or ConfigMap with an OperandBindInfo", templateKey)
		}
		return value, nil
	case nil:
		return map[string]any{}, nil
	}
	return nil, fmt.Errorf("must be an object, such as {}, but is %s", describe(value))
}

// templateKey is where the Operand Deployment Lifecycle Manager takes a value from elsewhere.
const templateKey = "templatingValueFrom"

func hasTemplate(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key == templateKey || hasTemplate(inner) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasTemplate)
	}
	return false
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
