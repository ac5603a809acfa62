package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// ownedFields are the fields of a SubOperatorConfig that matter for who has taken over a default.
type ownedFields struct {
	Spec struct {
		OperatorCollection json.RawMessage            `json:"f:operatorCollection"`
		Mapping            map[string]json.RawMessage `json:"f:mapping"`
	} `json:"f:spec"`
}

// ownedByOther returns the fields of an entry of managedFields. They are zero if it is the manager's.
func ownedByOther(entry metav1.ManagedFieldsEntry) ownedFields {
	var fields ownedFields
	if entry.Manager == fieldOwner || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return ownedFields{}
	}
	return fields
}

// isManifest reports whether an entry of managedFields says that somebody else has applied a whole manifest on the server side. A
// manifest without operatorCollection, which is required, is a part that adds to what others applied.
func isManifest(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && ownedByOther(entry).Spec.OperatorCollection != nil
}

// claims reports whether an entry of managedFields says that somebody else has set anything in the mapping of a namespace.
func claims(entry metav1.ManagedFieldsEntry, namespace string) bool {
	_, found := ownedByOther(entry).Spec.Mapping[fmt.Sprintf(`k:{"namespace":%q}`, namespace)]
	return found
}

// fieldsOfOthers returns the entries of managedFields by which a default SubOperatorConfig is handed over: of those who have applied a
// manifest over it, and of those who have set anything in the mapping of its namespace. It is nil for any other object.
func fieldsOfOthers(object client.Object) []metav1.ManagedFieldsEntry {
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok || soc.Annotations[annotationDefault] != "true" {
		return nil
	}
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range soc.ManagedFields {
		if isManifest(entry) || claims(entry, soc.Namespace) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// takenOverBy returns who has applied a manifest over a default SubOperatorConfig, or "".
func takenOverBy(soc *v2beta2.SubOperatorConfig) string {
	if i := slices.IndexFunc(fieldsOfOthers(soc), isManifest); i >= 0 {
		return fieldsOfOthers(soc)[i].Manager
	}
	return ""
}

// yieldDefault gives a default SubOperatorConfig to those who have applied their own content over it: it is no default any more. Server-side
// apply merges lists. So the namespace of the default, if nobody else wants it, is removed here: they never see it, and could not remove
// it.
func (r *SubOperatorConfigReconciler) yieldDefault(ctx context.Context, s *configScope) error {
	by := takenOverBy(s.soc)
	if by == "" {
		return nil
	}
	changes := map[string]any{"metadata": map[string]any{
		"resourceVersion": s.soc.ResourceVersion, "annotations": map[string]any{annotationDefault: nil},
	}}
	if mapping, changed := withoutDefault(s.soc); changed {
		changes["spec"] = map[string]any{"mapping": mapping}
	}
	content, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, s.soc, client.RawPatch(types.MergePatchType, content), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("handing the default SubOperatorConfig over to %s: %w", by, err)
	}
	return nil
}

// withoutDefault returns the mapping without the entry of the default, and whether that can go: others have applied a mapping
// without it, and nobody has set anything in it. An empty mapping leaves no trace in managedFields: the entry then stays, as without one.
func withoutDefault(soc *v2beta2.SubOperatorConfig) ([]v2beta2.NamespaceMapping, bool) {
	applies := false
	for _, entry := range fieldsOfOthers(soc) {
		if claims(entry, soc.Namespace) {
			return nil, false
		}
		applies = applies || ownedByOther(entry).Spec.Mapping != nil
	}
	remaining := slices.DeleteFunc(append([]v2beta2.NamespaceMapping{}, soc.Spec.Mapping...),
		func(m v2beta2.NamespaceMapping) bool { return m.Namespace == soc.Namespace })
	return remaining, applies && len(remaining) < len(soc.Spec.Mapping)
}
