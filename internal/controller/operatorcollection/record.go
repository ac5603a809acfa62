package operatorcollection

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// recordImport sets the annotation, and the labels that clients select by unless the user set them.
func (r *Reconciler) recordImport(ctx context.Context, oc *v2beta2.OperatorCollection, labels map[string]string) error {
	before := oc.DeepCopy()
	changed := apply.SetLabels(oc, labels)
	if record := imports.FormatRecord(oc, r.Collections.Key); oc.Annotations[imports.AnnotationArtifact] != record {
		metav1.SetMetaDataAnnotation(&oc.ObjectMeta, imports.AnnotationArtifact, record)
		changed = true
	}
	if !changed {
		return nil
	}
	if err := apply.PatchMetadata(ctx, r.Client, oc, before); err != nil {
		return err
	}
	r.Imports.Wrote(oc)
	return nil
}
