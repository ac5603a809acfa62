package adopt

import (
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/crd"
)

// Backup is what the way back needs. It has no Secrets. Of the spec of custom resources, which adoption does not change and which may have
// passwords, it has only the fields of the product's own kinds in which there is something that Collection Operator does not know, and
// which gets lost. Removed objects and CRDs are whole, with what is in their environment variables and annotations.
type Backup struct {
	// Cluster is the UID of the namespace kube-system.
	Cluster types.UID `json:"cluster"`
	Taken   time.Time `json:"taken"`
	// Definitions are the CRDs that are changed, whole.
	Definitions []*apiextensionsv1.CustomResourceDefinition `json:"definitions"`
	// Kept are the custom resources: metadata without managed fields, and status.
	Kept []*unstructured.Unstructured `json:"kept"`
	// Specs say of custom resources of the product's own kinds, by their title and UID, what their spec has.
	Specs map[string]Spec `json:"specs"`
	// Removed are the objects that are removed, in that order.
	Removed []*unstructured.Unstructured `json:"removed"`
	// Installed are objects of Collection Operator that the way back removes, with kind, namespace, name and UID alone.
	Installed []*unstructured.Unstructured `json:"installed,omitempty"`
	// Finalizers are those that the user has named as the product's.
	Finalizers []string `json:"finalizers,omitempty"`
	// Restored is set when the way back has restored CRDs and custom resources, so that a repetition does not write over what the product
	// did since then. Returned is set when all of it is done.
	Restored bool `json:"restored,omitempty"`
	Returned bool `json:"returned,omitempty"`
	// Finished is set when there is no way back any more.
	Finished bool `json:"finished,omitempty"`
}

// Spec is what is known of a spec before adoption.
type Spec struct {
	// Fields are the names of its fields, and Unknown those with something that Collection Operator does not know, with their values.
	Fields  []string       `json:"fields"`
	Unknown map[string]any `json:"unknown,omitempty"`
}

// lastApplied has the whole object, with what may be secret in it.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// NewBackup returns the backup of a cluster before a plan.
func NewBackup(s State, p Plan, cluster types.UID, now time.Time) *Backup {
	b := &Backup{Cluster: cluster, Taken: now.UTC().Truncate(time.Second), Specs: map[string]Spec{}}
	for _, d := range p.Definitions {
		b.Definitions = append(b.Definitions, withoutFields(d.Live))
	}
	for _, claim := range p.Claims {
		b.Definitions = append(b.Definitions, withoutFields(claim.Live))
	}
	for _, o := range p.Kept {
		b.Kept = append(b.Kept, withoutSpec(o))
		if schema := schemaOf(s, o); schema != nil {
			b.Specs[specKey(o)] = specOf(o, schema)
		}
	}
	for _, o := range p.Remove {
		removed := o.DeepCopy()
		removed.SetManagedFields(nil)
		b.Removed = append(b.Removed, removed)
	}
	return b
}

func withoutFields(d *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	d = d.DeepCopy()
	d.ManagedFields = nil
	return d
}

func withoutSpec(o *unstructured.Unstructured) *unstructured.Unstructured {
	saved := &unstructured.Unstructured{Object: map[string]any{"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "metadata": o.DeepCopy().Object["metadata"]}}
	saved.SetManagedFields(nil)
	annotations := saved.GetAnnotations()
	delete(annotations, lastApplied)
	saved.SetAnnotations(annotations)
	if status, ok := o.DeepCopy().Object["status"]; ok {
		saved.Object["status"] = status
	}
	return saved
}

// schemaOf returns the schema of an object of the product's own kinds as Collection Operator has it, or nil for other objects.
func schemaOf(s State, o *unstructured.Unstructured) *crd.Schema {
	at := slices.IndexFunc(s.Own, func(d *apiextensionsv1.CustomResourceDefinition) bool { return d.Spec.Names.Kind == o.GetKind() })
	if at < 0 || o.GroupVersionKind().Group != Group {
		return nil
	}
	schema, err := crd.NewSchema(s.Own[at], StorageVersion(s.Own[at]))
	if err != nil {
		return nil // New says why.
	}
	return schema
}

// Add adds a later backup, after an adoption that was interrupted: what it has of objects that this one does not have, and what the product
// has written since then to custom resources of collections, of which adoption changes the finalizers alone.
func (b *Backup) Add(other *Backup) {
	for _, d := range other.Definitions {
		if !slices.ContainsFunc(b.Definitions, func(saved *apiextensionsv1.CustomResourceDefinition) bool {
			return saved.Name == d.Name && saved.UID == d.UID
		}) {
			b.Definitions = append(b.Definitions, d)
		}
	}
	for of, spec := range other.Specs {
		if _, known := b.Specs[of]; !known {
			b.Specs[of] = spec
		}
	}
	for i, saved := range b.Kept {
		at := slices.IndexFunc(other.Kept, func(o *unstructured.Unstructured) bool { return isSame(o, saved) })
		if at >= 0 && saved.GroupVersionKind().Group != Group {
			b.Kept[i] = other.Kept[at].DeepCopy()
			b.Kept[i].SetFinalizers(saved.GetFinalizers())
		}
	}
	b.Kept = addMissing(b.Kept, other.Kept)
	b.Removed = addMissing(b.Removed, other.Removed)
}

func addMissing(objects, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range others {
		if !slices.ContainsFunc(objects, func(saved *unstructured.Unstructured) bool { return isSame(saved, o) }) {
			objects = append(objects, o)
		}
	}
	return objects
}

func isSame(a, b *unstructured.Unstructured) bool {
	return title(a) == title(b) && a.GetUID() == b.GetUID()
}

func specKey(o *unstructured.Unstructured) string { return title(o) + " " + string(o.GetUID()) }

func specOf(o *unstructured.Unstructured, schema *crd.Schema) Spec {
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	spec := Spec{Fields: slices.Sorted(maps.Keys(fields)), Unknown: map[string]any{}}
	_, unknown := pruned(fields, schema)
	for name, value := range fields {
		at := "spec." + name
		if slices.ContainsFunc(unknown, func(path string) bool {
			return path == at || strings.HasPrefix(path, at+".") || strings.HasPrefix(path, at+"[")
		}) {
			spec.Unknown[name] = value
		}
	}
	return spec
}

// pruned returns a spec as the API server stores it with a schema, and the paths that it drops.
func pruned(spec map[string]any, schema *crd.Schema) (map[string]any, []string) {
	content := map[string]any{"spec": map[string]any{}}
	if spec != nil {
		content["spec"] = runtime.DeepCopyJSON(spec)
	}
	unknown := pruning.PruneWithOptions(content, schema.Structural, true, structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	schema.Default(content)
	stored, _ := content["spec"].(map[string]any)
	return stored, unknown
}
