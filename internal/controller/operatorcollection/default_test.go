package operatorcollection

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func TestUntouchedDefault(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*v2beta2.SubOperatorConfig)
		want   bool
	}{
		"as it was made":           {func(*v2beta2.SubOperatorConfig) {}, true},
		"changed and changed back": {func(soc *v2beta2.SubOperatorConfig) { soc.Generation = 3 }, true},
		"changed and restored": {func(soc *v2beta2.SubOperatorConfig) {
			soc.Spec.Mapping = append(soc.Spec.Mapping, v2beta2.NamespaceMapping{Namespace: "other"})
		}, false},
		"no namespace": {func(soc *v2beta2.SubOperatorConfig) { soc.Spec.Mapping = nil }, false},
		"no endpoints": {func(soc *v2beta2.SubOperatorConfig) {
			soc.Spec.Mapping[0].ZosEndpoints = &[]v2beta2.EndpointMapping{}
		}, false},
		"another method": {func(soc *v2beta2.SubOperatorConfig) { soc.Spec.Install = v2beta2.InstallDirect }, false},
		"a user's own":   {func(soc *v2beta2.SubOperatorConfig) { soc.Annotations = nil }, false},
		"on its way out": {func(soc *v2beta2.SubOperatorConfig) { soc.DeletionTimestamp = &now }, false},
	} {
		soc := &v2beta2.SubOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "oc-soc", Generation: 1, Annotations: map[string]string{v2beta2.AnnotationDefault: "true"}},
			Spec:       defaultSpec(client.ObjectKey{Namespace: "ns", Name: "oc"}),
		}
		test.change(soc)
		if got := untouchedDefault(soc); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
