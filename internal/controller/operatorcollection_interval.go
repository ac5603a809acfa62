package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// sourceCheck is the result of the last check of a source.
type sourceCheck struct {
	// generation of the spec that it was made for.
	generation int64
	// due is the time of the next check.
	due time.Time
	// validators are of the archive that the source has.
	validators fetch.Validators
	// failed says why the check failed, or is empty.
	failed string
}

// sourceChecks keeps the last sourceCheck of each OperatorCollection in memory. One that is not there costs one request.
type sourceChecks struct{ sync.Map }

// last is the last check for the present spec, if there was one.
func (c *sourceChecks) last(oc *v2beta2.OperatorCollection) (sourceCheck, bool) {
	found, _ := c.Load(client.ObjectKeyFromObject(oc))
	last, known := found.(sourceCheck)
	return last, known && last.generation == oc.Generation
}

func (c *sourceChecks) record(oc *v2beta2.OperatorCollection, check *sourceCheck) {
	if check != nil {
		c.Store(client.ObjectKeyFromObject(oc), *check)
	}
}

// wait is the delay before the next check, or zero if there is none.
func (c *sourceChecks) wait(oc *v2beta2.OperatorCollection) time.Duration {
	if oc.Spec.Interval == nil || pinnedVersion(oc) != "" {
		return 0
	}
	if last, known := c.last(oc); known {
		return max(time.Until(last.due), time.Second)
	}
	return jitter(oc.Spec.Interval.Duration)
}

// nextCheck is the delay before the next check of the source, or zero if there is none.
func (a *ArchiveSource) nextCheck(oc *v2beta2.OperatorCollection) time.Duration {
	if a.takesCopies(oc) {
		return a.refusedCopy(oc).wait() // A copy asks for its import itself, and whatever else is in the folder does not.
	}
	return a.checks.wait(oc)
}

// newSourceCheck is made now, of a source that has an archive with these validators. It is nil without spec.interval.
func newSourceCheck(oc *v2beta2.OperatorCollection, validators fetch.Validators) *sourceCheck {
	if oc.Spec.Interval == nil {
		return nil
	}
	return &sourceCheck{generation: oc.Generation, due: time.Now().Add(jitter(oc.Spec.Interval.Duration)), validators: validators}
}

// checkSource checks, once per spec.interval, whether the source has another archive than the one that is installed, and
// returns that one, else nil. A failed check is a warning: the installed archive remains valid.
func (a *ArchiveSource) checkSource(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	if pushed := pushedDigest(oc); oc.Spec.Interval == nil || oc.Status.Artifact == nil || pushed != "" && isImported(oc, pushed) { // After a restore, status comes first.
		return nil, nil
	}
	if a.takesCopies(oc) || pinnedVersion(oc) != "" { // Copies are not asked for, and no archive but the pinned one would be accepted.
		return nil, nil
	}
	archive.validators = fetch.Validators{ETag: oc.Status.Artifact.ETag, LastModified: oc.Status.Artifact.LastModified}
	if last, known := a.checks.last(oc); known {
		if time.Now().Before(last.due) {
			archive.check = &last
			return nil, nil
		}
		archive.validators = last.validators
	}
	file, err := a.fetchArchive(ctx, oc, archive)
	archive.check = newSourceCheck(oc, archive.validators)
	if status.Is(err) && ctx.Err() == nil {
		archive.check.failed = err.Error()
		archive.check.due = time.Now().Add(jitter(min(oc.Spec.Interval.Duration, intervals.FailedCheck)))
		return nil, nil
	}
	if err != nil || file == nil {
		return nil, err
	}
	if file.Digest == digest.Digest(oc.Status.Artifact.Digest) {
		archive.check.validators = file.Validators
		return nil, file.Remove()
	}
	return file, nil
}

// checkOrder refuses an archive that replaced the installed one at the source, unless it is the same collection in the same or
// a newer version: whoever can change the source, but not sign, must not bring an old version back.
func (r *OperatorCollectionReconciler) checkOrder(_ context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	record := r.Collections.imported(oc)
	if record == nil || record.collection == nil || scope.artifact.SourceHash != record.artifact.SourceHash || scope.artifact.Digest == record.artifact.Digest {
		return nil
	}
	was, is := record.collection, scope.collection
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
		return &status.Error{Reason: f.Reason, RetryAfter: jitter(oc.Spec.Interval.Duration), Err: f.Err}
	}
	return err
}

// removeRefused removes an archive that was fetched and not accepted because of err, so that nobody can fill the store. It keeps one
// that custom resources block, or that waits in the place of a collection that it replaces.
func (r *OperatorCollectionReconciler) removeRefused(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope, err error) error {
	current := r.Collections.imported(oc)
	refused := !scope.accepted && scope.artifact != nil &&
		(current == nil || !current.signed || scope.artifact.Digest != current.artifact.Digest)
	var blocked *v2beta2.Artifact
	if refused && (upgradeBlock(err) != nil || scope.awaited != nil) {
		blocked = scope.artifact
	}
	former, kept := r.Source.blocked.keep(client.ObjectKeyFromObject(oc), blocked, scope.hold)
	if kept {
		scope.hold, refused = nil, false
	}
	inUse := func() (*archivesInUse, error) { return r.archivesInUse(ctx) }
	var problems []error
	if former.artifact != nil {
		problems = append(problems, r.Collections.discard(oc, digest.Digest(former.artifact.Digest), former.hold, inUse))
	}
	if refused {
		problems = append(problems, r.Collections.discard(oc, digest.Digest(scope.artifact.Digest), scope.hold, inUse))
	}
	return errors.Join(problems...)
}

// archivesInUse knows what all OperatorCollections have imported without a live list of them, which would be as long as a flood of
// refused imported.
func (r *OperatorCollectionReconciler) archivesInUse(ctx context.Context) (*archivesInUse, error) {
	imported, err := r.Imports.list(ctx)
	if err != nil {
		return nil, err
	}
	configs := &v2beta2.SubOperatorConfigList{}
	if err := r.Reader.List(ctx, configs); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	return &archivesInUse{key: r.Collections.Key, collections: imported, configs: configs.Items}, nil
}
