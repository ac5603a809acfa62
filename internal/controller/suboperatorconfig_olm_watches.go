package controller

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
)

// watchOLM brings SubOperatorConfigs back when something of theirs changes in OLM, and all of them when it is found. Of
// ClusterServiceVersions only the metadata is cached; InstallPlans are looked at when a Subscription changes.
func (r *SubOperatorConfigReconciler) watchOLM(mgr ctrl.Manager, c controller.Controller) {
	csv := &metav1.PartialObjectMetadata{}
	csv.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	r.OLM.OnAvailable(func(context.Context) error {
		for object, lead := range map[client.Object]handler.MapFunc{&operatorsv1alpha1.Subscription{}: r.ofSubscription, csv: r.ofOperator} {
			if err := c.Watch(source.Kind(mgr.GetCache(), object, handler.EnqueueRequestsFromMapFunc(lead))); err != nil {
				return err
			}
		}
		return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			for _, request := range r.requests(ctx, "", func(*v2beta2.SubOperatorConfig) bool { return true }) {
				queue.Add(request)
			}
			return nil
		}))
	})
}

// ofSubscription leads from a Subscription to our catalog, whoever made it, to those that map its namespace.
func (r *SubOperatorConfigReconciler) ofSubscription(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := ownerOfObject(ctx, object); requests != nil || !keptWhole(object) {
		return requests
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return mapsNamespace(soc, object.GetNamespace()) || installedIn(soc, object.GetNamespace())
	})
}

// ofOperator leads from a Deployment or ClusterServiceVersion of a collection's operator, whoever made it, to those that
// have the collection in its namespace.
func (r *SubOperatorConfigReconciler) ofOperator(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := ownerOfObject(ctx, object); requests != nil {
		return requests
	}
	key := render.IDOf(object.GetLabels())
	if key == (collection.ID{}) || object.GetLabels()[operatorsv1alpha1.CopiedLabelKey] != "" {
		return nil
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return render.IDOf(soc.GetLabels()) == key && (mapsNamespace(soc, object.GetNamespace()) || installedIn(soc, object.GetNamespace()))
	})
}
