package operatorcollection

import (
	"context"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/instances"
)

// installationChanged ignores updates of SubOperatorConfigs that change nothing which the status of their OperatorCollection follows from,
// such as those of labels, finalizers and owners, and new defaults: the reconcile that made one knows it, and its status is written soon.
var installationChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool {
		return e.IsInInitialList || e.Object.GetAnnotations()[v2beta2.AnnotationDefault] == ""
	},
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, isOne := e.ObjectOld.(*v2beta2.SubOperatorConfig)
		after, isOther := e.ObjectNew.(*v2beta2.SubOperatorConfig)
		if !isOne || !isOther {
			return true
		}
		return before.UID != after.UID || before.Generation != after.Generation || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) || !equality.Semantic.DeepEqual(before.Status, after.Status)
	},
}

// definitionServed ignores new CRDs, which are not served yet, updates that change neither what a CRD is like nor whether it is established,
// and of the CRDs of a collection that become established all but the last one: nobody can do anything with the others.
func (r *Reconciler) definitionServed() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			definition, ok := e.Object.(*apiextensionsv1.CustomResourceDefinition)
			return !ok || e.IsInInitialList || crdplan.IsEstablished(definition)
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			if crdplan.DefinitionEdited.Update(e) {
				return true
			}
			before, after := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition), e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
			was, is := crdplan.IsEstablished(before), crdplan.IsEstablished(after)
			return was && !is || !was && is && !r.awaitsOthers(imports.LabelledID(after))
		},
	}
}

// awaitsOthers reports whether a CRD of a collection is not established.
func (r *Reconciler) awaitsOthers(id model.ID) bool {
	// The cache has a state before it is reported.
	definitions, err := (&instances.Finder{Reader: r.Client}).CRDs(context.Background(), id)
	return err == nil && slices.ContainsFunc(definitions, func(d apiextensionsv1.CustomResourceDefinition) bool {
		return !crdplan.IsEstablished(&d)
	})
}
