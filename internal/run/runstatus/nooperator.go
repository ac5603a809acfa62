package runstatus

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PhaseNoOperator means that the operator was removed. The gate of the next operator replaces it.
const PhaseNoOperator Phase = "NoOperator"

// NoOperatorMessage says that no operator runs for a resource, and what to do.
func NoOperatorMessage(kind, name string) string {
	return fmt.Sprintf("no operator runs for this resource: install the collection again, or remove it without a run: "+
		"kubectl collection abandon %s/%s", kind, name)
}

// NoOperator returns the status of a resource whose operator was removed: an equal one if it says so already. Like the gate,
// it keeps a phase and a message of the author. It keeps observedGeneration, from which the next operator knows whether the
// present generation had a run, unless its run waits: then it is 0, as no generation is.
func NoOperator(status map[string]any, r Resource) map[string]any {
	status = copyOf(status)
	message := NoOperatorMessage(r.Kind, r.Name)
	if !r.Authors.Phase {
		status["phase"] = string(PhaseNoOperator)
	}
	if !r.Authors.Message {
		status["message"] = message
	}
	if status["observedGeneration"] == int64(unobserved) {
		delete(status, "observedGeneration") // No operator will write it: clients are to read the conditions.
	}
	if status[fieldWaiting] != nil {
		status["observedGeneration"] = int64(0) // Without it, conditions alone could be those of a baseline.
		delete(status, fieldWaiting)
	}
	conditions := conditionsOf(status, r.Now)
	fields := func(status metav1.ConditionStatus) map[string]any {
		fields := form(status, string(PhaseNoOperator), message)
		fields["observedGeneration"] = r.Generation
		return fields
	}
	conditions.set(ConditionReady, fields(metav1.ConditionFalse))
	conditions.set(ConditionStalled, fields(metav1.ConditionTrue))
	status["conditions"] = conditions.items
	return status
}
