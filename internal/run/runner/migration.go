package runner

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// reasonMigrationStopped means that the migration of another resource has failed.
const reasonMigrationStopped endpoint.Reason = "MigrationStopped"

// awaitMigration returns why a migration may not start: that of another resource has failed. If that one is gone, or migrated,
// migrations go on.
func (r *runner) awaitMigration(ctx context.Context, live *unstructured.Unstructured) (*waiting, error) {
	stopped, err := r.podLock.Annotation(ctx, gate.AnnotationMigrationStopped)
	if err != nil || stopped == "" || stopped == r.migrationID() {
		return nil, err
	}
	failing, err := r.isMigrating(ctx, stopped)
	if err != nil {
		return nil, err
	}
	if !failing {
		return nil, r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, stopped, "")
	}
	return r.waitsFor(live, reasonMigrationStopped, stoppedMessage(stopped))
}

func stoppedMessage(stopped string) string {
	stopped = printable.Line(stopped, maxStopped)
	return fmt.Sprintf("the migration of %s has failed: migrations go on when it succeeds or the resource is deleted; see its status, "+
		"and run it again: kubectl collection rerun %s", stopped, stopped)
}

// maxStopped limits the length in bytes of a resource in a message. Kinds have at most 63 bytes, and names 253.
const maxStopped = 320

// migrationID returns kind/name of the resource, as in the annotation of the Lease.
func (r *runner) migrationID() string { return r.files.kindName + "/" + r.files.name }

// isMigrating reports whether a resource, as kind/name, still needs the migration to this version that it has begun.
func (r *runner) isMigrating(ctx context.Context, id string) (bool, error) {
	kind, name, _ := strings.Cut(id, "/")
	settings, known := r.files.settings.Kinds[kind]
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
	identity := r.files.identity()
	identity.Kind, identity.Name = kind, name
	record := r.files.key.Verify(identity, other.GetAnnotations()[gate.AnnotationRecord])
	return record != nil && record.Migration != nil && record.Migration.To == r.files.settings.Version, nil
}

// stopMigrations records that the migration of this resource has failed, unless another one has failed before. It can be repeated.
func (r *runner) stopMigrations(ctx context.Context, entry *journalEntry) error {
	if !entry.Decision.StopsMigrations(entry.Record.Outcome) {
		return nil
	}
	err := r.setStopped(ctx)
	if isUnusable(err) {
		r.out.note("migrations of other resources are not stopped: %v", err)
		return nil
	}
	return err
}

func (r *runner) setStopped(ctx context.Context) error {
	stopped, err := r.podLock.Annotation(ctx, gate.AnnotationMigrationStopped)
	if err != nil || stopped == r.migrationID() {
		return err
	}
	if stopped != "" {
		failing, err := r.isMigrating(ctx, stopped)
		if err != nil || failing {
			return err
		}
	}
	return r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, stopped, r.migrationID())
}

// resumeMigrations lets migrations go on once that of this resource has succeeded. If it fails, the next one that waits does so.
func (r *runner) resumeMigrations(ctx context.Context, entry *journalEntry) {
	if entry.Decision.Migration == nil || entry.Record.Outcome != gate.OutcomeSucceeded {
		return
	}
	if err := r.podLock.Annotate(ctx, gate.AnnotationMigrationStopped, r.migrationID(), ""); err != nil {
		r.out.note("migrations go on later: %v", err)
	}
}
