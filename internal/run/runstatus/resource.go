package runstatus

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// FieldManager of the gate's writes to status.
const FieldManager = gate.FieldManager

// Resource is what the changes of status depend on besides the run.
type Resource struct {
	// Kind and Name are for messages.
	Kind, Name string
	// Generation that the run, or the decision not to run, is about.
	Generation int64
	Deleting   bool
	Authors    Authors
	// Ignored are the fields of the spec that the collection's version does not declare.
	Ignored []string
	// DefaultsKept are the fields that playbooks get with the default of a former version, and DefaultsNew those that the next run
	// gets with a default that the last one did not get.
	DefaultsKept, DefaultsNew []gate.ChangedDefault
	// ShowDiff is true if status may have the differences that a drift check finds.
	ShowDiff bool
	// Version of the collection that is installed, and MaxRetries of its gate.Settings.
	Version    string
	MaxRetries int
	Now        time.Time
}

// Authors says which of the fields that a playbook may write itself (k8s_status) belong to the author.
type Authors struct{ Phase, Message bool }

// AuthorsOf reads the owners of the fields from metadata.managedFields. Whoever else than the gate has written a field owns
// it.
func AuthorsOf(fields []metav1.ManagedFieldsEntry) Authors {
	var authors Authors
	for _, entry := range fields {
		if entry.Manager == FieldManager || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Status struct {
				Phase   json.RawMessage `json:"f:phase"`
				Message json.RawMessage `json:"f:message"`
			} `json:"f:status"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
			continue
		}
		authors.Phase = authors.Phase || owned.Status.Phase != nil
		authors.Message = authors.Message || owned.Status.Message != nil
	}
	return authors
}

func versionOf(r Resource) string {
	if r.Version == "" {
		return "the collection"
	}
	return fmt.Sprintf("version %s of the collection", printable.Line(r.Version, maxName))
}

func rerunCommand(r Resource) string {
	if r.Kind == "" || r.Name == "" {
		return "kubectl collection rerun"
	}
	return fmt.Sprintf("kubectl collection rerun %s/%s", r.Kind, r.Name)
}

func abandonCommand(r Resource) string {
	return fmt.Sprintf("kubectl collection abandon %s/%s", r.Kind, r.Name)
}
