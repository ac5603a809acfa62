package suboperatorconfig

import (
	"context"
	"slices"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
)

// changedByOthers drops the events about objects that are as the manager has written them.
func (r *Reconciler) changedByOthers() predicate.Predicate {
	asWritten := func(object client.Object) bool {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		return r.memory.Applied.Has(kind, client.ObjectKeyFromObject(object), apply.LiveState(object, kind))
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return !asWritten(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool { return !asWritten(e.ObjectNew) },
	}
}

// deploymentChanged, podChanged and definitionChanged let each change through that a status may report: nothing that an installation
// waits for is polled.
func deploymentChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*appsv1.Deployment)
	after, isOther := e.ObjectNew.(*appsv1.Deployment)
	return !isOne || !isOther || install.DeploymentChanged(before, after)
}

func podChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*corev1.Pod)
	after, isOther := e.ObjectNew.(*corev1.Pod)
	return !isOne || !isOther || install.PodChanged(before, after)
}

// definitionChanged reports whether a CRD was established, or serves other versions.
func definitionChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition)
	after, isOther := e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
	if !isOne || !isOther {
		return true
	}
	served := func(definition *apiextensionsv1.CustomResourceDefinition) []string {
		var names []string
		for _, version := range definition.Spec.Versions {
			if version.Served {
				names = append(names, version.Name)
			}
		}
		return names
	}
	return crdplan.IsEstablished(before) != crdplan.IsEstablished(after) || imports.LabelledID(before) != imports.LabelledID(after) || !slices.Equal(served(before), served(after))
}

// ofDefinition maps a CRD to the SubOperatorConfigs of the OperatorCollections that have its collection.
func (r *configMapper) ofDefinition(ctx context.Context, object client.Object) []reconcile.Request {
	id := imports.LabelledID(object)
	if id == (model.ID{}) {
		return nil
	}
	var requests []reconcile.Request
	for _, oc := range pace.RequestsOf(ctx, r, &v2beta2.OperatorCollectionList{}, client.MatchingFields{imports.IndexCollection: id.String()}) {
		requests = append(requests, r.requests(ctx, client.InNamespace(oc.Namespace), client.MatchingFields{imports.IndexOperatorCollection: oc.Name})...)
	}
	return requests
}

// ofOperator maps the Deployment or ClusterServiceVersion of an operator, including user-managed ones, to the
// SubOperatorConfigs that map its namespace for the collection.
func (r *configMapper) ofOperator(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := r.ofOwned(ctx, object); requests != nil {
		return requests
	}
	id := imports.LabelledID(object)
	if id == (model.ID{}) || object.GetLabels()[operatorsv1alpha1.CopiedLabelKey] != "" {
		return nil
	}
	return r.requests(ctx, client.MatchingLabels(render.IdentityLabels(id)), client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}

// ofPod maps a pod to those of its operator, unless that is available: then status says nothing about pods.
func (r *configMapper) ofPod(ctx context.Context, object client.Object) []reconcile.Request {
	id := imports.LabelledID(object)
	deployment := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: id.OperatorName()}
	if err := r.Get(ctx, key, deployment); id == (model.ID{}) || err == nil && install.Available(deployment) {
		return nil
	}
	return r.ofOperator(ctx, object)
}
