package controller

import (
	"context"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/grants"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/mapping"
	"github.com/collection-operator/collection-operator/internal/render"
)

// grantDelay is the time after which the API server's RBAC cache is assumed to contain a changed grant.
const grantDelay = 2 * time.Second

// SetupWithManager registers the controller.
func (r *SubOperatorConfigReconciler) SetupWithManager(mgr ctrl.Manager) error {
	owner := handler.EnqueueRequestsFromMapFunc(ownerOfObject)
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.SubOperatorConfig{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(r.ofCollection)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofConflicting)).
		Watches(&v2beta2.ZosEndpoint{}, handler.EnqueueRequestsFromMapFunc(r.ofEndpoint)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.ofSecret)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesMetadata(&rbacv1.ClusterRole{}, r.whenGranted()).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(r.ofOperator))
	for _, object := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &networkingv1.NetworkPolicy{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	} {
		b = b.WatchesMetadata(object, owner)
	}
	c, err := b.WithOptions(options(4)).Build(r)
	if err != nil {
		return err
	}
	r.watchOLM(mgr, c)
	return nil
}

// ownerOfObject maps an object to the SubOperatorConfig that it was created for.
func ownerOfObject(_ context.Context, object client.Object) []reconcile.Request {
	owner, ok := install.OwnerOf(object)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: owner}}
}

func (r *SubOperatorConfigReconciler) ofCollection(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), func(soc *v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection == object.GetName()
	})
}

func (r *SubOperatorConfigReconciler) ofEndpoint(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), func(soc *v2beta2.SubOperatorConfig) bool {
		return slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return mapping.Allows(m, object.GetName()) })
	})
}

// ofConflicting maps a SubOperatorConfig to the others of its collection: it may have uninstalled from a namespace that they
// map.
func (r *SubOperatorConfigReconciler) ofConflicting(ctx context.Context, object client.Object) []reconcile.Request {
	key := render.IDOf(object.GetLabels())
	if key == (collection.ID{}) {
		return nil
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return render.IDOf(soc.GetLabels()) == key && soc.UID != object.GetUID()
	})
}

// ofSecret maps a credential to the SubOperatorConfigs whose endpoints or dependencies use it, and a Secret of an
// installation to its owner.
func (r *SubOperatorConfigReconciler) ofSecret(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := ownerOfObject(ctx, object); requests != nil {
		return requests
	}
	endpoints := &v2beta2.ZosEndpointList{}
	if err := r.Client.List(ctx, endpoints, client.InNamespace(object.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list ZosEndpoints")
	}
	used := slices.ContainsFunc(endpoints.Items, func(e v2beta2.ZosEndpoint) bool {
		return e.Spec.CredentialName == object.GetName()
	})
	collections := r.usersOfSecret(ctx, object)
	return r.requests(ctx, object.GetNamespace(), func(soc *v2beta2.SubOperatorConfig) bool {
		return used || collections[soc.Spec.OperatorCollection] || slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool {
			return m.ZosEndpoints != nil && slices.ContainsFunc(*m.ZosEndpoints, func(e v2beta2.EndpointMapping) bool {
				return e.CredentialName == object.GetName()
			})
		})
	})
}

// ofNamespace maps a namespace to the SubOperatorConfigs of other namespaces that map it: its consent may have changed.
func (r *SubOperatorConfigReconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return soc.Namespace != object.GetName() && mapping.Maps(soc, object.GetName())
	})
}

func (r *SubOperatorConfigReconciler) requests(ctx context.Context, namespace string, match func(*v2beta2.SubOperatorConfig) bool) []reconcile.Request {
	list := &v2beta2.SubOperatorConfigList{}
	if err := r.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list SubOperatorConfigs")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if match(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// usersOfSecret returns the names of the OperatorCollections whose dependencies need a Secret.
func (r *SubOperatorConfigReconciler) usersOfSecret(ctx context.Context, secret client.Object) map[string]bool {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(secret.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot list OperatorCollections")
	}
	users := map[string]bool{}
	for _, oc := range list.Items {
		if oc.Spec.Dependencies != nil && oc.Spec.Dependencies.CredentialsSecret == secret.GetName() {
			users[oc.Name] = true
		}
	}
	return users
}

// whenGranted reconciles all SubOperatorConfigs, after grantDelay, when the grants have changed.
func (r *SubOperatorConfigReconciler) whenGranted() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectNew.GetName() != grants.ClusterRole {
				return
			}
			for _, request := range r.requests(ctx, "", func(*v2beta2.SubOperatorConfig) bool { return true }) {
				queue.AddAfter(request, grantDelay)
			}
		},
	}
}

// watchOLM reconciles SubOperatorConfigs when their objects in OLM change, and all of them when OLM becomes available. Of
// ClusterServiceVersions only the metadata is cached. InstallPlans are read when a Subscription changes.
func (r *SubOperatorConfigReconciler) watchOLM(mgr ctrl.Manager, c controller.Controller) {
	csv := &metav1.PartialObjectMetadata{}
	csv.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	r.OLM.OnAvailable(func(context.Context) error {
		for object, mapTo := range map[client.Object]handler.MapFunc{&operatorsv1alpha1.Subscription{}: r.ofSubscription, csv: r.ofOperator} {
			if err := c.Watch(source.Kind(mgr.GetCache(), object, handler.EnqueueRequestsFromMapFunc(mapTo))); err != nil {
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

// ofSubscription maps a Subscription to the manager's catalog, including user-managed ones, to the SubOperatorConfigs that
// map its namespace.
func (r *SubOperatorConfigReconciler) ofSubscription(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := ownerOfObject(ctx, object); requests != nil || !keptWhole(object) {
		return requests
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return mapping.Maps(soc, object.GetNamespace()) || mapping.InstalledIn(soc, object.GetNamespace())
	})
}

// ofOperator maps the Deployment or ClusterServiceVersion of an operator, including user-managed ones, to the
// SubOperatorConfigs that map its namespace for the collection.
func (r *SubOperatorConfigReconciler) ofOperator(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := ownerOfObject(ctx, object); requests != nil {
		return requests
	}
	key := render.IDOf(object.GetLabels())
	if key == (collection.ID{}) || object.GetLabels()[operatorsv1alpha1.CopiedLabelKey] != "" {
		return nil
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return render.IDOf(soc.GetLabels()) == key && (mapping.Maps(soc, object.GetNamespace()) || mapping.InstalledIn(soc, object.GetNamespace()))
	})
}
