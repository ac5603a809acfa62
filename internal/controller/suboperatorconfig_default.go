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

// appliedFields are the fields of a SubOperatorConfig that matter for who has taken over a default.
type appliedFields struct {
	Spec struct {
		OperatorCollection json.RawMessage            `json:"f:operatorCollection"`
		Mapping            map[string]json.RawMessage `json:"f:mapping"`
	} `json:"f:spec"`
}

// applied returns the fields of a whole manifest that an entry of managedFields says was applied on the server side, or nil. A manifest
// without operatorCollection, which is required, is a part that adds to what others applied.
func applied(entry metav1.ManagedFieldsEntry) *appliedFields {
	if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager == fieldOwner || entry.Subresource != "" || entry.FieldsV1 == nil {
		return nil
	}
	fields := &appliedFields{}
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), fields); err != nil || fields.Spec.OperatorCollection == nil {
		return nil
	}
	return fields
}

// appliersOf returns the entries of managedFields of those who have applied a manifest over a default SubOperatorConfig. It is nil
// for any other object.
func appliersOf(object client.Object) []metav1.ManagedFieldsEntry {
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok || soc.Annotations[annotationDefault] != "true" {
		return nil
	}
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range soc.ManagedFields {
		if applied(entry) != nil {
			entries = append(entries, entry)
		}
	}
	return entries
}

// yieldDefault gives a default SubOperatorConfig to those who have applied their own content over it: it is no default any more. Server-side
// apply merges lists. So the namespace of the default, if they have applied a mapping without it, is removed here: they never see it,
// and could not remove it. An empty mapping leaves no trace in managedFields: the namespace then stays, as without a mapping.
func (r *SubOperatorConfigReconciler) yieldDefault(ctx context.Context, s *configScope) error {
	appliers := appliersOf(s.soc)
	if len(appliers) == 0 {
		return nil
	}
	changes := map[string]any{"metadata": map[string]any{
		"resourceVersion": s.soc.ResourceVersion, "annotations": map[string]any{annotationDefault: nil},
	}}
	if mapping, changed := withoutDefault(s.soc, appliers); changed {
		changes["spec"] = map[string]any{"mapping": mapping}
	}
	content, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, s.soc, client.RawPatch(types.MergePatchType, content), client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("handing the default SubOperatorConfig over to %s: %w", appliers[0].Manager, err)
	}
	return nil
}

// withoutDefault returns the mapping without the entry of the default, and whether that has to go.
func withoutDefault(soc *v2beta2.SubOperatorConfig, appliers []metav1.ManagedFieldsEntry) ([]v2beta2.NamespaceMapping, bool) {
	made, applies := fmt.Sprintf(`k:{"namespace":%q}`, soc.Namespace), false
	for _, entry := range appliers {
		fields := applied(entry)
		if _, keeps := fields.Spec.Mapping[made]; keeps {
			return nil, false
		}
		applies = applies || fields.Spec.Mapping != nil
	}
	remaining := slices.DeleteFunc(append([]v2beta2.NamespaceMapping{}, soc.Spec.Mapping...),
		func(m v2beta2.NamespaceMapping) bool { return m.Namespace == soc.Namespace })
	return remaining, applies && len(remaining) < len(soc.Spec.Mapping)
}
