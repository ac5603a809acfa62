package controller

import (
	"context"
	"errors"
	"slices"
	"strings"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
	"github.com/collection-operator/collection-operator/internal/status"
)

// SubOperatorConfigReconciler installs the operator of a collection in each namespace that a SubOperatorConfig maps.
type SubOperatorConfigReconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *CollectionCache
	// Settings hold for collections whose OperatorCollection or SubOperatorConfig does not say otherwise.
	Settings render.Settings
	// OLM is nil if the manager is to do without.
	OLM *OLM
}

// Reconcile implements [reconcile.Reconciler].
func (r *SubOperatorConfigReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	soc := &v2beta2.SubOperatorConfig{}
	if err := r.Reader.Get(ctx, req.NamespacedName, soc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if soc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(soc, Finalizer) {
			return ctrl.Result{}, nil
		}
		return r.conclude(ctx, soc, &installationFacts{}, r.finalize(ctx, soc))
	}
	facts, err := r.reconcile(ctx, soc)
	if facts.suspended {
		return ctrl.Result{}, nil
	}
	return r.conclude(ctx, soc, facts, errors.Join(err, r.gateUpgrades(ctx, soc, facts, err)))
}

func (r *SubOperatorConfigReconciler) reconcile(ctx context.Context, soc *v2beta2.SubOperatorConfig) (*installationFacts, error) {
	facts := &installationFacts{}
	steps := []func(context.Context, *v2beta2.SubOperatorConfig, *installationFacts) error{
		r.ensureFinalizer,
		r.findCollection,
		r.adopt,
		r.loadCollection,
		r.checkMapping,
		r.composeEndpoints,
		r.followEndpoints,
		r.chooseMethods,
		r.composeDependencies,
		r.render,
		r.recordInventory,
		r.leave,
		r.checkEnvironment,
		r.checkPermissions,
		r.switchMethods,
		r.recordMethods,
		r.apply,
		r.rollByHand,
		r.prune,
		r.checkWorkloads,
	}
	for _, step := range steps {
		if err := step(ctx, soc, facts); err != nil || facts.suspended {
			return facts, err
		}
	}
	return facts, status.Join(facts.problems...)
}

// SetupWithManager registers the controller.
func (r *SubOperatorConfigReconciler) SetupWithManager(mgr ctrl.Manager) error {
	owner := handler.EnqueueRequestsFromMapFunc(ownerOfObject)
	b := ctrl.NewControllerManagedBy(mgr).
		For(&v2beta2.SubOperatorConfig{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(r.ofCollection)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.ofRival)).
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

// ownerOfObject is the SubOperatorConfig that an object was made for.
func ownerOfObject(_ context.Context, object client.Object) []reconcile.Request {
	namespace, name, ok := strings.Cut(object.GetAnnotations()[annotationOwner], "/")
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}}}
}

// ownedBy accepts objects that were made for this SubOperatorConfig.
func ownedBy(soc *v2beta2.SubOperatorConfig) apply.Ours {
	return func(live client.Object) bool {
		if live.GetObjectKind().GroupVersionKind().Kind == operatorsv1.OperatorGroupKind {
			return isSharedGroup(live)
		}
		return render.IDOf(live.GetLabels()) != collection.ID{} && live.GetAnnotations()[annotationOwner] == soc.Namespace+"/"+soc.Name
	}
}

func (r *SubOperatorConfigReconciler) ofCollection(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), func(soc *v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection == object.GetName()
	})
}

func (r *SubOperatorConfigReconciler) ofEndpoint(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, object.GetNamespace(), func(soc *v2beta2.SubOperatorConfig) bool {
		return slices.ContainsFunc(soc.Spec.Mapping, func(m v2beta2.NamespaceMapping) bool { return allows(m, object.GetName()) })
	})
}

// ofRival leads from a SubOperatorConfig to the others of its collection: it may have let go of a namespace.
func (r *SubOperatorConfigReconciler) ofRival(ctx context.Context, object client.Object) []reconcile.Request {
	key := render.IDOf(object.GetLabels())
	if key == (collection.ID{}) {
		return nil
	}
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return render.IDOf(soc.GetLabels()) == key && soc.UID != object.GetUID()
	})
}

// allows says whether a mapping lets its namespace use an endpoint.
func allows(mapping v2beta2.NamespaceMapping, endpoint string) bool {
	return mapping.ZosEndpoints == nil || slices.ContainsFunc(*mapping.ZosEndpoints, func(e v2beta2.EndpointMapping) bool {
		return e.Name == endpoint
	})
}

// ofSecret leads from a credential to those whose endpoints or dependencies use it, and from a Secret of an installation
// to its maker.
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

// ofNamespace leads from a namespace to those that map it from elsewhere: its consent may have changed.
func (r *SubOperatorConfigReconciler) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, "", func(soc *v2beta2.SubOperatorConfig) bool {
		return soc.Namespace != object.GetName() && mapsNamespace(soc, object.GetName())
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
