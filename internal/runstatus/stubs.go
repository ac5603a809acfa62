package runstatus

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/gate"
)

// FieldManager of the gate's writes to status.
const FieldManager = "collection-operator-gate"

// Authors says which of the fields that a playbook may write itself (k8s_status) belong to the author.
type Authors struct{ Phase, Message bool }

// AuthorsOf reads the owners of the fields from metadata.managedFields.
func AuthorsOf(fields []metav1.ManagedFieldsEntry) Authors { panic("not yet") }

// Resource is what the changes of status depend on besides the run.
type Resource struct {
	Generation int64
	Deleting   bool
	Authors    Authors
	// Ignored are the fields of the spec that the collection's version does not declare.
	Ignored []string
	Now     time.Time
}

// Start returns the status of a resource whose run starts. A previous run that has not ended is Interrupted, in history.
func Start(status map[string]any, r Resource, run Run) map[string]any { panic("not yet") }

// Progress returns the status with the current task of a running playbook.
func Progress(status map[string]any, report Report) map[string]any { panic("not yet") }

// End returns the status after a run: run is complete but for what the report says. record says when it is tried again.
func End(status map[string]any, r Resource, run Run, report Report, record gate.Record) map[string]any {
	panic("not yet")
}

// Skip returns the status of a resource whose playbook does not run: unchanged if it says so already. It restores a status
// that was lost from the record.
func Skip(status map[string]any, r Resource, record gate.Record, d gate.Decision) map[string]any {
	panic("not yet")
}

// Equal compares two statuses without regard to order and number types.
func Equal(a, b map[string]any) bool { panic("not yet") }

// IsBaseline reports whether a status says that the given generation was successful: written by ansible-operator itself, or
// by a gate whose record is lost.
func IsBaseline(status map[string]any, generation int64) bool { panic("not yet") }

// OutcomeOf returns the outcome of a run that ended by itself.
func OutcomeOf(report Report) gate.Outcome { panic("not yet") }
