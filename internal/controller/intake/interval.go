package intake

import (
	"context"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
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
	if oc.Spec.Interval == nil || imports.PinnedVersion(oc) != "" {
		return 0
	}
	if last, known := c.last(oc); known {
		return max(time.Until(last.due), time.Second)
	}
	return pace.Jitter(oc.Spec.Interval.Duration)
}

// NextCheck is the delay before the next check of the source, or zero if there is none.
func (a *Source) NextCheck(oc *v2beta2.OperatorCollection) time.Duration {
	if a.takesPodCopies(oc) {
		return a.refusedPodCopy(oc).wait() // A copy asks for its import itself, and whatever else is in the folder does not.
	}
	return a.checks.wait(oc)
}

// newSourceCheck is made now, of a source that has an archive with these validators. It is nil without spec.interval.
func newSourceCheck(oc *v2beta2.OperatorCollection, validators fetch.Validators) *sourceCheck {
	if oc.Spec.Interval == nil {
		return nil
	}
	return &sourceCheck{generation: oc.Generation, due: time.Now().Add(pace.Jitter(oc.Spec.Interval.Duration)), validators: validators}
}

// checkSource checks, once per spec.interval, whether the source has another archive than the one that is installed, and
// returns that one, else nil. A failed check is a warning: the installed archive remains valid.
func (a *Source) checkSource(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	if pushed := PushedDigest(oc); oc.Spec.Interval == nil || oc.Status.Artifact == nil || pushed != "" && imports.IsImported(oc, pushed) { // After a restore, status comes first.
		return nil, nil
	}
	if a.takesPodCopies(oc) || imports.PinnedVersion(oc) != "" { // Copies are not asked for, and no archive but the pinned one would be accepted.
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
		archive.check.due = time.Now().Add(pace.Jitter(min(oc.Spec.Interval.Duration, intervals.FailedCheck)))
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
