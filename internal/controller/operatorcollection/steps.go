package operatorcollection

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/install/rollout"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// importScope is what the steps of one reconcile share, and what status is computed from.
type importScope struct {
	// Archive is the one that the spec asks for.
	intake.Archive
	// upload is the digest of the archive that the upload endpoint received last, or empty.
	upload digest.Digest
	// collection is an outline of what the archive holds.
	collection *model.Collection
	// loaded is all of it, if the CRDs were planned.
	loaded *model.Collection
	// others are the other OperatorCollections that have it.
	others []v2beta2.OperatorCollection
	// definitions are the collection's CRDs.
	definitions []apiextensionsv1.CustomResourceDefinition
	// planned says that they are as they should be for the archive, according to the last plan. Then there is no other one.
	planned bool
	// plan is how the collection's CRDs should be.
	plan []crd.Planned
	// upgradeWarnings say what the archive means for custom resources that exist, if it replaces another one.
	upgradeWarnings []string
	// awaited is what a collection waits for that replaces another one, or nil.
	awaited error
	// unreplaced describes what such a collection does not take over.
	unreplaced []string
	// alreadyImported says that the archive was imported before.
	alreadyImported bool
	// historyRoom limits the size in bytes of the archives that are only in status.history. Nil means no limit.
	historyRoom *int64
	// replicas says which other managers lack the archive.
	replicas replica.Copies
	// imported says that the collection's CRDs are Established too, and that the other managers have the archive.
	imported bool
	// upgrade is how the version is brought to the namespaces, or nil if that was not decided.
	upgrade *rollout.Decision
	// configs are the SubOperatorConfigs that name the collection, and areLive says that they were not read from the cache.
	configs []v2beta2.SubOperatorConfig
	areLive bool
}

func (r *Reconciler) loadCollection(_ context.Context, _ *v2beta2.OperatorCollection, scope *importScope) error {
	c, err := r.Collections.Outline(digest.Digest(scope.Artifact.Digest))
	if errors.Is(err, fs.ErrNotExist) {
		return status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	if err != nil {
		return imports.LoadFailure(err)
	}
	scope.collection = c
	return nil
}

// acceptArtifact records a new archive, which passed all checks, as the one that is imported.
func (r *Reconciler) acceptArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if scope.awaited != nil {
		return scope.awaited
	}
	r.Source.Accept(oc, &scope.Archive)
	before := oc.DeepCopy()
	scope.describeCollection(oc)
	if before.Status.Artifact == nil || before.Status.Artifact.Digest != scope.Artifact.Digest {
		scope.Installed = time.Now()
		if err := r.beginInstallation(ctx, oc, scope); err != nil {
			return err
		}
	}
	// The CRD controller makes CRDs from this status.
	if err := status.Patch(ctx, r.Client, oc, before); err != nil {
		return err
	}
	scope.Recorded = true
	r.Imports.Wrote(oc)
	if err := r.recordImport(ctx, oc, render.Labels(scope.collection)); err != nil {
		return err
	}
	return r.Source.Pushes.Done(oc.Namespace, oc.Name, digest.Digest(scope.Artifact.Digest))
}

// beginInstallation takes Ready back in the write that names another archive: nobody who waits for it may see both. It says what the
// end of the reconcile would say.
func (r *Reconciler) beginInstallation(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	waits := r.awaitCRDs(ctx, oc, scope)
	if waits != nil && !status.Is(waits) {
		return waits
	}
	if waits != nil {
		_ = r.describe(oc, scope, waits) // It is the same error.
		return nil
	}
	now := &oc.Status
	waits = status.Waiting(v2beta2.ReasonProgressing, status.Watched, "version %s is being installed", now.Collection.Version)
	status.SetReady(&now.Conditions, oc.Generation, waits, "")
	now.ObservedGeneration, now.Message = oc.Generation, status.ReadyMessage(now.Conditions)
	return nil
}

// awaitCRDs waits until the CRD controller has made every kind of the collection available.
func (r *Reconciler) awaitCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	missing, err := crdplan.Missing(ctx, r.Client, scope.collection, imports.GroupOf(oc, scope.collection))
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
func (r *Reconciler) awaitServed(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	if imported != nil && imported.Status == metav1.ConditionTrue && imported.ObservedGeneration == oc.Generation {
		return nil
	}
	var unserved []string
	for _, resource := range scope.collection.Resources {
		kind := schema.GroupVersionResource{Group: imports.GroupOf(oc, scope.collection), Version: scope.collection.APIVersion(), Resource: resource.Plural()}
		_, err := r.Metadata.Resource(kind).Namespace(oc.Namespace).List(ctx, metav1.ListOptions{Limit: 1})
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

// ensureDefaultSubOperatorConfig makes <name>-soc if nothing names the collection when it is imported, and removes an
// untouched one when another SubOperatorConfig does. What is made or deleted is decided by what is live.
func (r *Reconciler) ensureDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	isDecided := oc.Annotations[v2beta2.AnnotationDefault] != ""
	if isDecided {
		if err := r.readConfigs(ctx, oc, scope, r.Client); err != nil || len(redundantDefaults(scope.configs)) == 0 {
			return err
		}
	}
	if err := r.readConfigs(ctx, oc, scope, r.Reader); err != nil {
		return err
	}
	if !isDecided {
		return r.decideDefault(ctx, oc, scope)
	}
	for _, soc := range redundantDefaults(scope.configs) {
		if err := r.Client.Delete(ctx, soc); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the default SubOperatorConfig %q: %w", soc.Name, err)
		}
	}
	return r.readConfigs(ctx, oc, scope, r.Reader)
}

// redundantDefaults are the untouched defaults beside other SubOperatorConfigs.
func redundantDefaults(socs []v2beta2.SubOperatorConfig) []*v2beta2.SubOperatorConfig {
	socs = wantedConfigs(socs)
	var redundant []*v2beta2.SubOperatorConfig
	for i := range socs {
		if len(socs) > 1 && untouchedDefault(&socs[i]) {
			redundant = append(redundant, &socs[i])
		}
	}
	return redundant
}

// wantedConfigs leaves out those made for Subscriptions: they are deleted with these, and do not say where else the collection is wanted.
func wantedConfigs(socs []v2beta2.SubOperatorConfig) []v2beta2.SubOperatorConfig {
	return slices.DeleteFunc(slices.Clone(socs), func(soc v2beta2.SubOperatorConfig) bool { return olm.IsMadeFor(&soc) })
}

// decideDefault decides once whether a default is needed: one that a user deletes is not made again.
func (r *Reconciler) decideDefault(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	name, socs := oc.Name+"-soc", wantedConfigs(scope.configs)
	remaining := slices.IndexFunc(socs, func(soc v2beta2.SubOperatorConfig) bool { return soc.DeletionTimestamp == nil })
	switch {
	case remaining >= 0:
		name = socs[remaining].Name
	case len(socs) > 0:
		return nil // They were an earlier OperatorCollection's. Their removal triggers a reconcile.
	default:
		if err := r.createDefaultSubOperatorConfig(ctx, oc, scope, name); err != nil {
			return err
		}
	}
	before := oc.DeepCopy()
	metav1.SetMetaDataAnnotation(&oc.ObjectMeta, v2beta2.AnnotationDefault, name)
	if err := apply.PatchMetadata(ctx, r.Client, oc, before); err != nil {
		return err
	}
	r.Imports.Wrote(oc)
	return nil
}

func (r *Reconciler) createDefaultSubOperatorConfig(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, name string) error {
	soc := &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: oc.Namespace,
			Labels:      render.Labels(scope.collection),
			Annotations: map[string]string{v2beta2.AnnotationDefault: "true"},
		},
		Spec: defaultSpec(client.ObjectKeyFromObject(oc)),
	}
	err := r.Client.Create(ctx, soc, client.FieldOwner(apply.FieldOwner))
	if client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the default SubOperatorConfig %q: %w", soc.Name, err)
	}
	if err == nil {
		scope.configs = append(scope.configs, *soc)
	}
	return nil
}

// defaultSpec is the spec of the default SubOperatorConfig of an OperatorCollection.
func defaultSpec(oc client.ObjectKey) v2beta2.SubOperatorConfigSpec {
	return v2beta2.SubOperatorConfigSpec{
		OperatorCollection: oc.Name,
		Mapping:            []v2beta2.NamespaceMapping{{Namespace: oc.Namespace}},
	}
}

// untouchedDefault is a default whose spec is as it was made. Its generation does not tell: a restored object begins with the first.
func untouchedDefault(soc *v2beta2.SubOperatorConfig) bool {
	made := defaultSpec(client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection})
	return soc.Annotations[v2beta2.AnnotationDefault] == "true" && soc.DeletionTimestamp == nil && imports.TakenOverBy(soc) == "" &&
		equality.Semantic.DeepEqual(soc.Spec, made)
}

// collectSubOperatorConfigs reads the SubOperatorConfigs that decide whether the version is installed. That it is not may be what the
// cache says: what changes is read again. That it is must be live: the cache may still have one that installed the same archive before
// the one in between.
func (r *Reconciler) collectSubOperatorConfigs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	becomesReady := notInstalled(scope.configs, oc.Status.Artifact.Digest) == nil && !wasReadyWith(oc, scope.configs)
	if becomesReady && !scope.areLive {
		return r.readConfigs(ctx, oc, scope, r.Reader)
	}
	return nil
}

// wasReadyWith reports whether the status says already that the version is installed by these SubOperatorConfigs.
func wasReadyWith(oc *v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig) bool {
	ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady)
	installed := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionInstalled)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == oc.Generation &&
		installed != nil && installed.Message == installedMessage(socs)
}

// readConfigs reads the SubOperatorConfigs that name the collection from the cache, or live.
func (r *Reconciler) readConfigs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, reader client.Reader) error {
	var err error
	scope.configs, err = imports.SubOperatorConfigsOf(ctx, reader, oc)
	scope.areLive = err == nil && reader == r.Reader
	return err
}
