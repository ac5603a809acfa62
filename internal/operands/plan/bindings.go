package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

// RegistryOf returns the OperandRegistry whose requesters an OperandBindInfo gives something. It must be in the same namespace, since the
// Secrets and ConfigMaps are: whoever owns it consents.
func RegistryOf(info *v1alpha1.OperandBindInfo) (registry types.NamespacedName, valid bool) {
	registry = types.NamespacedName{Namespace: cmp.Or(info.Spec.RegistryNamespace, info.Namespace), Name: info.Spec.Registry}
	return registry, registry.Namespace == info.Namespace
}

// Gives reports whether an OperandBindInfo names a Secret or a ConfigMap.
func Gives(info *v1alpha1.OperandBindInfo, name string) bool {
	for _, binding := range info.Spec.Bindings {
		if binding.Secret == name || binding.ConfigMap == name {
			return true
		}
	}
	return false
}

// addBindings adds the copies of Secrets and ConfigMaps that OperandBindInfos give to the request.
func (b *builder) addBindings(entries []entry, infos []*v1alpha1.OperandBindInfo) {
	for _, info := range infos {
		registry, valid := RegistryOf(info)
		if !valid || registry != b.operand.ID.Registry || info.Spec.Operand != b.operator.Name || info.DeletionTimestamp != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(info.Spec.Bindings)) {
			names := namesOf(entries, key)
			b.addCopy(info, key, "Secret", info.Spec.Bindings[key].Secret, names.Secret)
			b.addCopy(info, key, "ConfigMap", info.Spec.Bindings[key].ConfigMap, names.ConfigMap)
		}
	}
}

// namesOf returns the names that a request gives to the copies of a binding.
func namesOf(entries []entry, key string) v1alpha1.Binding {
	var names v1alpha1.Binding
	for _, e := range entries {
		names.Secret = cmp.Or(names.Secret, e.Bindings[key].Secret)
		names.ConfigMap = cmp.Or(names.ConfigMap, e.Bindings[key].ConfigMap)
	}
	return names
}

// addCopy adds the copy of a Secret or ConfigMap, unless the request does not get it.
func (b *builder) addCopy(info *v1alpha1.OperandBindInfo, key, kind, source, name string) {
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
	b.add(Object{
		Origin: v1alpha1.OriginBinding, Owner: b.operand.ID.String(),
		Kind:   corev1.SchemeGroupVersion.WithKind(kind),
		Key:    types.NamespacedName{Namespace: b.request.Namespace, Name: name},
		Source: types.NamespacedName{Namespace: b.registry.Namespace, Name: source},
		Config: map[string]any{},
	}, map[string]string{v1alpha1.LabelCopy: "copy"}, nil)
}
