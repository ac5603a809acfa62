package customresourcedefinition

import (
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// importChanged ignores updates of OperatorCollections and SubOperatorConfigs that change nothing which CRDs depend on, such as
// those of an annotation that somebody changes in a loop.
var importChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, after := e.ObjectOld, e.ObjectNew
	if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetLabels(), after.GetLabels()) ||
		!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp()) {
		return true
	}
	was, ok := before.(*v2beta2.OperatorCollection)
	is, _ := after.(*v2beta2.OperatorCollection)
	return ok && is != nil && (!equality.Semantic.DeepEqual(was.Status.Collection, is.Status.Collection) ||
		!equality.Semantic.DeepEqual(was.Status.Artifact, is.Status.Artifact))
}}
