package runstatus

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
