package olm

import (
	"strings"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/status"
)

// AnnotationMadeFor on a SubOperatorConfig names, as namespace/name/UID, the Subscription that it was created for. It is
// deleted with that Subscription.
const AnnotationMadeFor = "zoscb.ibm.com/made-for-subscription"

// MadeFor returns the Subscription that a SubOperatorConfig was created for, if any.
func MadeFor(soc client.Object) (key types.NamespacedName, uid types.UID, ok bool) {
	parts := strings.Split(soc.GetAnnotations()[AnnotationMadeFor], "/")
	if len(parts) != 3 {
		return key, "", false
	}
	return types.NamespacedName{Namespace: parts[0], Name: parts[1]}, types.UID(parts[2]), true
}

// TakenOver reports whether a user has changed a SubOperatorConfig that was created for a Subscription, so that it maps
// other namespaces or does not use OLM. Then it is not deleted with the Subscription.
func TakenOver(soc *v2beta2.SubOperatorConfig, namespace string) bool {
	return soc.Spec.Install != v2beta2.InstallOLM || len(soc.Spec.Mapping) != 1 || soc.Spec.Mapping[0].Namespace != namespace
}

// checkMadeFor prevents a SubOperatorConfig from creating another Subscription after the one that it was created for was
// deleted.
func checkMadeFor(soc *v2beta2.SubOperatorConfig, namespace string, subscription *operatorsv1alpha1.Subscription) error {
	key, uid, ok := MadeFor(soc)
	if !ok || TakenOver(soc, namespace) || subscription != nil && subscription.UID == uid {
		return nil
	}
	return status.Waiting(v2beta2.ReasonTerminating, status.PollInterval, "Subscription %q, for which this SubOperatorConfig was created, is deleted", key)
}

// IsMadeFor reports whether a SubOperatorConfig was created for a Subscription.
func IsMadeFor(soc client.Object) bool {
	_, _, ok := MadeFor(soc)
	return ok
}

// Offers reports whether a Subscription refers to the manager's catalog.
func (c *Cluster) Offers(subscription *operatorsv1alpha1.Subscription) bool {
	spec := subscription.Spec
	return spec != nil && c.Available() && c.CatalogSource() == types.NamespacedName{
		Namespace: spec.CatalogSourceNamespace, Name: spec.CatalogSource,
	}
}
