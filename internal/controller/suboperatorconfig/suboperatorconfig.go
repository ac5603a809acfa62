// Package suboperatorconfig installs the operator of a collection in the namespaces that a SubOperatorConfig maps, and removes it.
package suboperatorconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
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

	// memory has what was seen of installations, seen of SubOperatorConfigs and OperatorCollections, and waits of what they wait for.
	memory *install.Memory
	seen   *lastSeen
	waits  *waits
}

// configScope is shared by the steps of one reconciliation.
type configScope struct {
	soc *v2beta2.SubOperatorConfig
	// oc is the OperatorCollection that soc names.
	oc *v2beta2.OperatorCollection
	// served is the UID of the OperatorCollection if it is imported, also if it is suspended.
	served types.UID
	// suspended is true if oc is suspended: operators are only uninstalled.
	suspended bool
	// collection is loaded from oc's archive.
	collection *model.Collection
	// mappings of the spec that may be installed.
	mappings []v2beta2.NamespaceMapping
	// holds are the reasons why namespaces keep the version that they have.
	holds map[string]error
	// results of the installations, including those that are being removed.
	results []install.Result
	// problems of single namespaces or endpoints, which do not affect the others.
	problems []error
	// owned is why objects still have owner references of an earlier version. It is one of problems.
	owned error
	// foreseen has the conditions from before a status was written that foresees the results, if it was, and former the version and digest.
	foreseen *[]metav1.Condition
	former   struct{ version, digest string }
}

// Reconcile implements [reconcile.Reconciler].
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &configScope{soc: &v2beta2.SubOperatorConfig{}}
	if err := r.seen.get(ctx, "", req.NamespacedName, s.soc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if s.soc.DeletionTimestamp == nil && !r.Authorities.Known() {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}
	steps := []func(context.Context, *configScope) error{
		r.checkNamespace,
		r.ensureFinalizer,
		r.releaseDefault,
		r.resolveNamespaces,
		r.removeOwners,
		r.uninstallUnmapped,
		r.updateAuthorities,
		r.findCollection,
		r.loadCollection,
		r.uninstallReplaced,
		r.awaitCRDs,
		r.resolveConflicts,
		r.decideHolds,
		r.beginUpgrade,
		r.install,
	}
	if s.soc.DeletionTimestamp != nil {
		if !controllerutil.ContainsFinalizer(s.soc, v2beta2.Finalizer) {
			return ctrl.Result{}, nil
		}
		steps = []func(context.Context, *configScope) error{
			r.resolveNamespaces,
			r.removeOwners,
			r.uninstallUnmapped,
			r.updateAuthorities, // The operator may have to start again to run deletion playbooks.
			r.awaitCollection,
			r.uninstallAll,
			r.removeFinalizer,
		}
	}
	var err error
	for _, step := range steps {
		if err = step(ctx, s); err != nil || s.suspended {
			break
		}
	}
	result, err := r.writeStatus(ctx, s, err)
	r.seen.remember("", s.soc)
	return result, err
}

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

func (r *Reconciler) checkNamespace(_ context.Context, s *configScope) error {
	return r.Namespaces.Check(s.soc.Namespace)
}

func (r *Reconciler) ensureFinalizer(ctx context.Context, s *configScope) error {
	return apply.AddFinalizer(ctx, r.Client, s.soc)
}

// resolveNamespaces determines the mapped namespaces. A namespace without consent does not affect the others.
func (r *Reconciler) resolveNamespaces(ctx context.Context, s *configScope) error {
	agreed, refused, err := r.resolver().Namespaces(ctx, s.soc)
	if err != nil {
		return err
	}
	s.mappings, s.problems = agreed, refused
	if install.RecordedCollection(s.soc) == (model.ID{}) {
		return nil
	}
	return r.withoutConflicts(ctx, s, install.RecordedCollection(s.soc))
}

func (r *Reconciler) withoutConflicts(ctx context.Context, s *configScope, id model.ID) error {
	free, conflicts, err := r.resolver().WithoutConflicts(ctx, s.soc, id, s.mappings)
	s.mappings, s.problems = free, append(s.problems, conflicts...)
	return err
}

// uninstallUnmapped removes the operator from namespaces that are not mapped any more or have withdrawn their consent. It
// runs first and needs nothing but status and inventory, so that no other failure can prevent it.
func (r *Reconciler) uninstallUnmapped(ctx context.Context, s *configScope) error {
	for _, namespace := range install.Namespaces(s.soc) {
		if mapping.Contains(s.mappings, namespace) || mapping.Maps(s.soc, namespace) && r.Namespaces.Check(namespace) != nil {
			continue
		}
		terminating := false
		if namespace != "" { // A forged inventory may list cluster-scoped objects of nobody.
			var err error
			if terminating, err = instances.IsTerminating(ctx, r.Reader, namespace); err != nil {
				return err
			}
		}
		if !terminating { // Otherwise the operator is deleted with its namespace.
			s.results = append(s.results, r.uninstall(ctx, s.soc, namespace))
		}
	}
	return nil
}

// uninstall removes the operator from one namespace. What is in a namespace that the manager may not use remains, also if an
// administrator has left it out by mistake.
func (r *Reconciler) uninstall(ctx context.Context, soc *v2beta2.SubOperatorConfig, namespace string) install.Result {
	if err := r.Namespaces.Check(namespace); namespace != "" && err != nil {
		return install.Result{Namespace: namespace, Status: install.Recorded(soc, namespace), Err: err}
	}
	return r.installer().Uninstall(ctx, soc, namespace)
}

func (r *Reconciler) findCollection(ctx context.Context, s *configScope) error {
	oc, read := &v2beta2.OperatorCollection{}, r.seen.get
	if !meta.IsStatusConditionTrue(s.soc.Status.Conditions, v2beta2.ConditionReady) {
		read = r.seen.getLive // What it has imported decides whether the SubOperatorConfig becomes Ready.
	}
	err := read(ctx, s.soc.UID, types.NamespacedName{Namespace: s.soc.Namespace, Name: s.soc.Spec.OperatorCollection}, oc)
	if apierrors.IsNotFound(err) {
		return r.followCollection(ctx, s, err)
	}
	if err != nil {
		return fmt.Errorf("reading OperatorCollection %q: %w", s.soc.Spec.OperatorCollection, err)
	}
	if oc.Status.Artifact != nil {
		s.served = oc.UID
	}
	if oc.DeletionTimestamp != nil {
		kept, err := r.keptNamespaces(ctx, s)
		if err != nil {
			return err
		}
		_ = r.observeKept(ctx, s, kept) // It is in the results.
		return status.Waiting(v2beta2.ReasonCollectionTerminating, status.Watched, "OperatorCollection %q is being deleted", oc.Name)
	}
	switch {
	case oc.Spec.Suspend:
		s.suspended = true
		return nil
	case oc.Status.Artifact == nil:
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.Watched, "OperatorCollection %q is not imported: %s", oc.Name,
			strings.TrimSpace("see its status. "+oc.Status.Message))
	}
	s.oc = oc
	return nil
}

func (r *Reconciler) loadCollection(_ context.Context, s *configScope) error {
	c, err := r.Collections.Load(digest.Digest(s.oc.Status.Artifact.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "OperatorCollection %q is being fetched again", s.oc.Name)
	}
	if err != nil {
		return imports.LoadFailure(err)
	}
	s.collection = c
	return nil
}

// awaitCRDs waits until the CRD controller has made every kind of the collection available.
func (r *Reconciler) awaitCRDs(ctx context.Context, s *configScope) error {
	c := s.collection
	missing, err := crdplan.Missing(ctx, r.Client, c, imports.GroupOf(s.oc, c))
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return status.Waiting(v2beta2.ReasonCollectionNotImported, status.Watched, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	return r.addLabels(ctx, s)
}

// addLabels sets the labels by which other controllers find the SubOperatorConfigs of a collection.
func (r *Reconciler) addLabels(ctx context.Context, s *configScope) error {
	return apply.AddLabels(ctx, r.Client, s.soc, render.Labels(s.collection), render.LabelManagedBy, render.LabelDomain, render.LabelName)
}

// resolveConflicts determines which namespaces belong to other SubOperatorConfigs, if the collection was not known before.
// If the OperatorCollection now contains another collection, the former one is uninstalled first.
func (r *Reconciler) resolveConflicts(ctx context.Context, s *configScope) error {
	switch recorded := s.soc.Status.Collection; {
	case recorded == nil:
	case install.RecordedCollection(s.soc) == s.collection.ID():
		return nil
	default:
		if err := r.uninstallFormer(ctx, s, r.uninstall); err != nil {
			return err
		}
	}
	return r.withoutConflicts(ctx, s, s.collection.ID())
}

func (r *Reconciler) install(ctx context.Context, s *configScope) error {
	resolver, installer := r.resolver(), r.installer()
	installer.PredictStatus = func(expected []install.Result) { r.predictStatus(s, expected) }
	dependencies, blocked := resolver.Dependencies(ctx, s.oc, r.Settings.Dependencies)
	var installations []*install.Installation
	for _, m := range s.mappings {
		endpoints, problems, err := resolver.Endpoints(ctx, s.soc, m)
		if err != nil {
			s.results = append(s.results, install.Result{Namespace: m.Namespace, Status: install.Recorded(s.soc, m.Namespace), Err: err})
			continue
		}
		s.problems = append(s.problems, problems...)
		i := &install.Installation{
			Owner: s.soc, OperatorCollection: s.oc, Namespace: m.Namespace,
			Endpoints: endpoints, Dependencies: dependencies, Runtime: render.MergeRuntime(s.oc.Spec.Runtime, s.soc.Spec.Runtime),
		}
		lost := r.setContent(ctx, s, i)
		i.Backend, i.Blocked = r.OLM.Choose(ctx, i, r.Settings.RuntimeImage)
		for _, problem := range []error{blocked, lost} {
			if i.Blocked == nil {
				i.Blocked = problem
			}
		}
		installations = append(installations, i)
	}
	for _, result := range installer.Reconcile(ctx, installations) {
		if err := r.reportAbandoned(ctx, s, &result); err != nil {
			return err
		}
		s.results = append(s.results, result)
	}
	return nil
}
