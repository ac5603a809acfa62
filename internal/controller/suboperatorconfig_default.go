package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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
	if entry.Manager == apply.FieldOwner || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
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
// it. It stays if its operator is in use: who applies a manifest that does not name the namespace need not know of it.
func (r *SubOperatorConfigReconciler) yieldDefault(ctx context.Context, s *configScope) error {
	by := takenOverBy(s.soc)
	if by == "" {
		return nil
	}
	changes := map[string]any{"metadata": map[string]any{
		"resourceVersion": s.soc.ResourceVersion, "annotations": map[string]any{annotationDefault: nil},
	}}
	note := fmt.Sprintf("%s has applied a manifest over this default of the manager, which leaves it alone from now on", by)
	if mapping, changed := withoutDefault(s.soc); changed {
		isUsed, err := r.isUsed(ctx, s.soc, s.soc.Namespace)
		if err != nil {
			return fmt.Errorf("finding out whether the operator in namespace %q is used: %w", s.soc.Namespace, err)
		}
		if isUsed {
			note += fmt.Sprintf("; namespace %q stays in spec.mapping, because its operator is in use: "+
				"if it is to be removed, remove the entry with kubectl edit", s.soc.Namespace)
		} else {
			changes["spec"] = map[string]any{"mapping": mapping}
			note += fmt.Sprintf("; namespace %q, which the manifest does not map, was removed from spec.mapping", s.soc.Namespace)
		}
	}
	content, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := r.Client.Patch(ctx, s.soc, client.RawPatch(types.MergePatchType, content), client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("handing the default SubOperatorConfig over to %s: %w", by, err)
	}
	r.Recorder.Eventf(s.soc, nil, corev1.EventTypeNormal, v2beta2.ReasonHandedOver, "HandOver", "%s", printable.Line(note, status.MaxEventBytes))
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

// isUsed reports whether the operator in a namespace may run, or has custom resources.
func (r *SubOperatorConfigReconciler) isUsed(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) (bool, error) {
	if mayRun(install.Recorded(soc, namespace)) {
		return true, nil
	}
	id := install.RecordedCollection(soc)
	if id == (model.ID{}) {
		return false, nil // Nothing was ever installed.
	}
	items, err := (&instances.Finder{Reader: r.Reader}).List(ctx, id, namespace)
	return len(items) > 0, err
}

// mayRun reports whether an operator may run according to its installation, which is nil if there is none. With any problem but that it
// is starting, it may run as before.
func mayRun(installation *v2beta2.InstallationStatus) bool {
	return installation != nil && (installation.Ready || installation.Reason != v2beta2.ReasonProgressing)
}
