package upgrade

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// irreversible returns a problem if a custom resource was migrated to a newer version than the one it is judged against, and the
// version that runs does not say that older ones can manage such resources.
func (j *Judge) irreversible(resource *unstructured.Unstructured) []Problem {
	if j.was == nil || j.was.MigrationReversible || j.was.ID() != j.is.ID() { // Versions of two collections have no order.
		return nil
	}
	if j.was.ID() != j.is.ID() || !gate.IsOlder(j.is.Version.String(), j.was.Version.String()) {
		return nil // It does not go back: the resource was migrated by a collection that was replaced, or the user has gone back before.
	}
	status, _ := resource.Object["status"].(map[string]any)
	migration := runstatus.LastMigration(status)
	if migration == nil || !gate.IsOlder(j.is.Version.String(), migration.To) {
		return nil
	}
	return []Problem{{Migrated: true, Message: fmt.Sprintf(
		"was migrated to version %s, and version %s does not declare migrationReversible: version %s cannot manage it",
		printable.Line(migration.To, maxMessage/3), j.was.Version.Original(), j.Version())}}
}
