package adopt

import (
	"fmt"
	"maps"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/crd"
)

// Backup is what the way back needs. It has neither Secrets nor the spec of custom resources, which adoption does not change and which may
// have passwords, but for fields that Collection Operator does not know, and which get lost.
type Backup struct {
	// Cluster is the UID of the namespace kube-system.
	Cluster types.UID `json:"cluster"`
	Taken   time.Time `json:"taken"`
	// Definitions are the CRDs that are changed, whole.
	Definitions []*apiextensionsv1.CustomResourceDefinition `json:"definitions"`
	// Kept are the custom resources: metadata without managed fields, and status.
	Kept []*unstructured.Unstructured `json:"kept"`
	// Specs say of custom resources of the product's own kinds, by their title, what their spec has.
	Specs map[string]Spec `json:"specs"`
	// Removed are the objects that are removed, in that order.
	Removed []*unstructured.Unstructured `json:"removed"`
	// Finalizers are those that the user has named as the product's.
	Finalizers []string `json:"finalizers,omitempty"`
	// Finished is set when there is no way back any more.
	Finished bool `json:"finished,omitempty"`
}

// Spec is what is known of a spec before adoption.
type Spec struct {
	// Fields are the names of its fields, and Unknown those that Collection Operator does not know, with their values.
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
		if schema := s.schemaOf(o); schema != nil {
			b.Specs[title(o)] = specOf(o, schema)
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

// Restored returns a custom resource as it was before adoption, with the spec that it has now but for defaults of Collection Operator, or
// why it cannot be so. It is nil if the resource is as it was.
func (s State) Restored(b *Backup, saved, live *unstructured.Unstructured) (*unstructured.Unstructured, string) {
	switch {
	case live == nil:
		return nil, title(saved) + " was deleted since then"
	case live.GetUID() != saved.GetUID():
		return nil, title(saved) + " was deleted and made again since then: it stays as it is"
	}
	want := live.DeepCopy()
	annotations := saved.GetAnnotations()
	if value, ok := live.GetAnnotations()[lastApplied]; ok {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[lastApplied] = value
	}
	want.SetAnnotations(annotations)
	want.SetLabels(saved.GetLabels())
	want.SetOwnerReferences(saved.GetOwnerReferences())
	if live.GetDeletionTimestamp() == nil {
		want.SetFinalizers(saved.GetFinalizers())
	}
	s.restoreSpec(want, b.Specs[title(saved)])
	delete(want.Object, "status")
	if status, ok := saved.Object["status"]; ok {
		want.Object["status"] = status
	}
	if equality.Semantic.DeepEqual(want.Object, live.Object) {
		return nil, ""
	}
	return want, ""
}

// schemaOf returns the schema of an object of the product's own kinds as Collection Operator has it, or nil for other objects.
func (s State) schemaOf(o *unstructured.Unstructured) *crd.Schema {
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

func specOf(o *unstructured.Unstructured, schema *crd.Schema) Spec {
	fields, _, _ := unstructured.NestedMap(o.Object, "spec")
	spec := Spec{Fields: slices.Sorted(maps.Keys(fields)), Unknown: map[string]any{}}
	known := schema.Structural.Properties["spec"]
	for name, value := range fields {
		if _, ok := known.Properties[name]; !ok && !known.XPreserveUnknownFields {
			spec.Unknown[name] = value
		}
	}
	return spec
}

// restoreSpec removes the fields of a spec that were not there before and have the default of Collection Operator's CRD, which the API
// server has stored, and adds those that it has dropped.
func (s State) restoreSpec(o *unstructured.Unstructured, before Spec) {
	schema := s.schemaOf(o)
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if schema == nil || err != nil || spec == nil {
		return
	}
	defaults := map[string]any{"spec": map[string]any{}}
	schema.Default(defaults)
	defaulted, _, _ := unstructured.NestedMap(defaults, "spec")
	maps.DeleteFunc(spec, func(name string, value any) bool {
		other, ok := defaulted[name]
		return ok && !slices.Contains(before.Fields, name) && equality.Semantic.DeepEqual(value, other)
	})
	for name, value := range before.Unknown {
		if _, ok := spec[name]; !ok {
			spec[name] = value
		}
	}
	o.Object["spec"] = spec
}

// RestoredDefinition returns a CRD as it was before adoption, or why it cannot be so. It is nil if it is as it was.
func RestoredDefinition(saved, live *apiextensionsv1.CustomResourceDefinition) (*apiextensionsv1.CustomResourceDefinition, string) {
	switch {
	case live == nil:
		return nil, "CRD " + saved.Name + " was deleted since then, with its objects"
	case live.UID != saved.UID:
		return nil, "CRD " + saved.Name + " was deleted and made again since then: it stays as it is"
	}
	for _, stored := range live.Status.StoredVersions {
		if !slices.ContainsFunc(saved.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored }) {
			return nil, fmt.Sprintf("CRD %s has objects of version %s, which was imported since then and which the product does not have: it stays as it is", saved.Name, stored)
		}
	}
	want := live.DeepCopy()
	want.Labels, want.Annotations, want.Spec = saved.Labels, saved.Annotations, saved.Spec
	if equality.Semantic.DeepEqual(want, live) {
		return nil, ""
	}
	return want, ""
}

// Recreated returns an object that adoption removed, as it is made again.
func Recreated(saved *unstructured.Unstructured) *unstructured.Unstructured {
	object := saved.DeepCopy()
	delete(object.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	return object
}

// OwnManagers has a problem for each manager of Collection Operator that runs.
func (s State) OwnManagers() []string {
	var problems []string
	for _, w := range s.Workloads {
		if isOwnManager(w) && replicas(w) != 0 {
			problems = append(problems, fmt.Sprintf("%s runs: stop it, and run this again: %s", title(w), s.stop(w)))
		}
	}
	return problems
}

// Installed returns what Collection Operator has installed for the SubOperatorConfigs of a cluster, with kind, namespace and name alone.
func (s State) Installed() []*unstructured.Unstructured {
	var installed []*unstructured.Unstructured
	for _, config := range s.Objects[configs] {
		items, _, _ := unstructured.NestedSlice(config.Object, "status", "inventory")
		for _, item := range items {
			fields, _ := item.(map[string]any)
			o := &unstructured.Unstructured{Object: map[string]any{}}
			for _, field := range []string{"apiVersion", "kind"} {
				o.Object[field] = fields[field]
			}
			name, _ := fields["name"].(string)
			namespace, _ := fields["namespace"].(string)
			o.SetName(name)
			o.SetNamespace(namespace)
			installed = append(installed, o)
		}
	}
	return installed
}

// Made returns the custom resources of the product's own kinds that were made after a backup.
func (s State) Made(b *Backup) []string {
	var made []string
	for _, name := range []string{collections, configs} {
		for _, o := range s.Objects[name] {
			if !slices.ContainsFunc(b.Kept, func(saved *unstructured.Unstructured) bool { return saved.GetUID() == o.GetUID() }) {
				made = append(made, title(o))
			}
		}
	}
	return made
}

// Add adds what another backup has of objects that this one does not have, after an adoption that was interrupted.
func (b *Backup) Add(other *Backup) {
	for _, d := range other.Definitions {
		if find(b.Definitions, d.Name) == nil {
			b.Definitions = append(b.Definitions, d)
		}
	}
	for of, spec := range other.Specs {
		if _, known := b.Specs[of]; !known {
			b.Specs[of] = spec
		}
	}
	b.Kept = addMissing(b.Kept, other.Kept)
	b.Removed = addMissing(b.Removed, other.Removed)
}

func addMissing(objects, others []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range others {
		if !slices.ContainsFunc(objects, func(saved *unstructured.Unstructured) bool { return title(saved) == title(o) }) {
			objects = append(objects, o)
		}
	}
	return objects
}

// Finished returns a custom resource without the product's finalizers, or nil if it has none.
func (s State) Finished(o *unstructured.Unstructured) *unstructured.Unstructured {
	if len(s.foreign(o)) == 0 {
		return nil
	}
	want := o.DeepCopy()
	want.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), s.IsForeign))
	return want
}

// NotTakenOver has a problem for each OperatorCollection that is not ready under Collection Operator: there may be a need to
// go back.
func (s State) NotTakenOver() []string {
	var problems []string
	for _, oc := range s.Objects[collections] {
		status, _, _ := unstructured.NestedMap(oc.Object, "status")
		if ready := condition(status, "Ready"); !isTrue(ready) {
			problems = append(problems, fmt.Sprintf("%s is not Ready: %v", title(oc), ready["message"]))
		}
	}
	return problems
}
