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

// add adds a resource, with labels and annotations, and those by which it is recognized.
func (b *builder) add(o Object, labels, annotations map[string]string) {
	o.mark(labels, annotations)
	b.operand.Objects = append(b.operand.Objects, o)
}

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

// generatedName is the name of a resource that has none: that of the OperandRequest, and 14 digits of a hash. There can be one for each
// kind: a number would give a resource another name when an item before it is removed. So would the version of the API, which is that of
// the collection.
func generatedName(request string, kind schema.GroupKind) string {
	sum := sha256.Sum256([]byte(kind.String()))
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

// name identifies an object, whatever the version of its API.
func (o *Object) name() string { return fmt.Sprintf("%s %q", o.Kind.GroupKind(), o.Key) }

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
