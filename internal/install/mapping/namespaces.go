package mapping

import (
	"slices"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Selection has the namespaces that the manager may use. An empty one stands for all.
type Selection []string

// Check returns nil if the manager may use a namespace, else an error with a reason.
func (s Selection) Check(namespace string) error {
	if len(s) == 0 || slices.Contains(s, namespace) {
		return nil
	}
	return status.Waiting(v2beta2.ReasonNamespaceNotSelected, intervals.Missing,
		"the manager does not use namespace %q: an administrator can bind ClusterRole collection-operator-manager-namespace there, "+
			"and add the namespace to the manager's flag --namespaces", namespace)
}
