package rollout

import (
	"fmt"
	"slices"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// HasBegun reports whether an upgrade of an OperatorCollection, or the one before it, has begun in a namespace.
func HasBegun(oc *v2beta2.OperatorCollection, namespace string) bool {
	return oc.Status.Upgrade != nil && slices.Contains(oc.Status.Upgrade.Namespaces, namespace)
}

// IsUserManaged reports whether the Operator Lifecycle Manager installed the operator for a Subscription that the manager did not create.
// The manager removes no other operator for a version, and its own Subscription first.
func IsUserManaged(soc *v2beta2.SubOperatorConfig, installation v2beta2.InstallationStatus) bool {
	return installation.Install == v2beta2.InstallOLM && installation.RemovalTime == nil && !slices.ContainsFunc(soc.Status.Inventory, func(ref v2beta2.ObjectReference) bool {
		return ref.Kind == "Subscription" && ref.Namespace == installation.Namespace
	})
}

// ProgressOf describes an upgrade that is going on.
func ProgressOf(oc *v2beta2.OperatorCollection) string {
	upgrade := oc.Status.Upgrade
	text := fmt.Sprintf("version %s runs in %d of %d namespaces", oc.Status.Collection.Version, upgrade.Upgraded, upgrade.Total)
	if upgrade.Message != "" {
		text += "; " + upgrade.Message
	}
	return text
}
