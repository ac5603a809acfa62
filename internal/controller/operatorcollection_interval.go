package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Masterminds/semver/v3"
	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/fetch"
	"github.com/collection-operator/collection-operator/internal/status"
)

// failedLookInterval is how soon, at the latest, a source that could not be asked is asked again.
const failedLookInterval = 5 * time.Minute

// look is what came of asking a source for its archive.
type look struct {
	// generation of the spec that it was asked for.
	generation int64
	// due is when to ask again.
	due time.Time
	// validators are of the archive that the source has.
	validators fetch.Validators
	// failed says why the source could not be asked, or is empty.
	failed string
}

// looks remembers the last look at each source as long as the manager runs. What it does not know costs one request.
type looks struct {
	mu sync.Mutex
	of map[types.NamespacedName]look
}

// last is the last look for the present spec, if there was one.
func (l *looks) last(oc *v2beta2.OperatorCollection) (look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.of[client.ObjectKeyFromObject(oc)]
	return last, known && last.generation == oc.Generation
}

func (l *looks) remember(oc *v2beta2.OperatorCollection, now *look) {
	if now == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[types.NamespacedName]look{}
	}
	l.of[client.ObjectKeyFromObject(oc)] = *now
}

func (l *looks) forget(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, key)
}

// wait is how long it is until the next look, or zero if there is to be none.
func (l *looks) wait(oc *v2beta2.OperatorCollection) time.Duration {
	if oc.Spec.Interval == nil {
		return 0
	}
	if last, known := l.last(oc); known {
		return max(time.Until(last.due), time.Second)
	}
	return jitter(oc.Spec.Interval.Duration)
}

// lookNow is a look at a source that has an archive with these validators. It is nil if there is to be no next one.
func lookNow(oc *v2beta2.OperatorCollection, validators fetch.Validators) *look {
	if oc.Spec.Interval == nil {
		return nil
	}
	return &look{generation: oc.Generation, due: time.Now().Add(jitter(oc.Spec.Interval.Duration)), validators: validators}
}

// obtainChanged asks the source, once per spec.interval, whether it has another archive than the one that is installed,
// and returns that one, else nil. What is installed is good as long as the source cannot be asked: that is a warning.
func (r *OperatorCollectionReconciler) obtainChanged(ctx context.Context, oc *v2beta2.OperatorCollection, facts *collectionFacts) (*fetch.File, error) {
	if oc.Spec.Interval == nil {
		return nil, nil
	}
	facts.validators = fetch.Validators{ETag: oc.Status.Artifact.ETag, LastModified: oc.Status.Artifact.LastModified}
	if last, known := r.looks.last(oc); known {
		if time.Now().Before(last.due) {
			facts.look = &last
			return nil, nil
		}
		facts.validators = last.validators
	}
	file, err := r.obtain(ctx, oc, facts)
	facts.look = lookNow(oc, facts.validators)
	if f := (*status.Error)(nil); errors.As(err, &f) && ctx.Err() == nil {
		facts.look.failed = err.Error()
		facts.look.due = time.Now().Add(jitter(min(oc.Spec.Interval.Duration, failedLookInterval)))
		return nil, nil
	}
	if err != nil || file == nil {
		return nil, err
	}
	if file.Digest == digest.Digest(oc.Status.Artifact.Digest) {
		facts.look.validators = file.Validators
		return nil, file.Remove()
	}
	return file, nil
}

// checkOrder refuses an archive that the source put in the place of the installed one, unless it is the same collection in the
// same or a newer version: who can change the source, but not sign, must not bring an old version back.
func (r *OperatorCollectionReconciler) checkOrder(_ context.Context, oc *v2beta2.OperatorCollection, facts *collectionFacts) error {
	was, is := oc.Status.Collection, facts.collection
	if was == nil || facts.artifact.SourceHash != oc.Status.Artifact.SourceHash || facts.artifact.Digest == oc.Status.Artifact.Digest {
		return nil
	}
	version, err := semver.NewVersion(was.Version)
	if err == nil && is.Domain == was.Domain && is.Name == was.Name && !is.Version.LessThan(version) {
		return nil
	}
	return status.Stalled(v2beta2.ReasonArtifactChanged, fmt.Errorf(
		"the archive changed from version %s of collection %s/%s to version %s of %s though the spec did not, and spec.interval accepts only the same or a newer version of the same collection: change spec.digest to accept it",
		was.Version, was.Domain, was.Name, is.Version, is.ID()))
}

// lookAgain makes a failure that only a change of the spec could help into one that a later look may heal.
func lookAgain(oc *v2beta2.OperatorCollection, err error) error {
	if f := status.AsError(err); f != nil && f.Stalled && oc.Spec.Interval != nil {
		return &status.Error{Reason: f.Reason, RetryAfter: jitter(oc.Spec.Interval.Duration), Err: f.Err}
	}
	return err
}

// dropRefused removes an archive that was fetched and not accepted, so that nobody can fill the store.
func (r *OperatorCollectionReconciler) dropRefused(ctx context.Context, oc *v2beta2.OperatorCollection, facts *collectionFacts) error {
	current := oc.Status.Artifact
	if facts.accepted || facts.artifact == nil || current != nil && facts.artifact.Digest == current.Digest {
		return nil
	}
	return r.removeArchive(ctx, oc, digest.Digest(facts.artifact.Digest))
}
