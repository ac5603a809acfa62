package suboperatorconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// defaultReleaser hands a default SubOperatorConfig over to those who have applied their own content over it.
type defaultReleaser struct {
	client   client.Client
	reader   client.Reader
	recorder events.EventRecorder
}

// release gives a default SubOperatorConfig to those who have applied their own content over it: it is no default any more. Server-side
// apply merges lists. So the namespace of the default, if nobody else wants it, is removed here: they never see it, and could not remove
// it. It stays if its operator is in use: who applies a manifest that does not name the namespace need not know of it.
func (r *defaultReleaser) release(ctx context.Context, soc *v2beta2.SubOperatorConfig) error {
	others := imports.FindSetByOthers(soc)
	by := others.TakenOverBy
	if by == "" {
		return nil
	}
	changes := map[string]any{"metadata": map[string]any{
		"resourceVersion": soc.ResourceVersion, "annotations": map[string]any{v2beta2.AnnotationDefault: nil},
	}}
	note := fmt.Sprintf("%s has applied a manifest over this default of the manager, which leaves it alone from now on", by)
	if mapping, changed := withoutDefault(soc, others); changed {
		isUsed, err := r.isUsed(ctx, soc, soc.Namespace)
		if err != nil {
			return fmt.Errorf("finding out whether the operator in namespace %q is used: %w", soc.Namespace, err)
		}
		if isUsed {
			note += fmt.Sprintf("; namespace %q stays in spec.mapping, because its operator is in use: "+
				"if it is to be removed, remove the entry with kubectl edit", soc.Namespace)
		} else {
			changes["spec"] = map[string]any{"mapping": mapping}
			note += fmt.Sprintf("; namespace %q, which the manifest does not map, was removed from spec.mapping", soc.Namespace)
		}
	}
	content, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	if err := r.client.Patch(ctx, soc, client.RawPatch(types.MergePatchType, content), client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("handing the default SubOperatorConfig over to %s: %w", by, err)
	}
	r.recorder.Eventf(soc, nil, corev1.EventTypeNormal, v2beta2.ReasonHandedOver, "HandOver", "%s", printable.Line(note, status.MaxEventBytes))
	return nil
}

// withoutDefault returns the mapping without the entry of the default, and whether that can go: others have applied a mapping
// without it, and nobody has set anything in it.
func withoutDefault(soc *v2beta2.SubOperatorConfig, others imports.SetByOthers) ([]v2beta2.NamespaceMapping, bool) {
	remaining := slices.DeleteFunc(append([]v2beta2.NamespaceMapping{}, soc.Spec.Mapping...),
		func(m v2beta2.NamespaceMapping) bool { return m.Namespace == soc.Namespace })
	return remaining, others.Maps && !others.InNamespace && len(remaining) < len(soc.Spec.Mapping)
}

// isUsed reports whether the operator in a namespace may run, or has custom resources.
func (r *defaultReleaser) isUsed(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) (bool, error) {
	if mayRun(install.Recorded(soc, namespace)) {
		return true, nil
	}
	id := install.RecordedCollection(soc)
	if id == (model.ID{}) {
		return false, nil // Nothing was ever installed.
	}
	items, err := (&instances.Finder{Reader: r.reader}).List(ctx, id, namespace)
	return len(items) > 0, err
}

// mayRun reports whether an operator may run according to its installation, which is nil if there is none. With any problem but that it
// is starting, it may run as before.
func mayRun(installation *v2beta2.InstallationStatus) bool {
	return installation != nil && (installation.Ready || installation.Reason != v2beta2.ReasonProgressing)
}
