package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// acceptance decides whether the archive that the spec asks for becomes the one that is imported, and records it.
type acceptance struct {
	Client      client.Client
	Reader      client.Reader
	Metadata    metadata.Interface
	Collections *imports.CollectionCache
	Imports     *imports.Index
	Source      *intake.Source
	Budgets     *Budgets
	status      *statusWriter
}

// checkNeeds refuses a collection that does not fit into the budgets, before its CRDs are planned, which takes long if it has many.
// [acceptance.acceptWithinBudgets] decides.
func (a *acceptance) checkNeeds(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	wants := wantedNeeds(oc, scope)
	if importedNeeds(oc).equal(wants) {
		return nil
	}
	all, err := a.Imports.List(ctx)
	if err != nil {
		return err
	}
	return a.Budgets.check(oldestFirst(all, oc), oc, wants)
}

// acceptWithinBudgets accepts the archive if the budgets allow what it needs.
func (a *acceptance) acceptWithinBudgets(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	wants := wantedNeeds(oc, scope)
	if importedNeeds(oc).equal(wants) {
		return a.acceptArtifact(ctx, oc, scope)
	}
	a.Budgets.accepting.Lock()
	defer a.Budgets.accepting.Unlock()
	all, err := a.Imports.List(ctx)
	if err != nil {
		return err
	}
	if err := status.Join(a.Budgets.checkVersions(scope), a.Budgets.check(oldestFirst(all, oc), oc, wants)); err != nil {
		return err
	}
	scope.historyRoom = a.Budgets.historyRoom(all, oc, scope.Artifact)
	return a.acceptArtifact(ctx, oc, scope)
}

// acceptArtifact records a new archive, which passed all checks, as the one that is imported.
func (a *acceptance) acceptArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if scope.awaited != nil {
		return scope.awaited
	}
	a.Source.Accept(oc, &scope.Archive)
	before := oc.DeepCopy()
	scope.keepCopyWarnings(oc)
	scope.describeCollection(oc)
	if before.Status.Artifact == nil || before.Status.Artifact.Digest != scope.Artifact.Digest {
		scope.Installed = time.Now()
		if err := a.beginInstallation(ctx, oc, scope); err != nil {
			return err
		}
	}
	// The CRD controller makes CRDs from this status.
	if err := status.Patch(ctx, a.Client, oc, before); err != nil {
		return err
	}
	scope.Recorded = true
	if err := a.recordImport(ctx, oc, render.Labels(scope.collection)); err != nil {
		return err
	}
	return a.Source.Pushes.Done(oc.Namespace, oc.Name, digest.Digest(scope.Artifact.Digest))
}

// beginInstallation takes Ready back in the write that names another archive: nobody who waits for it may see both. It says what the
// end of the reconcile would say.
func (a *acceptance) beginInstallation(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	waits := a.awaitCRDs(ctx, oc, scope)
	if waits != nil && !status.Is(waits) {
		return waits
	}
	if waits != nil {
		_ = a.status.describe(oc, scope, waits) // It is the same error.
		return nil
	}
	now := &oc.Status
	waits = status.Waiting(v2beta2.ReasonProgressing, status.Watched, "version %s is being installed", now.Collection.Version)
	status.SetReady(&now.Conditions, oc.Generation, waits, "")
	now.ObservedGeneration, now.Message = oc.Generation, status.ReadyMessage(now.Conditions)
	return nil
}

// recordImport sets the annotation, and the labels that clients select by unless the user set them.
func (a *acceptance) recordImport(ctx context.Context, oc *v2beta2.OperatorCollection, labels map[string]string) error {
	before := oc.DeepCopy()
	changed := apply.SetLabels(oc, labels)
	if record := imports.FormatRecord(oc, a.Collections.Key); oc.Annotations[imports.AnnotationArtifact] != record {
		metav1.SetMetaDataAnnotation(&oc.ObjectMeta, imports.AnnotationArtifact, record)
		changed = true
	}
	if !changed {
		return nil
	}
	return apply.PatchMetadata(ctx, a.Client, oc, before)
}

// awaitCRDs waits until the CRD controller has made every kind of the collection available.
func (a *acceptance) awaitCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	missing, err := crdplan.Missing(ctx, a.Client, scope.collection, imports.GroupOf(oc, scope.collection))
	switch {
	case err != nil:
		return err
	case len(missing) > 0 && slices.ContainsFunc(scope.plan, crd.Planned.Passes):
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Missing, "waiting until the operator of collection %s is removed: then these CRDs pass to %s: %s",
			scope.collection.Replaces, scope.collection.ID(), strings.Join(missing, ", "))
	case len(missing) > 0:
		// What keeps the CRD controller from writing one, such as a CRD of others that did not exist a moment ago, is found by planning
		// them again.
		return status.Waiting(v2beta2.ReasonProgressing, intervals.Missing, "waiting for CRDs to be established: %s", strings.Join(missing, ", "))
	}
	return nil
}

// awaitServed waits until the API server serves every kind of the collection. It does so a moment after it says that a CRD is
// established, and some API servers learn late of a CRD: whoever waits for Imported creates custom resources next.
func (a *acceptance) awaitServed(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	if imported != nil && imported.Status == metav1.ConditionTrue && imported.ObservedGeneration == oc.Generation {
		return nil
	}
	var unserved []string
	for _, resource := range scope.collection.Resources {
		kind := schema.GroupVersionResource{Group: imports.GroupOf(oc, scope.collection), Version: scope.collection.APIVersion(), Resource: resource.Plural()}
		_, err := a.Metadata.Resource(kind).Namespace(oc.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsTooManyRequests(err):
			unserved = append(unserved, kind.GroupResource().String())
		case apierrors.IsForbidden(err): // The manager may not look at an API group of the collection's own.
		case err != nil:
			return fmt.Errorf("listing %s: %w", kind.GroupResource(), err)
		}
	}
	if len(unserved) == 0 {
		return nil
	}
	slices.Sort(unserved)
	return status.Waiting(v2beta2.ReasonProgressing, intervals.Conflict, "waiting until the API server serves %s", strings.Join(unserved, ", "))
}

// removeRefused removes an archive that was fetched and not accepted because of err, so that nobody can fill the store. It keeps one
// that custom resources block, or that waits in the place of a collection that it replaces.
func (a *acceptance) removeRefused(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, err error) error {
	current := a.Collections.Imported(oc)
	refused := !scope.Accepted && scope.Artifact != nil &&
		(current == nil || !current.Signed || scope.Artifact.Digest != current.Artifact.Digest)
	var blocked *v2beta2.Artifact
	if refused && (upgradecheck.UpgradeBlock(err) != nil || scope.awaited != nil) {
		blocked = scope.Artifact
	}
	former, kept := a.Source.KeepBlocked(oc, blocked, scope.Hold)
	if kept {
		scope.Hold, refused = nil, false
	}
	inUse := func() (*imports.ArchivesInUse, error) { return a.archivesInUse(ctx) }
	var problems []error
	if former.Artifact != nil {
		problems = append(problems, a.Collections.Discard(oc, digest.Digest(former.Artifact.Digest), former.Hold, inUse))
	}
	if refused {
		problems = append(problems, a.Collections.Discard(oc, digest.Digest(scope.Artifact.Digest), scope.Hold, inUse))
	}
	return errors.Join(problems...)
}

// archivesInUse knows what all OperatorCollections have imported without a live list of them, which would be as long as a flood of
// refused imports.
func (a *acceptance) archivesInUse(ctx context.Context) (*imports.ArchivesInUse, error) {
	imported, err := a.Imports.List(ctx)
	if err != nil {
		return nil, err
	}
	configs := &v2beta2.SubOperatorConfigList{}
	if err := a.Reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &imports.ArchivesInUse{Key: a.Collections.Key, Collections: imported, Configs: configs.Items}, nil
}
