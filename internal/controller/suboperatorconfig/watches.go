package suboperatorconfig

import (
	"context"
	"errors"
	"slices"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
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
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.memory, r.seen, r.waits = install.NewMemory(), newLastSeen(r.Client, r.Reader), newWaits()
	to := &configMapper{r.Client}
	owner := handler.EnqueueRequestsFromMapFunc(to.ofOwned)
	b := ctrl.NewControllerManagedBy(mgr).
		WithEventFilter(pace.WithoutRelists).
		For(&v2beta2.SubOperatorConfig{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(to.ofCollection)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(to.ofConflicting),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: imports.ConflictsChanged})).
		Watches(&v2beta2.ZosEndpoint{}, handler.EnqueueRequestsFromMapFunc(to.ofEndpoint),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: endpointChanged})).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(to.ofSecret), builder.WithPredicates(r.changedByOthers())).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(to.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesMetadata(&rbacv1.ClusterRole{}, to.whenGranted()).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRole"), to.afterGrant(to.ofGrant), pace.WithoutRelists)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRoleBinding"), to.afterGrant(to.ofBinding), pace.WithoutRelists)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("RoleBinding"), to.afterGrant(to.ofBinding), pace.WithoutRelists)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(to.ofOperator), builder.WithPredicates(predicate.Funcs{UpdateFunc: deploymentChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(to.ofPod), builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(to.ofDefinition), builder.WithPredicates(predicate.Funcs{UpdateFunc: definitionChanged}))
	for _, object := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &networkingv1.NetworkPolicy{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	} {
		b = b.WatchesMetadata(object, owner, builder.WithPredicates(r.changedByOthers()))
	}
	if r.Authorities != nil {
		b = b.WatchesRawSource(source.Channel(r.Authorities.Changes, to.whenAuthoritiesChange(r.Authorities.Spread)))
	}
	if r.Trusted != nil {
		b = b.WatchesRawSource(source.Channel(r.Trusted.Changes, to.whenTrustChanges()))
	}
	reconciler := pace.PacedWithin(r, r.Workers)
	c, err := b.WithOptions(reconciler.FairOptions(r.Workers.Total, reconciler.Running)).Build(reconciler)
	if err != nil {
		return err
	}
	to.watchOLM(mgr, r.OLM, c)
	return nil
}

// configMapper maps objects that SubOperatorConfigs depend on to these, by what the cache has.
type configMapper struct{ client.Client }

// ofOwned maps an object to the SubOperatorConfig that it names, if that has it in its inventory: anybody can write labels and
// annotations.
func (r *configMapper) ofOwned(ctx context.Context, object client.Object) []reconcile.Request {
	owner, ok := install.OwnerOf(object)
	if !ok {
		return nil
	}
	soc := &v2beta2.SubOperatorConfig{}
	err := r.Get(ctx, owner, soc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	kind, kindErr := r.GroupVersionKindFor(object)
	if err := errors.Join(err, kindErr); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot find out whom a change concerns")
		return nil
	}
	if !install.Contains(soc, kind.GroupKind(), client.ObjectKeyFromObject(object)) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: owner}}
}

func (r *configMapper) ofCollection(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(object.GetNamespace()), client.MatchingFields{imports.IndexOperatorCollection: object.GetName()})
}

// ofEndpoint maps a ZosEndpoint to all SubOperatorConfigs of its namespace: by default they use all endpoints.
func (r *configMapper) ofEndpoint(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.InNamespace(object.GetNamespace()))
}

// endpointChanged reports whether something of a ZosEndpoint has changed that installations depend on.
func endpointChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*v2beta2.ZosEndpoint)
	after, isOther := e.ObjectNew.(*v2beta2.ZosEndpoint)
	if !isOne || !isOther {
		return true
	}
	ready := func(o *v2beta2.ZosEndpoint) bool {
		return meta.IsStatusConditionTrue(o.Status.Conditions, v2beta2.ConditionReady)
	}
	return before.UID != after.UID || before.Generation != after.Generation ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Status.PinnedFor != after.Status.PinnedFor || !slices.Equal(before.Status.HostKeys, after.Status.HostKeys) ||
		!equality.Semantic.DeepEqual(before.Status.Abandoned, after.Status.Abandoned) || ready(before) != ready(after)
}

// ofConflicting maps a SubOperatorConfig to the others of its collection that map the same namespaces: it may have uninstalled from
// one. Namespaces that do not consent to it do not count.
func (r *configMapper) ofConflicting(ctx context.Context, object client.Object) []reconcile.Request {
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok {
		return nil
	}
	id, err := mapping.CollectionOf(ctx, r, soc)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "cannot find out whom a change concerns")
	}
	if id == (model.ID{}) {
		return nil
	}
	namespaces := install.Namespaces(soc)
	for _, m := range soc.Spec.Mapping {
		if mapping.Consent(ctx, r, soc.Namespace, m.Namespace) == nil {
			namespaces = append(namespaces, m.Namespace)
		}
	}
	var requests []reconcile.Request
	for _, namespace := range namespaces {
		requests = append(requests, r.requests(ctx, client.MatchingLabels(render.IdentityLabels(id)), client.MatchingFields{imports.IndexNamespace: namespace})...)
	}
	return slices.DeleteFunc(requests, func(request reconcile.Request) bool {
		return request.NamespacedName == client.ObjectKeyFromObject(object)
	})
}

// ofSecret maps a credential to the SubOperatorConfigs whose mappings, endpoints or dependencies use it, and a Secret of an
// installation to its owner.
func (r *configMapper) ofSecret(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := r.ofOwned(ctx, object); requests != nil {
		return requests
	}
	in, named := client.InNamespace(object.GetNamespace()), client.MatchingFields{imports.IndexSecret: object.GetName()}
	if len(pace.RequestsOf(ctx, r, &v2beta2.ZosEndpointList{}, in, named)) > 0 {
		return r.requests(ctx, in)
	}
	requests := r.requests(ctx, in, named)
	for _, oc := range pace.RequestsOf(ctx, r, &v2beta2.OperatorCollectionList{}, in, named) {
		requests = append(requests, r.requests(ctx, in, client.MatchingFields{imports.IndexOperatorCollection: oc.Name})...)
	}
	return requests
}

// ofNamespace maps a namespace to the SubOperatorConfigs that map it: its consent may have changed.
func (r *configMapper) ofNamespace(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetName()})
}

func (r *configMapper) requests(ctx context.Context, of ...client.ListOption) []reconcile.Request {
	return pace.RequestsOf(ctx, r, &v2beta2.SubOperatorConfigList{}, of...)
}

// whenGranted reconciles all SubOperatorConfigs, after intervals.Grant, when the grants for all collections have changed.
func (r *configMapper) whenGranted() handler.EventHandler {
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			if e.ObjectNew.GetName() != grants.ClusterRole {
				return
			}
			for _, request := range r.requests(ctx) {
				queue.AddAfter(request, intervals.Grant)
			}
		},
	}
}

// watchOLM reconciles SubOperatorConfigs when their objects in OLM change, and all of them when OLM becomes available. Of
// ClusterServiceVersions and OperatorGroups only the metadata is cached. InstallPlans are read when a Subscription changes.
func (r *configMapper) watchOLM(mgr ctrl.Manager, cluster *olm.Cluster, c controller.Controller) {
	csv := &metav1.PartialObjectMetadata{}
	csv.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.ClusterServiceVersionKind))
	cluster.OnAvailable(func(context.Context) error {
		for object, mapTo := range map[client.Object]handler.MapFunc{&operatorsv1alpha1.Subscription{}: r.ofSubscription, csv: r.ofOperator} {
			if err := c.Watch(source.Kind(mgr.GetCache(), object, handler.EnqueueRequestsFromMapFunc(mapTo))); err != nil {
				return err
			}
		}
		groups := &metav1.PartialObjectMetadata{}
		groups.SetGroupVersionKind(operatorsv1.GroupVersion.WithKind(operatorsv1.OperatorGroupKind))
		if err := c.Watch(source.Kind[client.Object](mgr.GetCache(), groups, handler.EnqueueRequestsFromMapFunc(r.ofOperatorGroup),
			predicate.GenerationChangedPredicate{})); err != nil {
			return err
		}
		return c.Watch(source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			for _, request := range r.requests(ctx) {
				queue.Add(request)
			}
			return nil
		}))
	})
}

// ofOperatorGroup maps an OperatorGroup to the SubOperatorConfigs that map its namespace: OLM may be able to install there now.
func (r *configMapper) ofOperatorGroup(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}

// ofSubscription maps a Subscription to the manager's catalog, including user-managed ones, to the SubOperatorConfigs that
// map its namespace.
func (r *configMapper) ofSubscription(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := r.ofOwned(ctx, object); requests != nil || !olm.KeptWhole(object) {
		return requests
	}
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}
