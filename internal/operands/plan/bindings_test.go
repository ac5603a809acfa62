package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/operands/v1alpha1"
)

func bindInfo(t *testing.T, namespace, spec string) *v1alpha1.OperandBindInfo {
	t.Helper()
	return &v1alpha1.OperandBindInfo{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "info"}, Spec: parse[v1alpha1.OperandBindInfoSpec](t, spec),
	}
}

func TestBindings(t *testing.T) {
	const all = `{operand: zos, registry: tools, bindings: {public: {secret: s, configmap: c}, public-more: {secret: more}, protected: {secret: p}, private: {configmap: own}, other: {secret: never}}}`
	for name, test := range map[string]struct {
		namespace, operands, info string
		want                      []string
	}{
		"names that are made": {"team", "{name: zos}", all, []string{"Secret s -> info-s", "ConfigMap c -> info-c", "Secret more -> info-more"}},
		"names of the request": {"team", "{name: zos, bindings: {public: {secret: mine}, protected: {secret: asked}, private: {configmap: x}}}", all,
			[]string{"Secret p -> asked", "Secret s -> mine", "ConfigMap c -> info-c", "Secret more -> info-more"}},
		"inside, where the source is not copied over itself": {"tools", "{name: zos, bindings: {public: {secret: s, configmap: d}}}", all,
			[]string{"ConfigMap own -> info-own", "ConfigMap c -> d", "Secret more -> info-more"}},
		"another operand": {"team", "{name: zos}", `{operand: secret, registry: tools, bindings: {public: {secret: s}}}`, nil},
		"a registry in another namespace": {"team", "{name: zos}",
			`{operand: zos, registry: tools, registryNamespace: elsewhere, bindings: {public: {secret: s}}}`, nil},
		"a private operand": {"team", "{name: secret, bindings: {public: {secret: mine}}}", `{operand: secret, registry: tools, bindings: {public: {secret: s}}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			source := newSource(t, tools, "")
			source.BindInfos = []*v1alpha1.OperandBindInfo{bindInfo(t, "tools", test.info), bindInfo(t, "stranger", `{operand: zos, registry: tools, registryNamespace: tools, bindings: {public: {secret: theirs}}}`)}
			var got []string
			for _, o := range Of(request(t, test.namespace, "{requests: [{registry: tools, registryNamespace: tools, operands: ["+test.operands+"]}]}"), source) {
				for _, object := range o.Objects {
					if object.Key.Namespace != test.namespace || object.Source.Namespace != "tools" {
						t.Errorf("from %s to %s", object.Source, object.Key)
					}
					got = append(got, object.Kind.Kind+" "+object.Source.Name+" -> "+object.Key.Name)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Who may not request an operand any more loses its copies, and nothing else.
func TestCopiesAreRevoked(t *testing.T) {
	source := newSource(t, tools, "")
	source.BindInfos = []*v1alpha1.OperandBindInfo{bindInfo(t, "tools", `{operand: zos, registry: tools, bindings: {public: {secret: s}}}`)}
	asked := request(t, "team", "{requests: [{registry: tools, registryNamespace: tools, operands: [{name: zos}, {name: zos, kind: Region, apiVersion: suboperator.zoscb.ibm.com/v1, instanceName: a}]}]}")
	var inventory []v1alpha1.InventoryEntry
	planned := Of(asked, source)
	for _, object := range planned[0].Objects {
		inventory = append(inventory, object.Entry(planned[0].ID))
	}
	for name, test := range map[string]struct {
		change func()
		want   int
	}{
		"nothing":     {func() {}, 0},
		"no registry": {func() { source.Registries = nil }, 1},
		"a collection that is being imported": {func() {
			source.Collections = newSource(t, tools, "").Collections
			source.Collections[types.NamespacedName{Namespace: "tools", Name: "zos"}].Status.Collection = nil
		}, 0},
		"a collection that is gone": {func() { source.Collections = nil }, 0},
		"a mistake in the config": {func() {
			source.Configs = newSource(t, tools, "{services: [{name: zos, spec: {misspelt: {}}}]}").Configs
		}, 0},
		"a collection without the kind": {func() {
			source.Collections = newSource(t, tools, "").Collections
			source.Collections[types.NamespacedName{Namespace: "tools", Name: "zos"}].Status.Collection.Kinds = []string{"DataFile"}
		}, 0},
		"not in the registry any more": {func() { source.Registries = newSource(t, "{}", "").Registries }, 1},
		"private": {func() {
			source.Registries = newSource(t, "{operators: [{name: zos, collection: {name: zos}}]}", "").Registries
		}, 1},
		"without binding": {func() { source.BindInfos[0].Spec.Bindings = nil }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before, collections, configs, info := source.Registries, source.Collections, source.Configs, source.BindInfos[0].DeepCopy()
			test.change()
			unwanted := Unwanted(inventory, Of(asked, source))
			source.Registries, source.Collections, source.Configs, source.BindInfos[0] = before, collections, configs, info
			if len(unwanted) != test.want || len(unwanted) > 0 && unwanted[0].Origin != v1alpha1.OriginBinding {
				t.Errorf("got %+v", unwanted)
			}
		})
	}
}

// An operand that cannot be created gives its copies nevertheless, unless their names are taken.
func TestCopiesOfAProblem(t *testing.T) {
	source := newSource(t, tools, "")
	source.BindInfos = []*v1alpha1.OperandBindInfo{
		bindInfo(t, "tools", "{operand: zos, registry: tools, bindings: {public: {secret: s}, public-again: {secret: t}}}"),
		bindInfo(t, "tools", "{operand: secret, registry: tools, bindings: {public: {secret: s}, public-more: {secret: u}}}"),
	}
	asked := request(t, "tools", "{requests: [{registry: tools, operands: [{name: zos, bindings: {public: {secret: x}, public-again: {secret: x}}}, {name: zos, kind: Misspelt}, "+
		"{name: secret, bindings: {public: {secret: x}, public-more: {secret: z}}}]}]}")
	var got []string
	for _, o := range Of(asked, source) {
		if o.Problem == nil || o.Problem.Reason != v1alpha1.ReasonInvalidOperand || o.Package != nil || o.Installs != nil {
			t.Errorf("got %+v", o)
		}
		for _, object := range o.Objects {
			got = append(got, o.ID.Name+" "+object.Source.Name+" -> "+object.Key.Name)
		}
	}
	if diff := cmp.Diff([]string{"zos s -> x", "secret u -> z"}, got); diff != "" {
		t.Error(diff)
	}
}
