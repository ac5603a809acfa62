// Package operatorcollection imports the collection of an OperatorCollection, decides when each namespace gets a new version, and removes
// what was made when it is deleted.
package operatorcollection

import (
	"context"
	"errors"
	"slices"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/reserved"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Reconciler fetches, verifies and stores the archive of an OperatorCollection, waits for its CRDs,
// and makes its default SubOperatorConfig.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Metadata lists kinds without discovery, whose answers grow with the number of collections. SetupWithManager sets it.
	Metadata metadata.Interface
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Imports are what all OperatorCollections have imported.
	Imports *imports.Index
	// Definitions are the CRDs that were planned and written.
	Definitions *crdplan.WrittenDefinitions
	// Namespaces has those that the manager may use.
	Namespaces mapping.Selection
	// Source brings archives into the store.
	Source *intake.Source
	// Reserved says for whom domains are reserved.
	Reserved reserved.Domains
	// Budgets limit what is imported.
	Budgets *Budgets
	// Publications say which archives are in the catalog. They are nil if the manager serves none.
	Publications *imports.Publications

	// working limits reconciles. Source leaves it while it downloads.
	working *pace.NamespaceLimit
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	if free, err := r.working.Enter(ctx, req); err != nil || !free {
		return r.working.Postpones(), err
	}
	defer r.working.Leave(req.Namespace)
	oc := &v2beta2.OperatorCollection{}
	if err := r.Reader.Get(ctx, req.NamespacedName, oc); err != nil {
		if apierrors.IsNotFound(err) {
			r.Source.Forget(req.NamespacedName)
			r.Budgets.settle(req.NamespacedName, nil)
			err = r.Source.Pushes.Remove(req.Namespace, req.Name)
		}
		return ctrl.Result{}, err
	}
	if oc.DeletionTimestamp != nil {
		if known, err := r.knowsDeletion(ctx, oc); err != nil || !known || !controllerutil.ContainsFinalizer(oc, v2beta2.Finalizer) {
			return ctrl.Result{}, err
		}
		return r.status().patchStatus(ctx, oc, nil, (&collectionFinalizer{r.Client, r.Reader, r.Recorder, r.Collections}).finalize(ctx, oc))
	}
	if oc.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	scope, err := r.reconcileWithFallback(ctx, oc)
	defer func() { scope.Hold.Release() }()
	r.Budgets.settle(req.NamespacedName, err)
	err = errors.Join(err, r.acceptance().removeRefused(ctx, oc, scope, err), r.upgrades().planUpgrade(ctx, oc, scope))
	return r.status().patchStatus(ctx, oc, scope, err)
}

// knowsDeletion reports whether the cache has the deletion of an OperatorCollection: otherwise the CRD controller would record it on CRDs
// again. The cache triggers a reconcile when it has.
func (r *Reconciler) knowsDeletion(ctx context.Context, oc *v2beta2.OperatorCollection) (bool, error) {
	cached := &v2beta2.OperatorCollection{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(oc), cached)
	return cached.DeletionTimestamp != nil, client.IgnoreNotFound(err)
}

// reconcileWithFallback is reconcile. If an archive that was copied over the imported one is refused, it reports that with one event, and goes on
// without it.
func (r *Reconciler) reconcileWithFallback(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope, err := r.reconcile(ctx, oc)
	refused, isNews := r.Source.DecidePodCopy(oc, &scope.Archive, err)
	if refused == nil {
		return scope, err
	}
	if isNews {
		r.Recorder.Eventf(oc, nil, corev1.EventTypeWarning, refused.Reason, "Import", "%s", printable.Line(refused.Error(), status.MaxEventBytes))
	}
	if err := r.acceptance().removeRefused(ctx, oc, scope, refused); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "an archive that was refused stays in the store until it is cleaned")
	}
	scope.Hold.Release()
	return r.reconcile(ctx, oc)
}

func (r *Reconciler) reconcile(ctx context.Context, oc *v2beta2.OperatorCollection) (*importScope, error) {
	scope := &importScope{upload: intake.PushedDigest(oc)}
	if err := apply.AddFinalizer(ctx, r.Client, oc); err != nil {
		return scope, err
	}
	claims, acceptance, defaults := r.claims(), r.acceptance(), r.defaults()
	steps := []func(context.Context, *v2beta2.OperatorCollection, *importScope) error{
		r.checkNamespace,
		r.ensureArtifact,
		r.loadCollection,
		acceptance.checkNeeds,
		claims.checkOrder,
		claims.checkReserved,
		claims.checkClaim,
		claims.checkCRDs,
		r.upgrades().checkUpgrade,
		claims.checkReplaced,
		acceptance.acceptWithinBudgets,
		r.checkReplicas,
		acceptance.awaitCRDs,
		acceptance.awaitServed,
		awaitReplicas,
		defaults.ensureDefaultSubOperatorConfig,
		defaults.collectSubOperatorConfigs,
	}
	for _, step := range steps {
		if err := step(ctx, oc, scope); err != nil {
			return scope, err
		}
	}
	return scope, nil
}

func (r *Reconciler) claims() *claims {
	return &claims{r.Client, r.Reader, r.Collections, r.Imports, r.Definitions, r.Reserved}
}

func (r *Reconciler) upgrades() *upgrades {
	return &upgrades{r.Client, r.Reader, r.Collections, r.Namespaces}
}

func (r *Reconciler) acceptance() *acceptance {
	return &acceptance{r.Client, r.Reader, r.Metadata, r.Collections, r.Imports, r.Source, r.Budgets, r.status()}
}

func (r *Reconciler) defaults() *defaults { return &defaults{r.Client, r.Reader} }

func (r *Reconciler) status() *statusWriter {
	return &statusWriter{r.Client, r.Recorder, r.Source, r.Publications}
}

func (r *Reconciler) checkNamespace(_ context.Context, oc *v2beta2.OperatorCollection, _ *importScope) error {
	return r.Namespaces.Check(oc.Namespace)
}

func (r *Reconciler) ensureArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	return r.Source.EnsureArtifact(ctx, oc, &scope.Archive)
}

func (r *Reconciler) loadCollection(_ context.Context, _ *v2beta2.OperatorCollection, scope *importScope) error {
	c, err := r.Collections.Outline(digest.Digest(scope.Artifact.Digest))
	if err != nil {
		return imports.LoadFailure(err)
	}
	scope.collection = c
	return nil
}

func (r *Reconciler) checkReplicas(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	return scope.checkReplicas(ctx, oc, r.Collections.Peers)
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	var uploads <-chan event.GenericEvent
	r.working, uploads = r.Source.Setup()
	var err error
	if r.Metadata, err = metadata.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient()); err != nil {
		return err
	}
	b := ctrl.NewControllerManagedBy(mgr).
		WithEventFilter(pace.WithoutRelists).
		For(&v2beta2.OperatorCollection{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Watches(&v2beta2.OperatorCollection{}, handler.EnqueueRequestsFromMapFunc(r.ofDeleted), builder.WithPredicates(onlyDeletions)).
		Watches(&v2beta2.SubOperatorConfig{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSubOperatorConfig), builder.WithPredicates(installationChanged)).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(r.requestsForCRD), builder.WithPredicates(r.definitionServed())).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.requestsForSecret))
	b = b.WatchesRawSource(source.Channel(uploads, &handler.EnqueueRequestForObject{}))
	if r.Publications != nil {
		b = b.WatchesRawSource(source.Channel(r.Publications.Changed, &handler.EnqueueRequestForObject{}))
	}
	reconciler := pace.Paced(r)
	return b.WithOptions(reconciler.FairOptions(r.Source.Workers.Total+r.Source.Downloads.Total, r.working)).Complete(reconciler)
}

func (r *Reconciler) requestsForSubOperatorConfig(_ context.Context, object client.Object) []reconcile.Request {
	soc := object.(*v2beta2.SubOperatorConfig)
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}}}
}

func (r *Reconciler) requestsForCRD(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.MatchingFields{imports.IndexCollection: imports.LabelledID(object).String()})
}

func (r *Reconciler) requestsForSecret(ctx context.Context, object client.Object) []reconcile.Request {
	return pace.RequestsOf(ctx, r.Client, &v2beta2.OperatorCollectionList{}, client.InNamespace(object.GetNamespace()), client.MatchingFields{imports.IndexSecret: object.GetName()})
}

// ofDeleted maps an OperatorCollection that is gone to those that wait for what it has used.
func (r *Reconciler) ofDeleted(ctx context.Context, _ client.Object) []reconcile.Request {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list, client.DisableReadYourWritesConsistency); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		for _, condition := range list.Items[i].Status.Conditions {
			if condition.Type == v2beta2.ConditionReady && condition.Reason == v2beta2.ReasonBudgetExceeded {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
			}
		}
	}
	return requests
}

// onlyDeletions accepts the event that an object is gone.
var onlyDeletions = predicate.Funcs{
	CreateFunc:  func(event.CreateEvent) bool { return false },
	UpdateFunc:  func(event.UpdateEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

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
