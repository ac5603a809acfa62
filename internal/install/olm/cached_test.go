package olm

import (
	"testing"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKeepSubscription(t *testing.T) {
	whole := &operatorsv1alpha1.Subscription{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "ns", UID: "1", ResourceVersion: "2", Annotations: map[string]string{"big": "text"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}},
		Spec:       &operatorsv1alpha1.SubscriptionSpec{CatalogSource: CatalogSourceName, Package: "p"},
	}
	for source, kept := range map[string]bool{CatalogSourceName: true, "community-operators": false} {
		subscription := whole.DeepCopy()
		subscription.Spec.CatalogSource = source
		object, err := KeepSubscription(subscription)
		if err != nil {
			t.Fatal(err)
		}
		is := object.(*operatorsv1alpha1.Subscription)
		if is.Name != "n" || is.Namespace != "ns" || is.UID != "1" || is.ResourceVersion != "2" || is.ManagedFields != nil {
			t.Errorf("source %s: got %+v", source, is.ObjectMeta)
		}
		if KeptWhole(is) != kept || (is.Annotations != nil) != kept {
			t.Errorf("source %s: got %+v", source, is)
		}
	}
}
