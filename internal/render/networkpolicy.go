package render

import (
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// networkPolicy lets nobody connect to the operator's pods: they serve nothing but probes, and those come from their own
// node, which a NetworkPolicy never keeps out.
func networkPolicy(c *collection.Collection, o InstallationOptions) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: objectMeta(c, o.Namespace, c.OperatorName()),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: IdentityLabels(c)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
}
