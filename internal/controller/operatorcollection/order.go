package operatorcollection

import (
	"context"
	"errors"
	"fmt"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/upgradecheck"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// checkOrder refuses an archive that replaced the installed one at the source, unless it is the same collection in the same or
// a newer version: whoever can change the source, but not sign, must not bring an old version back.
func (r *Reconciler) checkOrder(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	record := r.Collections.Imported(oc)
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

// retryUntilNextCheck makes an error that only a change of the spec could resolve into one that a later check may resolve.
func retryUntilNextCheck(oc *v2beta2.OperatorCollection, err error) error {
	if f := status.AsError(err); f != nil && f.Stalled && oc.Spec.Interval != nil {
		return &status.Error{Reason: f.Reason, RetryAfter: pace.Jitter(oc.Spec.Interval.Duration), Err: f.Err}
	}
	return err
}

// removeRefused removes an archive that was fetched and not accepted because of err, so that nobody can fill the store. It keeps one
// that custom resources block, or that waits in the place of a collection that it replaces.
func (r *Reconciler) removeRefused(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, err error) error {
	current := r.Collections.Imported(oc)
	refused := !scope.Accepted && scope.Artifact != nil &&
		(current == nil || !current.Signed || scope.Artifact.Digest != current.Artifact.Digest)
	var blocked *v2beta2.Artifact
	if refused && (upgradecheck.UpgradeBlock(err) != nil || scope.awaited != nil) {
		blocked = scope.Artifact
	}
	former, kept := r.Source.KeepBlocked(oc, blocked, scope.Hold)
	if kept {
		scope.Hold, refused = nil, false
	}
	inUse := func() (*imports.ArchivesInUse, error) { return r.archivesInUse(ctx) }
	var problems []error
	if former.Artifact != nil {
		problems = append(problems, r.Collections.Discard(oc, digest.Digest(former.Artifact.Digest), former.Hold, inUse))
	}
	if refused {
		problems = append(problems, r.Collections.Discard(oc, digest.Digest(scope.Artifact.Digest), scope.Hold, inUse))
	}
	return errors.Join(problems...)
}

// archivesInUse knows what all OperatorCollections have imported without a live list of them, which would be as long as a flood of
// refused imports.
func (r *Reconciler) archivesInUse(ctx context.Context) (*imports.ArchivesInUse, error) {
	imported, err := r.Imports.List(ctx)
	if err != nil {
		return nil, err
	}
	configs := &v2beta2.SubOperatorConfigList{}
	if err := r.Reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &imports.ArchivesInUse{Key: r.Collections.Key, Collections: imported, Configs: configs.Items}, nil
}
