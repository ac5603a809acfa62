package adopt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// Restored returns a custom resource as it is to be after the way back, or why it cannot be so. It is nil if the resource is so already.
//
// Only what adoption, the manager and operators of Collection Operator write is undone: labels and annotations of both products, finalizers of
// both, owner references to their kinds, defaults in spec, and status. A resource whose playbook has run since then keeps its status. The
// status must be written first: the record tells whose it is.
func (s State) Restored(b *Backup, saved, live *unstructured.Unstructured) (*unstructured.Unstructured, string) {
	switch {
	case live == nil:
		return nil, title(saved) + " was deleted since then"
	case live.GetUID() != saved.GetUID():
		return nil, title(saved) + " was deleted and made again since then: it stays as it is"
	}
	want := live.DeepCopy()
	want.SetLabels(undone(saved.GetLabels(), live.GetLabels()))
	want.SetAnnotations(undone(saved.GetAnnotations(), live.GetAnnotations()))
	want.SetOwnerReferences(withoutAdded(saved.GetOwnerReferences(), live.GetOwnerReferences()))
	if live.GetDeletionTimestamp() == nil {
		want.SetFinalizers(finalizersBefore(s, saved.GetFinalizers(), live.GetFinalizers()))
	}
	restoreSpec(s, want, b.Specs[specKey(saved)])
	if hasOurStatus(saved, live) {
		delete(want.Object, "status")
		if status, ok := saved.DeepCopy().Object["status"]; ok {
			want.Object["status"] = status
		}
	}
	if equality.Semantic.DeepEqual(want.Object, live.Object) {
		return nil, ""
	}
	return want, ""
}

// undone returns labels or annotations as they are now, but for those of both products, which are as before. It is nil if there are none.
func undone(before, now map[string]string) map[string]string {
	undone := maps.Clone(now)
	maps.DeleteFunc(undone, func(name, _ string) bool { return isOurs(name) })
	for name, value := range before {
		if isOurs(name) {
			if undone == nil {
				undone = map[string]string{}
			}
			undone[name] = value
		}
	}
	if len(undone) == 0 {
		return nil
	}
	return undone
}

// isOurs reports whether a label or an annotation is one that the products write.
func isOurs(name string) bool {
	domain, _, hasDomain := strings.Cut(name, "/")
	return hasDomain && IsGroup(domain) || slices.Contains([]string{render.LabelDomain, render.LabelName, render.LabelVersion, render.LabelManagedBy}, name)
}

// withoutAdded drops the references to kinds of the products that were added since then.
func withoutAdded(before, now []metav1.OwnerReference) []metav1.OwnerReference {
	var kept []metav1.OwnerReference
	for _, owner := range now {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		known := slices.ContainsFunc(before, func(other metav1.OwnerReference) bool { return other.UID == owner.UID })
		if group != Group || known {
			kept = append(kept, owner)
		}
	}
	return kept
}

// finalizersBefore returns those of both products as before, and those of others as now.
func finalizersBefore(s State, before, now []string) []string {
	ofProducts := func(name string) bool {
		return s.IsForeign(name) || name == render.Finalizer || name == ownFinalizers[0]
	}
	var finalizers []string
	for _, name := range before {
		if ofProducts(name) || slices.Contains(now, name) {
			finalizers = append(finalizers, name)
		}
	}
	for _, name := range now {
		if !ofProducts(name) && !slices.Contains(finalizers, name) {
			finalizers = append(finalizers, name)
		}
	}
	return finalizers
}

// hasOurStatus reports whether the status of a custom resource is Collection Operator's, and about no run of its own: for kinds of
// collections, its operators have recorded that they have seen the resource. Otherwise the status is the product's, and may be newer than
// the one that was saved.
func hasOurStatus(saved, live *unstructured.Unstructured) bool {
	if live.GroupVersionKind().Group == Group {
		return true
	}
	record := live.GetAnnotations()[gate.AnnotationRecord]
	return record != "" && record != saved.GetAnnotations()[gate.AnnotationRecord] && !ranSince(saved, live)
}

// ranSince reports whether the playbook of a custom resource has run under Collection Operator.
func ranSince(saved, live *unstructured.Unstructured) bool {
	before, _, _ := unstructured.NestedFieldNoCopy(saved.Object, "status", "lastRun")
	now, _, _ := unstructured.NestedFieldNoCopy(live.Object, "status", "lastRun")
	return now != nil && !equality.Semantic.DeepEqual(before, now)
}

// EditedSince are the custom resources of collections whose spec was written after the backup, and whose playbook has not run since then:
// their operator may have taken that spec for the one of the last run.
func (s State) EditedSince(b *Backup) []string {
	var edited []string
	for _, saved := range b.Kept {
		if saved.GroupVersionKind().Group == Group {
			continue
		}
		for _, objects := range s.Objects {
			at := slices.IndexFunc(objects, func(live *unstructured.Unstructured) bool { return isSame(saved, live) })
			if at >= 0 && objects[at].GetGeneration() > saved.GetGeneration() && !ranSince(saved, objects[at]) {
				edited = append(edited, title(saved))
			}
		}
	}
	slices.Sort(edited)
	return edited
}

// BeforeReturn is what the way back changes, as it is now: metadata and status of custom resources.
func (s State) BeforeReturn(b *Backup) []*unstructured.Unstructured {
	var now []*unstructured.Unstructured
	for _, name := range slices.Sorted(maps.Keys(s.Objects)) {
		for _, live := range s.Objects[name] {
			if slices.ContainsFunc(b.Kept, func(saved *unstructured.Unstructured) bool { return isSame(saved, live) }) {
				now = append(now, withoutSpec(live))
			}
		}
	}
	return now
}

// restoreSpec removes the fields of a spec that were not there before and have the default of Collection Operator's CRD, which the API
// server has stored, and restores those of which it has dropped something, unless they were changed since then.
func restoreSpec(s State, o *unstructured.Unstructured, before Spec) {
	schema := schemaOf(s, o)
	spec, _, err := unstructured.NestedMap(o.Object, "spec")
	if schema == nil || err != nil || spec == nil {
		return
	}
	defaulted, _ := pruned(map[string]any{}, schema)
	maps.DeleteFunc(spec, func(name string, value any) bool {
		other, ok := defaulted[name]
		return ok && !slices.Contains(before.Fields, name) && equality.Semantic.DeepEqual(value, other)
	})
	stored, _ := pruned(before.Unknown, schema)
	now, _ := pruned(spec, schema)
	for name, value := range before.Unknown {
		if isEqualJSON(stored[name], now[name]) && !isEqualJSON(spec[name], value) {
			spec[name] = value
		}
	}
	o.Object["spec"] = spec
}

// isEqualJSON compares values of which one was read from a file, where integers are floating-point numbers.
func isEqualJSON(a, b any) bool {
	left, err := json.Marshal(a)
	if err != nil {
		return false
	}
	right, err := json.Marshal(b)
	return err == nil && bytes.Equal(left, right)
}

// ToRecreate are the objects that the way back makes again, in their order, as they were.
func (b *Backup) ToRecreate() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, saved := range slices.Backward(b.Removed) {
		if b.Recreated(saved) != nil {
			objects = append(objects, saved)
		}
	}
	return objects
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

// Recreated returns an object that adoption removed, as it is made again. It is nil for what the Operator Lifecycle Manager makes again:
// objects of a ClusterServiceVersion, and that of a Subscription, which takes over none that exists. The Subscription begins with the version
// that was installed, not with the newest one.
func (b *Backup) Recreated(saved *unstructured.Unstructured) *unstructured.Unstructured {
	if saved.GetLabels()[labelOLMOwner] != "" || b.isMadeByOLM(saved) {
		return nil
	}
	object := saved.DeepCopy()
	if version, _, _ := unstructured.NestedString(saved.Object, "status", "installedCSV"); saved.GetKind() == "Subscription" && version != "" {
		if spec, ok := object.Object["spec"].(map[string]any); ok {
			spec["startingCSV"] = version
		}
	}
	delete(object.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if owners := object.GetOwnerReferences(); len(owners) > 0 { // What names an object that is gone is removed as garbage.
		object.SetOwnerReferences(slices.DeleteFunc(owners, func(owner metav1.OwnerReference) bool { return b.removed(owner.UID) != nil }))
	}
	if finalizers := object.GetFinalizers(); len(finalizers) > 0 { // A removal that was interrupted has added one.
		object.SetFinalizers(slices.DeleteFunc(finalizers, func(name string) bool { return name == metav1.FinalizerDeleteDependents }))
	}
	return object
}

// isMadeByOLM reports whether an object is the ClusterServiceVersion of a Subscription that adoption removed, or belongs to it, as its
// ServiceAccounts do.
func (b *Backup) isMadeByOLM(saved *unstructured.Unstructured) bool {
	if saved.GetKind() == "ClusterServiceVersion" {
		return isSubscribed(saved, b.Removed)
	}
	return slices.ContainsFunc(saved.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		version := b.removed(owner.UID)
		return version != nil && version.GetKind() == "ClusterServiceVersion" && isSubscribed(version, b.Removed)
	})
}

// removed returns the object with a UID that adoption removed, or nil.
func (b *Backup) removed(uid types.UID) *unstructured.Unstructured {
	at := slices.IndexFunc(b.Removed, func(o *unstructured.Unstructured) bool { return o.GetUID() == uid })
	if at < 0 {
		return nil
	}
	return b.Removed[at]
}
