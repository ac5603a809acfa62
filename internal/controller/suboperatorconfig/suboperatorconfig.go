// Package suboperatorconfig installs the operator of a collection in the namespaces that a SubOperatorConfig maps, and removes it.
package suboperatorconfig

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Reconciler installs the operator of a collection in each namespace that a SubOperatorConfig maps.
type Reconciler struct {
	// Client reads through the cache and writes.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Cache is the manager's: see package controller/cache. Client does not read metadata of Secrets from it.
	Cache client.Reader
	// Recorder records events.
	Recorder events.EventRecorder
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Settings hold for collections whose OperatorCollection or SubOperatorConfig does not say otherwise.
	Settings render.Settings
	// CredentialKey is the key of the hashes that identify credentials.
	CredentialKey endpoint.Key
	// Namespaces has those that the manager may use.
	Namespaces mapping.Selection
	// Workers limits concurrent reconciles.
	Workers budget.Limits
	// OLM is nil if the manager was started without a catalog.
	OLM *olm.Cluster
	// Grants decide which permissions operators may have.
	Grants *grants.Source
	// Authorities are those that pods trust for the download of archives. It is nil if archives are served without TLS.
	Authorities *trustedauthorities.Authorities
	// Trusted are the authorities that an administrator trusts. Nil means none.
	Trusted *trustedauthorities.TrustedAuthorities

	// memory has what was seen of installations, and waits of what SubOperatorConfigs wait for.
	memory *install.Memory
	waits  *waits
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	soc, o := &v2beta2.SubOperatorConfig{}, &outcome{}
	if err := r.Client.Get(ctx, req.NamespacedName, soc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	o.before = slices.Clone(soc.Status.Conditions)
	var err error
	switch {
	case soc.DeletionTimestamp == nil && !r.Authorities.Known():
		return ctrl.Result{RequeueAfter: time.Second}, nil
	case soc.DeletionTimestamp == nil:
		err = r.reconcile(ctx, soc, o)
	case controllerutil.ContainsFinalizer(soc, v2beta2.Finalizer):
		err = r.finalize(ctx, soc, o)
	default:
		return ctrl.Result{}, nil
	}
	reporter := &reporter{client: r.Client, reader: r.Reader, recorder: r.Recorder, waits: r.waits}
	return reporter.write(ctx, soc, o, err)
}

// reconcile installs the operator in the mapped namespaces, and removes it from others.
func (r *Reconciler) reconcile(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	if err := r.Namespaces.Check(soc.Namespace); err != nil {
		return err
	}
	if err := apply.AddFinalizer(ctx, r.Client, soc); err != nil {
		return err
	}
	if err := (&defaultReleaser{client: r.Client, reader: r.Reader, recorder: r.Recorder}).release(ctx, soc); err != nil {
		return err
	}
	if err := r.adjustInstalled(ctx, soc, o); err != nil {
		return err
	}
	oc, err := r.findCollection(ctx, soc, o)
	if err != nil || o.suspended {
		return err
	}
	collections := r.collections()
	if o.imported, err = collections.load(oc); err != nil {
		return err
	}
	if err := r.uninstallReplaced(ctx, soc, o); err != nil {
		return err
	}
	if err := collections.awaitCRDs(ctx, o.imported); err != nil {
		return err
	}
	if err := collections.addLabels(ctx, soc, o.imported.collection); err != nil {
		return err
	}
	if err := r.resolveConflicts(ctx, soc, o); err != nil {
		return err
	}
	o.holds = collections.decideHolds(ctx, soc, o.imported, o.mappings)
	return r.install(ctx, soc, o)
}

// finalize removes the operator, after the OperatorCollection if that needs it for its own deletion.
func (r *Reconciler) finalize(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	// The operator may have to start again to run deletion playbooks.
	if err := r.adjustInstalled(ctx, soc, o); err != nil {
		return err
	}
	remover := r.remover()
	kept, err := remover.awaitCollection(ctx, soc, o.mappings)
	o.results = append(o.results, kept...)
	if err != nil {
		return err
	}
	uninstall, err := remover.chooseUninstaller(ctx, soc)
	if err != nil {
		return err
	}
	if o.results, err = uninstallEverywhere(ctx, soc, uninstall); err != nil {
		return err
	}
	return apply.RemoveFinalizer(ctx, r.Client, soc)
}

// adjustInstalled makes installed operators follow a changed mapping and changed certificate authorities. It does not depend on the
// OperatorCollection.
func (r *Reconciler) adjustInstalled(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	if err := r.resolveNamespaces(ctx, soc, o); err != nil {
		return err
	}
	remover := r.remover()
	var err error
	if o.owned, err = remover.removeOwners(ctx, soc); err != nil {
		return err
	}
	if o.owned != nil {
		o.problems = append(o.problems, o.owned)
	}
	removed, err := remover.uninstallUnmapped(ctx, soc, o.mappings)
	o.results = append(o.results, removed...)
	if err != nil || r.Authorities == nil {
		return err
	}
	authorities := &authorityUpdater{client: r.Client, reader: r.Reader, installer: r.installer(), bundle: r.Authorities.Bundle()}
	refused, err := authorities.update(ctx, soc, o.mappings)
	o.problems = append(o.problems, refused...)
	return err
}

// resolveNamespaces determines the mapped namespaces. A namespace without consent does not affect the others.
func (r *Reconciler) resolveNamespaces(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	agreed, refused, err := r.resolver().Namespaces(ctx, soc)
	if err != nil {
		return err
	}
	o.mappings, o.problems = agreed, refused
	if install.RecordedCollection(soc) == (model.ID{}) {
		return nil
	}
	return r.withoutConflicts(ctx, soc, o, install.RecordedCollection(soc))
}

// withoutConflicts leaves the namespaces to other SubOperatorConfigs that have a collection there.
func (r *Reconciler) withoutConflicts(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome, id model.ID) error {
	free, conflicts, err := r.resolver().WithoutConflicts(ctx, soc, id, o.mappings)
	o.mappings, o.problems = free, append(o.problems, conflicts...)
	return err
}

// findCollection finds the OperatorCollection. While that is being deleted, the operator is kept for it.
func (r *Reconciler) findCollection(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) (*v2beta2.OperatorCollection, error) {
	remover := r.remover()
	oc, err := r.collections().get(ctx, soc)
	if apierrors.IsNotFound(err) {
		return nil, remover.followCollection(ctx, soc, err)
	}
	if err != nil {
		return nil, fmt.Errorf("reading OperatorCollection %q: %w", soc.Spec.OperatorCollection, err)
	}
	if oc.Status.Artifact != nil {
		o.served = oc.UID
	}
	if oc.DeletionTimestamp != nil {
		kept, err := remover.keep(ctx, soc, o.mappings)
		o.results = append(o.results, kept...)
		if err != nil {
			return nil, err
		}
		return nil, status.Waiting(v2beta2.ReasonCollectionTerminating, status.Watched, "OperatorCollection %q is being deleted", oc.Name)
	}
	o.suspended = oc.Spec.Suspend
	return oc, nil
}

// uninstallReplaced removes the operators of a collection that the OperatorCollection's present one replaces. The CRDs pass after that,
// so that no two operators ever serve a kind.
func (r *Reconciler) uninstallReplaced(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	c := o.imported.collection
	if soc.Status.Collection == nil || c.Replaces == (model.ID{}) || install.RecordedCollection(soc) != c.Replaces {
		return nil
	}
	if err := r.uninstallFormer(ctx, soc, o, r.remover().handOver); err != nil {
		return err
	}
	// The change of labels triggers a reconcile of the CRDs, which can pass now.
	return r.collections().addLabels(ctx, soc, c)
}

// resolveConflicts determines which namespaces belong to other SubOperatorConfigs, if the collection was not known before.
// If the OperatorCollection now contains another collection, the former one is uninstalled first.
func (r *Reconciler) resolveConflicts(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	id := o.imported.collection.ID()
	switch {
	case soc.Status.Collection == nil:
	case install.RecordedCollection(soc) == id:
		return nil
	default:
		if err := r.uninstallFormer(ctx, soc, o, r.remover().uninstall); err != nil {
			return err
		}
	}
	return r.withoutConflicts(ctx, soc, o, id)
}

// uninstallFormer removes the operators of the collection that the OperatorCollection had before.
func (r *Reconciler) uninstallFormer(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome, uninstall uninstaller) error {
	var err error
	if o.results, err = uninstallEverywhere(ctx, soc, uninstall); err != nil {
		return err
	}
	before := soc.DeepCopy()
	soc.Status.Collection, o.results = nil, nil
	if err := status.Patch(ctx, r.Client, soc, before); err != nil {
		return err
	}
	return r.resolveNamespaces(ctx, soc, o)
}

// install installs in each mapped namespace the version that it gets.
func (r *Reconciler) install(ctx context.Context, soc *v2beta2.SubOperatorConfig, o *outcome) error {
	planner := &planner{collections: r.collections(), resolver: r.resolver(), olm: r.OLM, settings: r.Settings}
	installations, failed, problems := planner.plan(ctx, soc, o.imported, o.mappings, o.holds)
	o.results, o.problems = append(o.results, failed...), append(o.problems, problems...)
	for _, result := range r.installer().Reconcile(ctx, installations) {
		if err := planner.reportAbandoned(ctx, soc, o.imported, &result); err != nil {
			return err
		}
		o.results = append(o.results, result)
	}
	return nil
}

// installer has the settings and the authorities of now.
func (r *Reconciler) installer() *install.Installer {
	settings, known := r.Settings, r.Trusted.Known()
	settings.ArtifactAuthorities, settings.TrustedAuthorities = r.Authorities.PEM(), r.Trusted.PEM()
	return &install.Installer{
		Client: r.Client, Reader: r.Reader, Cache: r.Cache, Memory: r.memory, Recorder: r.Recorder, Settings: settings, Grants: r.Grants,
		KeepTrusted: !known,
		OLM:         &olm.Remover{Client: r.Client, Reader: r.Reader, Cluster: r.OLM},
	}
}

func (r *Reconciler) resolver() *mapping.Resolver {
	return &mapping.Resolver{Client: r.Client, Reader: r.Reader, CredentialKey: r.CredentialKey, Selection: r.Namespaces}
}

func (r *Reconciler) remover() *remover {
	return &remover{client: r.Client, reader: r.Reader, recorder: r.Recorder, selection: r.Namespaces, installer: r.installer()}
}

func (r *Reconciler) collections() *collections {
	return &collections{client: r.Client, reader: r.Reader, archives: r.Collections}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	r.memory, r.waits = install.NewMemory(), newWaits()
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
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(to.ofSecret), builder.WithPredicates(changedByOthers(r.memory))).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(to.ofNamespace),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		WatchesMetadata(&rbacv1.ClusterRole{}, to.whenGranted()).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRole"), to.afterGrant(to.ofGrant), pace.WithoutRelists)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("ClusterRoleBinding"), to.afterGrant(to.ofNamespaced), pace.WithoutRelists)).
		WatchesRawSource(source.TypedKind(r.Grants.Cache, grants.MetadataOf("RoleBinding"), to.afterGrant(to.ofNamespaced), pace.WithoutRelists)).
		Watches(&appsv1.Deployment{}, handler.EnqueueRequestsFromMapFunc(to.ofOperator), builder.WithPredicates(predicate.Funcs{UpdateFunc: deploymentChanged})).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(to.ofPod), builder.WithPredicates(predicate.Funcs{UpdateFunc: podChanged})).
		Watches(&apiextensionsv1.CustomResourceDefinition{}, handler.EnqueueRequestsFromMapFunc(to.ofDefinition), builder.WithPredicates(predicate.Funcs{UpdateFunc: definitionChanged}))
	for _, object := range []client.Object{
		&corev1.ServiceAccount{}, &corev1.ConfigMap{}, &networkingv1.NetworkPolicy{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{},
	} {
		b = b.WatchesMetadata(object, owner, builder.WithPredicates(changedByOthers(r.memory)))
	}
	if r.Authorities != nil {
		b = b.WatchesRawSource(source.Channel(r.Authorities.Changes, to.spread(func(int) time.Duration { return r.Authorities.Spread })))
	}
	if r.Trusted != nil {
		b = b.WatchesRawSource(source.Channel(r.Trusted.Changes, to.spread(func(number int) time.Duration {
			return time.Duration(number) * trustedauthorities.TrustDelay
		})))
	}
	reconciler := pace.PacedWithin(r, r.Workers)
	c, err := b.WithOptions(reconciler.FairOptions(r.Workers.Total, reconciler.Running)).Build(reconciler)
	if err != nil {
		return err
	}
	to.watchOLM(mgr, r.OLM, c)
	return nil
}
