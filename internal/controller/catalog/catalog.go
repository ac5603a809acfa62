// Package catalog makes the catalog from which OperatorHub shows all imported collections, whenever one of them changes.
package catalog

import (
	"context"
	"slices"
	"time"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

const (
	// archiveTimeout limits how long the first catalog waits for archives that have to be fetched again.
	archiveTimeout = time.Minute

	// pausePerPackage and maxPause limit how often the catalog is made. The pause after a change is longer, since OLM reads all of
	// the catalog again.
	pausePerPackage  = time.Millisecond
	maxPause         = time.Second
	pauseAfterChange = 5
)

// Reconciler keeps the catalog from which the Operator Lifecycle Manager (OLM) installs collections: all that
// OperatorCollections have imported and SubOperatorConfigs still run, as far as their permissions are granted. Why a
// collection is not in the catalog is reported in the status of its OperatorCollection, and does not affect others.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Settings are those of all installations.
	Settings render.Settings
	// Grants decide which permissions operators may have.
	Grants *grants.Source
	// OLM is nil if the manager does not use it: then there is no catalog.
	OLM *olm.Cluster
	// Server serves the catalog.
	Server *catalog.Server
	// Publications take the result for each OperatorCollection. Only the leader sets them.
	Publications *imports.Publications
	// Elected is closed when this manager becomes the leader. The others serve the same catalog, and write nothing.
	Elected <-chan struct{}

	builder  catalog.Builder
	renderer *renderer
	// made is the time at which the last catalog was made, and pause the time that has to pass before the next one.
	made  time.Time
	pause time.Duration

	// began is the time of the first attempt to make a catalog.
	began time.Time
	// served says that there is one.
	served bool
}

// catalogRequest asks for the catalog to be made. There is one catalog.
type catalogRequest struct{}

// Reconcile makes the catalog.
func (r *Reconciler) Reconcile(ctx context.Context, _ catalogRequest) (ctrl.Result, error) {
	if !r.OLM.Checked() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	if wait := r.pause - time.Since(r.made); wait > 0 {
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	candidates, err := findCandidates(ctx, r.Client, r.Collections.Key)
	if err != nil {
		return status.Result(err)
	}
	if !r.OLM.Available() {
		candidates.refuseAll(status.Waiting(v2beta2.ReasonOLMUnavailable, intervals.OLM, "%w", r.OLM.Err()))
		if r.leads() {
			r.Publications.Set(ctx, candidates.publications())
		}
		return ctrl.Result{RequeueAfter: intervals.OLM}, nil
	}
	if r.renderer == nil {
		r.renderer = &renderer{collections: r.Collections, settings: r.Settings}
	}
	if err := candidates.makeBundles(ctx, r.Client, r.Grants, r.renderer); err != nil {
		return status.Result(err)
	}
	if r.awaitsArchives(candidates) {
		return ctrl.Result{RequeueAfter: intervals.Poll}, nil
	}
	digest := r.serve(ctx, candidates)
	if r.leads() {
		if err := r.publish(ctx, candidates, digest); err != nil {
			return status.Result(err)
		}
	}
	return ctrl.Result{RequeueAfter: candidates.retryAfter()}, nil
}

func (r *Reconciler) leads() bool {
	select {
	case <-r.Elected:
		return true
	default:
		return false
	}
}

// publish tells OLM and the OperatorCollections what the catalog has.
func (r *Reconciler) publish(ctx context.Context, candidates candidates, digest string) error {
	err := r.applyCatalogSource(ctx, digest)
	if err != nil {
		candidates.refuseAll(err)
	}
	r.Publications.Set(ctx, candidates.publications())
	return err
}

// awaitsArchives says whether the first catalog has to wait: it would lack what is installed, because the manager lost its
// archives with its last pod.
func (r *Reconciler) awaitsArchives(candidates candidates) bool {
	if r.began.IsZero() {
		r.began = time.Now()
	}
	return !r.served && candidates.lackArchives() && time.Since(r.began) < archiveTimeout
}

// serve makes the catalog and serves it to OLM.
func (r *Reconciler) serve(ctx context.Context, candidates candidates) (digest string) {
	content, refusals := r.builder.Build(candidates.versions())
	candidates.refuse(refusals)
	r.served, r.made, r.pause = true, time.Now(), min(time.Duration(content.Packages())*pausePerPackage, maxPause)
	if r.Server.Set(content) {
		ctrl.LoggerFrom(ctx).Info("the catalog has changed", "packages", content.Packages(), "digest", content.Digest())
		r.pause *= pauseAfterChange
	}
	return content.Digest()
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.OLM == nil {
		return nil
	}
	request := handler.TypedEnqueueRequestsFromMapFunc(func(context.Context, client.Object) []catalogRequest {
		return []catalogRequest{{}}
	})
	options := pace.TypedOptions[catalogRequest](1)
	options.NeedLeaderElection = ptr.To(false)
	c, err := builder.TypedControllerManagedBy[catalogRequest](mgr).
		Named("catalog").
		Watches(&v2beta2.OperatorCollection{}, request, builder.WithPredicates(changes(importOf))).
		Watches(&v2beta2.SubOperatorConfig{}, request, builder.WithPredicates(predicate.Funcs{UpdateFunc: installsOthers})).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, request, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&rbacv1.ClusterRole{}, afterGrants(isAggregated)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRole"), afterGrants(nil), pace.WithoutRelists)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRoleBinding"), afterGrants(nil), pace.WithoutRelists)).
		WatchesRawSource(source.TypedFunc[catalogRequest](r.afterElection)).
		WithOptions(options).
		Build(r)
	if err != nil {
		return err
	}
	r.OLM.OnAvailable(func(context.Context) error {
		sources := &metav1.PartialObjectMetadata{}
		sources.SetGroupVersionKind(operatorsv1alpha1.SchemeGroupVersion.WithKind(operatorsv1alpha1.CatalogSourceKind))
		if err := c.Watch(source.TypedKind[client.Object](mgr.GetCache(), sources, request)); err != nil {
			return err
		}
		return c.Watch(source.TypedFunc[catalogRequest](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[catalogRequest]) error {
			queue.Add(catalogRequest{})
			return nil
		}))
	})
	return nil
}

// isAggregated accepts the ClusterRole with the grants for all collections.
func isAggregated(object client.Object) bool { return object.GetName() == grants.ClusterRole }

// afterGrants asks for the catalog, after intervals.Grant, when one of the objects that a function accepts has changed. Nil accepts
// all objects. Those that the manager finds when it starts are not changes.
func afterGrants(accepts func(client.Object) bool) handler.TypedEventHandler[client.Object, catalogRequest] {
	type queue = workqueue.TypedRateLimitingInterface[catalogRequest]
	ask := func(object client.Object, queue queue) {
		if accepts == nil || accepts(object) {
			queue.AddAfter(catalogRequest{}, intervals.Grant)
		}
	}
	return handler.TypedFuncs[client.Object, catalogRequest]{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if !e.IsInInitialList {
				ask(e.Object, q)
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { ask(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { ask(e.Object, q) },
	}
}

// afterElection makes the catalog again when this manager becomes the leader, which publishes it.
func (r *Reconciler) afterElection(ctx context.Context, queue workqueue.TypedRateLimitingInterface[catalogRequest]) error {
	go func() {
		select {
		case <-ctx.Done():
		case <-r.Elected:
			queue.Add(catalogRequest{})
		}
	}()
	return nil
}

// imported is what the catalog depends on of an OperatorCollection.
type imported struct {
	digest, group string
	ready         bool
}

func importOf(object client.Object) imported {
	oc := object.(*v2beta2.OperatorCollection)
	if oc.Status.Artifact == nil {
		return imported{}
	}
	return imported{digest: oc.Status.Artifact.Digest, group: string(oc.Spec.APIGroup), ready: imports.IsPublishable(oc)}
}

// changes accepts updates that change a value of the object.
func changes[value comparable](of func(client.Object) value) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return of(e.ObjectOld) != of(e.ObjectNew) }}
}

func installsOthers(e event.UpdateEvent) bool {
	return !slices.Equal(imports.InstalledDigests(e.ObjectOld.(*v2beta2.SubOperatorConfig)), imports.InstalledDigests(e.ObjectNew.(*v2beta2.SubOperatorConfig)))
}

var _ reconcile.TypedReconciler[catalogRequest] = &Reconciler{}

// annotationCatalog, on the CatalogSource, has the digest of the catalog's content. OLM reads a CatalogSource again when it
// changes.
const annotationCatalog = "zoscb.ibm.com/catalog-digest"

// applyCatalogSource keeps the CatalogSource, by which OLM finds the catalog.
func (r *Reconciler) applyCatalogSource(ctx context.Context, digest string) error {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	_, err := applier.Apply(ctx, []client.Object{r.catalogSource(digest)}, func(live client.Object) bool {
		return live.GetLabels()[render.LabelManagedBy] == render.ManagedBy
	})
	return install.ApplyError(err)
}

// catalogSource has no update strategy: OLM polls images, not addresses.
func (r *Reconciler) catalogSource(digest string) *operatorsv1alpha1.CatalogSource {
	name := r.OLM.CatalogSource()
	return &operatorsv1alpha1.CatalogSource{
		TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.CatalogSourceKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels:      map[string]string{render.LabelManagedBy: render.ManagedBy},
			Annotations: map[string]string{annotationCatalog: digest},
		},
		Spec: operatorsv1alpha1.CatalogSourceSpec{
			SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: r.OLM.CatalogAddress,
			DisplayName: "Collection Operator", Publisher: "Collection Operator",
			Description: "Operators of the Ansible Operator Collections that this cluster's OperatorCollections have imported.",
			Icon:        render.DefaultIcon(),
		},
	}
}
