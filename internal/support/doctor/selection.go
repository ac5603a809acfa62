package doctor

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/support/snapshot"
)

// selection is what belongs to an OperatorCollection or to a custom resource.
type selection struct {
	collections, configs, endpoints, resources map[Ref]bool
	ids                                        map[model.ID]bool
}

// Select removes what belongs to other collections: argument is the name of an OperatorCollection in a namespace, which may be empty for
// all, or KIND/NAME of a custom resource. The error is that there is none.
func Select(s *snapshot.Snapshot, namespace, argument string) error {
	v := viewOf(s)
	isIn := func(object string) bool { return namespace == "" || object == namespace }
	selected := selection{map[Ref]bool{}, map[Ref]bool{}, map[Ref]bool{}, map[Ref]bool{}, map[model.ID]bool{}}
	kind, name, isResource := strings.Cut(argument, "/")
	for i := range v.resources {
		if r := &v.resources[i]; isResource && isIn(r.GetNamespace()) && r.GetName() == name && isKind(r, kind) {
			selected.resources[r.ref()] = true
			selected.ids[v.kinds[r.GroupVersionKind().GroupKind()]] = true
		}
	}
	for _, oc := range v.collections {
		imported := oc.Status.Collection
		if isResource && imported != nil && selected.ids[model.ID{Domain: imported.Domain, Name: imported.Name}] ||
			!isResource && isIn(oc.Namespace) && oc.Name == argument {
			selected.collections[ref(snapshot.OperatorCollection, oc.Namespace, oc.Name)] = true
			if imported != nil {
				selected.ids[model.ID{Domain: imported.Domain, Name: imported.Name}] = true
			}
		}
	}
	switch {
	case isResource && len(selected.resources) == 0:
		return fmt.Errorf("there is no custom resource %s that you may read: see `kubectl get %s`", argument, kind)
	case !isResource && len(selected.collections) == 0:
		return fmt.Errorf("no OperatorCollection is named %q: see `kubectl get operatorcollections`; for a custom resource, give KIND/NAME", argument)
	}
	selected.add(v, isResource)
	selected.apply(s)
	return nil
}

// isKind reports whether a word is the kind of a resource, or its plural, with or without its group.
func isKind(r *resource, word string) bool {
	kind, word := strings.ToLower(r.GetKind()), strings.ToLower(word)
	group := "." + r.GroupVersionKind().Group
	return slices.Contains([]string{kind, kind + "s", kind + group, kind + "s" + group}, word)
}

// add adds what belongs to the collections.
func (n *selection) add(v *view, isResource bool) {
	delete(n.ids, model.ID{})
	for _, config := range v.configs {
		self := ref(snapshot.SubOperatorConfig, config.Namespace, config.Name)
		if !n.collections[ref(snapshot.OperatorCollection, config.Namespace, config.Spec.OperatorCollection)] {
			continue
		}
		n.configs[self] = true
		for _, mapping := range config.Spec.Mapping {
			if mapping.ZosEndpoints == nil || isResource {
				continue
			}
			for _, e := range *mapping.ZosEndpoints {
				n.endpoints[ref(snapshot.ZosEndpoint, config.Namespace, e.Name)] = true
			}
		}
	}
	for i := range v.resources {
		r := &v.resources[i]
		if !isResource && n.ids[v.kinds[r.GroupVersionKind().GroupKind()]] {
			n.resources[r.ref()] = true
		}
		if n.resources[r.ref()] {
			n.endpoints[v.endpointOf(r)] = true
		}
	}
}

// apply removes what is not selected.
func (n *selection) apply(s *snapshot.Snapshot) {
	keep := func(selected map[Ref]bool) func(*unstructured.Unstructured) bool {
		return func(object *unstructured.Unstructured) bool {
			return selected[Ref{Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName()}]
		}
	}
	isOurs := func(object *unstructured.Unstructured) bool {
		id := render.IDOf(object.GetLabels())
		return id == (model.ID{}) || n.ids[id]
	}
	for _, kind := range s.Kinds() {
		switch {
		case IsCollectionGroup(kind.Group):
			s.Keep(kind, keep(n.resources))
		case kind == snapshot.OperatorCollection:
			s.Keep(kind, keep(n.collections))
		case kind == snapshot.SubOperatorConfig:
			s.Keep(kind, keep(n.configs))
		case kind == snapshot.ZosEndpoint:
			s.Keep(kind, keep(n.endpoints))
		case kind == snapshot.Subscription:
			s.Keep(kind, n.isPackage)
		case kind.Group != v2beta2.GroupVersion.Group:
			s.Keep(kind, isOurs)
		}
	}
}

// isPackage reports whether a Subscription is for one of the collections.
func (n *selection) isPackage(object *unstructured.Unstructured) bool {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "name")
	for id := range n.ids {
		if id.OperatorName() == name {
			return true
		}
	}
	return false
}
