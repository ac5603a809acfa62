package adopt

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// BackProblems has what forbids the way back: managers of either product that are active and, as long as custom resources are not
// restored, playbooks that would be cut off and deletions that nobody would finish.
func (s State) BackProblems(b *Backup) []string {
	problems := append(s.ProductManagers(), s.OwnManagers()...)
	if b.Restored {
		return problems
	}
	owners := ownersOf(s)
	for _, definition := range s.Definitions {
		for _, o := range s.Objects[definition.Name] {
			if o.GetDeletionTimestamp() != nil {
				problems = append(problems, unfinished(o)...)
			}
			for _, of := range owners[definition.Name] {
				if isRunning(s, o, Operator{Namespace: o.GetNamespace(), ID: of.id}) {
					problems = append(problems, cutOff(o, of.id))
					break
				}
			}
		}
	}
	return problems
}

// unfinished has a problem for a deletion that only Collection Operator can finish.
func unfinished(o *unstructured.Unstructured) []string {
	switch {
	case slices.Contains(o.GetFinalizers(), render.Finalizer):
		return []string{title(o) + " is being deleted, and the product does not know the finalizer that it has: let its operator finish it, or give it up with kubectl collection abandon"}
	case o.GroupVersionKind().Group == Group && slices.Contains(o.GetFinalizers(), ownFinalizers[0]):
		return []string{title(o) + " is being deleted, and the product does not know the finalizer that it has: start the manager of Collection Operator again, and let it finish"}
	}
	return nil
}

// Reference is an object that a SubOperatorConfig lists as installed, which proves nothing: the list has what was about to be written too,
// and whoever may write status can change it.
type Reference struct {
	Object *unstructured.Unstructured
	// Owner is the SubOperatorConfig, as namespace/name.
	Owner string
}

// References are what the SubOperatorConfigs of a cluster list as installed, with kind, namespace and name alone. What cannot be an object is
// left out.
func (s State) References() []Reference {
	var references []Reference
	for _, config := range s.Objects[configs] {
		items, _, _ := unstructured.NestedSlice(config.Object, "status", "inventory")
		for _, item := range items {
			fields, _ := item.(map[string]any)
			text := func(field string) string { value, _ := fields[field].(string); return value }
			name, namespace := text("name"), text("namespace")
			if name == "" || len(content.IsPathSegmentName(name)) > 0 || len(content.IsPathSegmentName(namespace)) > 0 {
				continue
			}
			references = append(references, Reference{
				Object: reference(text("apiVersion"), text("kind"), namespace, name), Owner: config.GetNamespace() + "/" + config.GetName(),
			})
		}
	}
	return references
}

func reference(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

// Installed returns what the way back removes of the object of a reference as it is in the cluster, by UID: nothing unless the object
// says itself that it is Collection Operator's and of the SubOperatorConfig that lists it, as when the manager removes it. An
// OperatorGroup, which others may use, stays. Of a Subscription, the ClusterServiceVersion that the Operator Lifecycle Manager made, and its
// workloads, are removed too.
func (s State) Installed(b *Backup, owner string, live *unstructured.Unstructured) []*unstructured.Unstructured {
	if group := live.GroupVersionKind().Group; group == apiextensionsv1.GroupName || IsGroup(group) || live.GetKind() == "Namespace" {
		return nil // Whatever they say: with them, resources would be deleted.
	}
	isProducts := slices.ContainsFunc(b.Removed, func(saved *unstructured.Unstructured) bool { return saved.GetUID() == live.GetUID() })
	if live.GetAnnotations()[render.AnnotationOwner] != owner || render.IDOf(live.GetLabels()) == (model.ID{}) || isProducts || live.GetUID() == "" {
		return nil
	}
	installed := []*unstructured.Unstructured{live}
	if live.GetKind() != "Subscription" {
		return withUIDs(installed)
	}
	for _, version := range s.Packages {
		made := version.GetKind() == "ClusterServiceVersion" && version.GetNamespace() == live.GetNamespace() && slices.Contains(versionsOf(live), version.GetName())
		if !made || render.IDOf(version.GetLabels()) != render.IDOf(live.GetLabels()) {
			continue
		}
		installed = append(installed, version)
		for _, w := range s.Workloads {
			if w.GetNamespace() == version.GetNamespace() && w.GetLabels()[labelOLMOwner] == version.GetName() {
				installed = append(installed, w)
			}
		}
	}
	return withUIDs(installed)
}

// withUIDs returns objects with kind, namespace, name and UID alone.
func withUIDs(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	var slim []*unstructured.Unstructured
	for _, o := range objects {
		only := reference(o.GetAPIVersion(), o.GetKind(), o.GetNamespace(), o.GetName())
		only.SetUID(o.GetUID())
		slim = append(slim, only)
	}
	return slim
}

// Install records objects that the way back removes, in the order in which it does.
func (b *Backup) Install(objects []*unstructured.Unstructured) {
	b.Installed = addMissing(b.Installed, objects)
	slices.SortStableFunc(b.Installed, inRemovalOrder)
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

// IsFinished reports whether a custom resource has no finalizer of the product.
func (s State) IsFinished(o *unstructured.Unstructured) bool { return len(foreign(s, o)) == 0 }

// Finished returns a custom resource without the product's finalizers.
func (s State) Finished(o *unstructured.Unstructured) *unstructured.Unstructured {
	want := o.DeepCopy()
	want.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), s.IsForeign))
	return want
}

// ToFinish are the custom resources that have finalizers of the product, but for kinds of its former releases, on which nothing acts.
func (s State) ToFinish() []*unstructured.Unstructured {
	var unfinished []*unstructured.Unstructured
	for _, definition := range s.Definitions {
		if group := definition.Spec.Group; group != Group && !isCollectionGroup(group) {
			continue
		}
		for _, o := range s.Objects[definition.Name] {
			if !s.IsFinished(o) {
				unfinished = append(unfinished, o)
			}
		}
	}
	return unfinished
}

// NotTakenOver has a problem for each OperatorCollection and SubOperatorConfig that is not ready under Collection Operator: there may be a
// need to go back.
func (s State) NotTakenOver() []string {
	var problems []string
	for _, o := range slices.Concat(s.Objects[collections], s.Objects[configs]) {
		status, _, _ := unstructured.NestedMap(o.Object, "status")
		if ready := condition(status, "Ready"); !isTrue(ready) {
			problems = append(problems, strings.TrimSuffix(fmt.Sprintf("%s is not Ready: %v", title(o), ready["message"]), ": <nil>"))
		}
	}
	return problems
}
