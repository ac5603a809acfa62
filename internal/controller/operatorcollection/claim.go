package operatorcollection

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/reserved"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/replacement"
	"github.com/collection-operator/collection-operator/internal/install/instances"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// claims decides whether an OperatorCollection may have the kinds of its collection, and how their CRDs should be.
type claims struct {
	Client      client.Client
	Reader      client.Reader
	Collections *imports.CollectionCache
	Imports     *imports.Index
	Definitions *crdplan.WrittenDefinitions
	Reserved    reserved.Domains
}

// checkOrder refuses an archive that replaced the installed one at the source, unless it is the same collection in the same or
// a newer version: whoever can change the source, but not sign, must not bring an old version back.
func (k *claims) checkOrder(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	record := k.Collections.Imported(oc)
	if record == nil || record.Collection == nil || scope.Artifact.SourceHash != record.Artifact.SourceHash || scope.Artifact.Digest == record.Artifact.Digest {
		return nil
	}
	was, is := record.Collection, scope.collection
	version, err := semver.NewVersion(was.Version)
	if err == nil && is.Domain == was.Domain && is.Name == was.Name && !is.Version.LessThan(version) {
		return nil
	}
	return status.Stalled(v2beta2.ReasonArtifactChanged, fmt.Errorf(
		"the archive changed from version %s of collection %s/%s to version %s of %s though the spec did not, and an upload or spec.interval may replace it only by the same or a newer version of the same collection: change spec.digest to accept it",
		was.Version, was.Domain, was.Name, is.Version, is.ID()))
}

// checkReserved refuses a collection whose domain administrators have reserved for others. Those that are installed keep running.
func (k *claims) checkReserved(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if err := k.Reserved.Check(scope.collection.ID(), oc.Namespace, scope.Artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, status.Watched, "%w", err)
	}
	return nil
}

// checkClaim refuses a collection that belongs to another namespace: otherwise anyone could publish a version of it and
// have it run with the credentials of others. Another namespace may import only what its owner imported, with the same
// content. Within a namespace, a version has one content.
func (k *claims) checkClaim(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	key := scope.collection.ID()
	others, err := k.others(ctx, oc, key)
	if err != nil {
		return err
	}
	scope.others = others
	if err := k.readDefinitions(ctx, oc, scope); err != nil {
		return err
	}
	owner := crdplan.OwningNamespace(scope.definitions, key, append(slices.Clone(others), *oc))
	if owner == "" || owner == oc.Namespace {
		if err := checkVersion(oc, scope, others); err != nil {
			return err
		}
		return scope.checkFollowers(oc)
	}
	if crd.Publish(scope.definitions, imports.GroupOf(oc, scope.collection), scope.collection.APIVersion(), digest.Digest(scope.Artifact.Digest)) {
		return nil
	}
	// The CRDs of a collection that is not imported here trigger no reconcile.
	return status.Waiting(v2beta2.ReasonCollectionClaimed, claimInterval(oc),
		"collection %s belongs to namespace %q: only a version that was imported there, with the same content and apiGroup, can be imported here", key, owner)
}

// claimInterval is the delay before the next look at what others import. It grows with the time for which the OperatorCollection is not
// ready: the owner often imports at the same time, from the same commit.
func claimInterval(oc *v2beta2.OperatorCollection) time.Duration {
	var waits time.Duration
	if ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady); ready != nil && ready.Status != metav1.ConditionTrue {
		waits = time.Since(ready.LastTransitionTime.Time)
	}
	return status.Later(intervals.Poll, waits)
}

// readDefinitions reads the collection's CRDs. They are read live to decide whether an archive is accepted, and to plan them.
func (k *claims) readDefinitions(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	id := scope.collection.ID()
	cached, err := (&instances.Finder{Reader: k.Client}).CRDs(ctx, id)
	if err != nil {
		return err
	}
	of := crdplan.WrittenVersion{Digest: digest.Digest(scope.Artifact.Digest), Group: imports.GroupOf(oc, scope.collection), Namespace: oc.Namespace}
	if scope.planned = imports.IsImported(oc, of.Digest) && k.Definitions.AreWritten(id, of, cached); scope.planned {
		scope.definitions = cached
		return nil
	}
	scope.definitions, err = (&instances.Finder{Reader: k.Reader}).CRDs(ctx, id)
	return err
}

// others are the other OperatorCollections that have the collection and are not being deleted.
func (k *claims) others(ctx context.Context, oc *v2beta2.OperatorCollection, key model.ID) ([]v2beta2.OperatorCollection, error) {
	concerned, err := k.Imports.List(ctx, client.MatchingFields{imports.IndexCollection: key.String()})
	return slices.DeleteFunc(concerned, func(other v2beta2.OperatorCollection) bool {
		return other.UID == oc.UID || imports.ImportedID(&other) != key || other.Status.Artifact == nil || other.DeletionTimestamp != nil
	}), err
}

// checkVersion refuses an archive whose version an older OperatorCollection of the namespace has with other content.
func checkVersion(oc *v2beta2.OperatorCollection, scope *importScope, others []v2beta2.OperatorCollection) error {
	for i := range others {
		other := &others[i]
		if other.Namespace != oc.Namespace || other.Status.Artifact.Digest == scope.Artifact.Digest ||
			other.Status.Collection.Version != scope.collection.Version.String() {
			continue
		}
		if imported := oc.Status.Artifact != nil && oc.Status.Artifact.Digest == scope.Artifact.Digest; imported && mapping.Older(oc, other) {
			continue
		}
		// What others import triggers no reconcile of this one.
		return status.Waiting(v2beta2.ReasonVersionConflict, claimInterval(oc),
			"OperatorCollection %q has version %s of collection %s with other content: publish this archive under another version",
			other.Name, other.Status.Collection.Version, scope.collection.ID())
	}
	return nil
}

// checkFollowers refuses an archive that was copied over the imported one, if another namespace has imported the same version with the same
// content: it would not be accepted there any more.
func (s *importScope) checkFollowers(oc *v2beta2.OperatorCollection) error {
	for i := range s.others {
		other := &s.others[i]
		if s.Replaced != "" && other.Namespace != oc.Namespace && imports.IsImported(other, s.Replaced) && other.Status.Collection.Version == s.collection.Version.String() {
			return status.Stalled(v2beta2.ReasonVersionConflict, fmt.Errorf(
				"OperatorCollection %q in namespace %q has version %s with the content that runs: give this archive another version",
				other.Name, other.Namespace, other.Status.Collection.Version))
		}
	}
	return nil
}

// checkCRDs finds out, without a write, whether the collection's CRDs can be installed beside all other versions. Those that were
// written for this archive, and have not changed since then, are as they should be.
func (k *claims) checkCRDs(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	if scope.planned {
		return nil
	}
	var err error
	if scope.loaded, err = k.Collections.Load(digest.Digest(scope.Artifact.Digest)); err != nil {
		return imports.LoadFailure(err)
	}
	versions, err := crdplan.ImportedVersions(k.Collections, slices.DeleteFunc(slices.Clone(scope.others), func(other v2beta2.OperatorCollection) bool {
		return other.Namespace != oc.Namespace
	}))
	if err != nil {
		return err
	}
	scope.plan, err = crdplan.Planner{Reader: k.Reader, Known: scope.definitions}.Plan(ctx, append(versions, crd.Version{
		Collection: scope.loaded, Digest: digest.Digest(scope.Artifact.Digest), Group: imports.GroupOf(oc, scope.collection), Namespace: oc.Namespace,
	})...)
	return err
}

// checkReplaced finds out what a collection that replaces another one waits for, and what it does not take over.
func (k *claims) checkReplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	c := scope.collection
	if c.Replaces == (model.ID{}) {
		return nil
	}
	if err := k.describeUnreplaced(ctx, oc, scope); err != nil {
		return err
	}
	if !slices.ContainsFunc(scope.plan, crd.Planned.Passes) {
		return nil
	}
	if err := k.Reserved.Check(c.Replaces, oc.Namespace, scope.Artifact.VerifiedBy); err != nil {
		return status.Waiting(v2beta2.ReasonDomainReserved, intervals.Missing, "%w", err)
	}
	all := &v2beta2.OperatorCollectionList{}
	if err := k.Reader.List(ctx, all); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	var holders []string
	for _, planned := range scope.plan {
		if planned.Passes() {
			holders = append(holders, replacement.OtherHolders(planned.Live, all.Items, func(other *v2beta2.OperatorCollection) bool { return other.UID == oc.UID })...)
		}
	}
	if len(holders) > 0 {
		text := fmt.Sprintf("collection %s replaces %s: delete OperatorCollection %s: its kinds and custom resources stay",
			c.ID(), c.Replaces, replacement.DescribeHolders(holders, oc.Namespace, all.Items))
		scope.awaited = status.Waiting(v2beta2.ReasonReplaced, intervals.Missing, "%s", strings.Join(append([]string{text}, scope.unreplaced...), "; "))
	}
	return nil
}

// describeUnreplaced describes the custom resources of the replaced collection that no operator will serve: of kinds that the new
// collection does not have, or has in another API group.
func (k *claims) describeUnreplaced(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	c, finder := scope.collection, &instances.Finder{Reader: k.Reader}
	crds, err := finder.CRDs(ctx, c.Replaces)
	if err != nil {
		return err
	}
	for i := range crds {
		definition := &crds[i]
		if definition.Annotations[render.AnnotationClaimedBy] != oc.Namespace ||
			slices.ContainsFunc(scope.plan, func(planned crd.Planned) bool { return planned.CRD.Name == definition.Name }) {
			continue
		}
		kind, group := definition.Spec.Names.Kind, imports.GroupOf(oc, c)
		if _, has := c.Resource(kind); has && group != definition.Spec.Group {
			scope.unreplaced = append(scope.unreplaced, fmt.Sprintf(
				"collection %s replaces %s, but does not take over kind %s: its API group is %s, and that of this OperatorCollection is %s (spec.apiGroup)",
				c.ID(), c.Replaces, kind, definition.Spec.Group, group))
			continue
		}
		items, err := finder.ListOf(ctx, definition, "")
		if err != nil {
			return err
		}
		if len(items) > 0 {
			scope.unreplaced = append(scope.unreplaced, fmt.Sprintf("collection %s replaces %s, but has no kind %s: these custom resources stay without an operator: %s",
				c.ID(), c.Replaces, kind, instances.Describe(items)))
		}
	}
	return nil
}
