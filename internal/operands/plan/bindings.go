package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// RegistryOf returns the OperandRegistry whose requesters an OperandBindInfo gives something. It must be in the same namespace, since the
// Secrets and ConfigMaps are: whoever owns it consents.
func RegistryOf(info *v1alpha1.OperandBindInfo) (registry types.NamespacedName, valid bool) {
	registry = types.NamespacedName{Namespace: cmp.Or(info.Spec.RegistryNamespace, info.Namespace), Name: info.Spec.Registry}
	return registry, registry.Namespace == info.Namespace
}

// Gives reports whether an OperandBindInfo names a source.
func Gives(info *v1alpha1.OperandBindInfo, name string) bool {
	for _, binding := range info.Spec.Bindings {
		if binding.Secret == name || binding.ConfigMap == name || binding.Route != nil && binding.Route.Name == name || binding.Service != nil && binding.Service.Name == name {
			return true
		}
	}
	return false
}

// addBindings adds the copies of Secrets and ConfigMaps that OperandBindInfos give to the request.
func (b *builder) addBindings(entries []*v1alpha1.Operand, infos []*v1alpha1.OperandBindInfo) {
	for _, info := range infos {
		registry, valid := RegistryOf(info)
		if !valid || registry != b.operand.ID.Registry || info.Spec.Operand != b.operator.Name || info.DeletionTimestamp != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(info.Spec.Bindings)) {
			names := namesOf(entries, key)
			binding := info.Spec.Bindings[key]
			b.addCopy(info, key, secretKind, binding.Secret, names.Secret)
			b.addCopy(info, key, configMapKind, binding.ConfigMap, names.ConfigMap)
			b.addData(info, key, routeKind, binding.Route)
			b.addData(info, key, serviceKind, binding.Service)
		}
	}
}

// namesOf returns the names that a request gives to the copies of a binding.
func namesOf(entries []*v1alpha1.Operand, key string) v1alpha1.Binding {
	var names v1alpha1.Binding
	for _, e := range entries {
		names.Secret = cmp.Or(names.Secret, e.Bindings[key].Secret)
		names.ConfigMap = cmp.Or(names.ConfigMap, e.Bindings[key].ConfigMap)
	}
	return names
}

// addCopy adds the copy of a Secret or ConfigMap, unless the request does not get it.
func (b *builder) addCopy(info *v1alpha1.OperandBindInfo, key string, kind schema.GroupVersionKind, source, name string) {
	inside := b.request.Namespace == b.registry.Namespace
	switch {
	case source == "":
		return
	case strings.HasPrefix(key, "public"), strings.HasPrefix(key, "private") && inside:
		name = cmp.Or(name, info.Name+"-"+source)
	case strings.HasPrefix(key, "protected"):
	default:
		return
	}
	if name == "" || inside && name == source {
		return
	}
	b.addBound(kind, name, kind, source, nil)
}

// addData adds a ConfigMap with fields of a Route or Service. Only public bindings have one, in each requester's namespace.
func (b *builder) addData(info *v1alpha1.OperandBindInfo, key string, kind schema.GroupVersionKind, of *v1alpha1.BoundData) {
	if of == nil || of.Name == "" || !strings.HasPrefix(key, "public") {
		return
	}
	paths := of.Data
	if paths == nil {
		paths = map[string]string{}
	}
	b.addBound(configMapKind, info.Name+"-"+of.Name, kind, of.Name, paths)
}

func (b *builder) addBound(kind schema.GroupVersionKind, name string, sourceKind schema.GroupVersionKind, source string, paths map[string]string) {
	b.add(Object{
		Origin: v1alpha1.OriginBinding, Kind: kind,
		// Requests of a namespace share the copy of one source.
		Owner:      strings.Join([]string{b.operand.ID.String(), "copy", sourceKind.Kind, source}, "/"),
		Key:        types.NamespacedName{Namespace: b.request.Namespace, Name: name},
		Source:     types.NamespacedName{Namespace: b.registry.Namespace, Name: source},
		SourceKind: sourceKind, Paths: paths,
		Config: map[string]any{},
	}, map[string]string{v1alpha1.LabelCopy: "copy"}, nil)
}

// Data returns the content of the ConfigMap that has fields of a Route or Service. A path begins with a dot, and has
// names and indexes, such as .spec.ports[0].port. Several parts are joined by +. Those that are no paths are text.
func (o *Object) Data(source map[string]any) (map[string]any, error) {
	data := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(o.Paths)) {
		var text strings.Builder
		for part := range strings.SplitSeq(o.Paths[key], "+") {
			if !strings.HasPrefix(part, ".") {
				text.WriteString(part)
				continue
			}
			value, err := fieldOf(source, part)
			if err != nil {
				return nil, fmt.Errorf("data %s: %s: %w", key, part, err)
			}
			text.WriteString(value)
		}
		data[key] = text.String()
	}
	return data, nil
}

// fieldOf returns a field that is a text, a number or a boolean, by a path such as .spec.ports[0].port.
func fieldOf(source any, path string) (string, error) {
	for name := range strings.SplitSeq(strings.NewReplacer("[", ".[", "]", "").Replace(strings.TrimPrefix(path, ".")), ".") {
		index, isIndex := strings.CutPrefix(name, "[")
		switch value := source.(type) {
		case map[string]any:
			source = value[name]
		case []any:
			at, err := strconv.Atoi(index)
			if !isIndex || err != nil || at < 0 || at >= len(value) {
				return "", fmt.Errorf("there is no item %s", name)
			}
			source = value[at]
		default:
			source = nil
		}
	}
	switch source.(type) {
	case nil, map[string]any, []any:
		return "", errors.New("there is no such text or number")
	}
	return fmt.Sprint(source), nil
}
