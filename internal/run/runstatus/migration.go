package runstatus

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

const fieldMigration = "migration"

// Applied returns the version of the last success according to a status, or "" if there is none.
func Applied(status map[string]any) string {
	success, _ := status["lastSuccess"].(map[string]any)
	if event, _ := success["event"].(string); event != string(gate.EventCreate) {
		return ""
	}
	version, _ := success["version"].(string)
	return version
}

// LastMigration returns the last migration that succeeded according to a status, or nil.
func LastMigration(status map[string]any) *gate.Migrated {
	m := decode[Migration](status[fieldMigration])
	if m == nil || m.To == "" || m.Finished.IsZero() {
		return nil
	}
	return &gate.Migrated{From: m.From, To: m.To, Finished: m.Finished.Time}
}

// MigrationState is where a resource stands on its way to a version that has a migration playbook.
type MigrationState string

// The states.
const (
	// NotMigrated needs no migration: the resource was never managed by an older version, as far as its status says.
	NotMigrated MigrationState = ""
	// MigrationPending: the migration has not ended yet.
	MigrationPending MigrationState = "Pending"
	// MigrationFailed: the playbook failed last.
	MigrationFailed MigrationState = "Failed"
	// MigrationDone: the resource is migrated.
	MigrationDone MigrationState = "Done"
)

// MigrationTo returns where a resource stands on its way to a version, according to its status.
func MigrationTo(version string, status map[string]any) MigrationState {
	if m := LastMigration(status); m != nil && m.To == version {
		return MigrationDone
	}
	run := runOf(status)
	isMigration := run != nil && run.Reason == gate.ReasonMigrate && run.Version == version
	switch {
	case isMigration && (run.Outcome == gate.OutcomeFailed || run.Outcome == gate.OutcomeTimedOut || run.Outcome == gate.OutcomeCancelled):
		return MigrationFailed
	case isMigration, gate.IsOlder(Applied(status), version):
		return MigrationPending
	}
	return NotMigrated
}

// setMigration sets the last migration that a record has. What is not ours stays.
func setMigration(status map[string]any, record gate.Record) {
	m := record.Migrated
	switch {
	case m != nil:
		status[fieldMigration] = unstructured(&Migration{From: m.From, To: m.To, Finished: metav1.NewTime(m.Finished)})
	case LastMigration(status) != nil:
		delete(status, fieldMigration)
	}
}
