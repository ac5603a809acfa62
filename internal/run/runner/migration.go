package runner

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
)

// migrations are those of all resources of the operator: they stop at the first that fails. The Lease says which one.
type migrations struct{ *scope }

// await returns why a migration may not start: that of another resource has failed. If that one is gone, or migrated,
// migrations go on.
func (r migrations) await(ctx context.Context, live *unstructured.Unstructured) error {
	stopped, err := r.podLock.Annotation(ctx, gate.AnnotationMigrationStopped)
	if err != nil || stopped == "" || stopped == r.id() {
		return err
	}
	failing, err := r.isMigrating(ctx, stopped)
	if err != nil {
		return err
	}
	if !failing {
		return r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, stopped, "")
	}
	return r.waitFor(live, reasonMigrationStopped, stoppedMessage(stopped))
}

func stoppedMessage(stopped string) string {
	stopped = printable.Line(stopped, maxStopped)
	return fmt.Sprintf("the migration of %s has failed: migrations go on when it succeeds or the resource is deleted; see its status, "+
		"and run it again: kubectl collection rerun %s", stopped, stopped)
}

// maxStopped limits the length in bytes of a resource in a message. Kinds have at most 63 bytes, and names 253.
const maxStopped = 320

// id returns kind/name of the resource, as in the annotation of the Lease.
func (r migrations) id() string { return r.files.KindName + "/" + r.files.Name }

// isMigrating reports whether a resource, as kind/name, still needs the migration to this version that it has begun.
func (r migrations) isMigrating(ctx context.Context, id string) (bool, error) {
	kind, name, _ := strings.Cut(id, "/")
	settings, known := r.files.Settings.Kinds[kind]
	if !known {
		return false, nil
	}
	other, err := r.lookUp(ctx, kindResource(r.files, settings.Plural), name)
	if err != nil {
		return false, fmt.Errorf("read %s, whose migration has failed: %w", id, err)
	}
	if other == nil || deleting(other) {
		return false, nil
	}
	identity := r.files.Identity()
	identity.Kind, identity.Name = kind, name
	record := r.files.Key.Verify(identity, other.GetAnnotations()[gate.AnnotationRecord])
	return record != nil && record.Migration != nil && record.Migration.To == r.files.Settings.Version, nil
}

// stop records that the migration of this resource has failed, unless another one has failed before. It can be repeated.
func (r migrations) stop(ctx context.Context, entry *podfiles.Entry) error {
	if !entry.Decision.StopsMigrations(entry.Record.Outcome) {
		return nil
	}
	err := r.setStopped(ctx)
	if isUnusable(err) {
		r.out.Note("migrations of other resources are not stopped: %v", err)
		return nil
	}
	return err
}

func (r migrations) setStopped(ctx context.Context) error {
	stopped, err := r.podLock.Annotation(ctx, gate.AnnotationMigrationStopped)
	if err != nil || stopped == r.id() {
		return err
	}
	if stopped != "" {
		failing, err := r.isMigrating(ctx, stopped)
		if err != nil || failing {
			return err
		}
	}
	return r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, stopped, r.id())
}

// resume lets migrations go on once that of this resource has succeeded. If it fails, the next one that waits does so.
func (r migrations) resume(ctx context.Context, entry *podfiles.Entry) {
	if entry.Decision.Migration == nil || entry.Record.Outcome != gate.OutcomeSucceeded {
		return
	}
	if err := r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, r.id(), ""); err != nil {
		r.out.Note("migrations go on later: %v", err)
	}
}
