package suboperatorconfig

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
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
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
)

// configMapper maps objects that SubOperatorConfigs depend on to these, by what the cache has: handlers of events do not wait for what was
// written a moment ago.
type configMapper struct{ client.Client }

// ofOwned maps an object to the SubOperatorConfig that it names, if that has it in its inventory: anybody can write labels and
// annotations.
func (r *configMapper) ofOwned(ctx context.Context, object client.Object) []reconcile.Request {
	owner, ok := install.OwnerOf(object)
	if !ok {
		return nil
	}
	soc := &v2beta2.SubOperatorConfig{}
	err := r.Get(ctx, owner, soc, client.DisableReadYourWritesConsistency)
	if apierrors.IsNotFound(err) {
		return nil
	}
	kind, kindErr := r.GroupVersionKindFor(object)
	if err := errors.Join(err, kindErr); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to find the owner of a changed object")
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

// ofConflicting maps a SubOperatorConfig to the others of its collection that map the same namespaces: it may have uninstalled from
// one. Namespaces that do not consent to it do not count.
func (r *configMapper) ofConflicting(ctx context.Context, object client.Object) []reconcile.Request {
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok {
		return nil
	}
	id, err := mapping.CollectionOf(ctx, r, soc, client.DisableReadYourWritesConsistency)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to find the owner of a changed object")
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

// afterGrant reconciles the SubOperatorConfigs that a function returns, after intervals.Grant, when a grant or its binding changes.
// Those that the manager finds when it starts are not changes.
func (r *configMapper) afterGrant(of handler.MapFunc) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	ask := func(ctx context.Context, object client.Object, q queue) {
		for _, request := range of(ctx, object) {
			q.AddAfter(request, intervals.Grant)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				ask(ctx, e.Object, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			ask(ctx, e.ObjectOld, q)
			ask(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { ask(ctx, e.Object, q) },
	}
}

// ofGrant maps a grant to the SubOperatorConfigs in the namespace that it is for, and one whose scope is not valid to all.
func (r *configMapper) ofGrant(ctx context.Context, object client.Object) []reconcile.Request {
	scope, err := grants.ParseScope(object.GetAnnotations())
	if err != nil {
		return r.requests(ctx)
	}
	return r.requests(ctx, client.InNamespace(scope.Namespace))
}

// ofNamespaced maps an object to the SubOperatorConfigs that map its namespace, or to all if it has none: a binding of a grant, or an
// OperatorGroup, with which OLM may be able to install there now.
func (r *configMapper) ofNamespaced(ctx context.Context, object client.Object) []reconcile.Request {
	if object.GetNamespace() == "" {
		return r.requests(ctx)
	}
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}

// spread reconciles all SubOperatorConfigs, each after a random part of a time that may depend on their number.
func (r *configMapper) spread(over func(number int) time.Duration) handler.EventHandler {
	return handler.Funcs{
		GenericFunc: func(ctx context.Context, _ event.GenericEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			requests := r.requests(ctx)
			for _, request := range requests {
				queue.AddAfter(request, rand.N(max(over(len(requests)), time.Nanosecond)))
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
		if err := c.Watch(source.Kind[client.Object](mgr.GetCache(), groups, handler.EnqueueRequestsFromMapFunc(r.ofNamespaced),
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

// ofSubscription maps a Subscription to the manager's catalog, including user-managed ones, to the SubOperatorConfigs that
// map its namespace.
func (r *configMapper) ofSubscription(ctx context.Context, object client.Object) []reconcile.Request {
	if requests := r.ofOwned(ctx, object); requests != nil || !olm.KeptWhole(object) {
		return requests
	}
	return r.requests(ctx, client.MatchingFields{imports.IndexNamespace: object.GetNamespace()})
}

// changedByOthers drops the events about objects that are as the manager has written them.
func changedByOthers(memory *install.Memory) predicate.Predicate {
	asWritten := func(object client.Object) bool {
		kind := object.GetObjectKind().GroupVersionKind().GroupKind()
		return memory.Applied.Has(kind, client.ObjectKeyFromObject(object), apply.LiveState(object, kind))
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
