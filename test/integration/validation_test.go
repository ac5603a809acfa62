package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func beRefused(message string) types.GomegaMatcher {
	return And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring(message)))
}

var _ = Describe("The API server", func() {
	It("lets credentialType be set, but not changed after that", func(ctx context.Context) {
		soc := newSOC(newNamespace(ctx), "soc", "absent")
		Create(ctx, soc)
		Patch(ctx, soc, `{"spec":{"credentialType":"personal"}}`)
		const refusal = "credentialType cannot be changed once it is set"
		Expect(TryPatch(ctx, soc, `{"spec":{"credentialType":"shared"}}`)).To(beRefused(refusal))
		Expect(TryPatch(ctx, soc, `{"spec":{"credentialType":null}}`)).To(beRefused(refusal))
		Expect(TryPatch(ctx, soc, `{"spec":{"operatorCollection":"other"}}`)).To(beRefused("operatorCollection cannot be changed"))
	})

	It("does not let apiGroup be changed", func(ctx context.Context) {
		oc := newCollection(newNamespace(ctx), "oc", v2beta2.OperatorCollectionSpec{Suspend: true})
		Create(ctx, oc)
		Expect(oc.Spec.APIGroup).To(Equal(v2beta2.APIGroupShared))
		Expect(oc.Spec.DeletionPolicy).To(Equal(v2beta2.DeletionBlock))
		Expect(TryPatch(ctx, oc, `{"spec":{"apiGroup":"PerCollection"}}`)).To(beRefused("apiGroup cannot be changed"))
	})
})

// newSOC is a SubOperatorConfig that maps its own namespace.
func newSOC(namespace, name, collection string, mapping ...v2beta2.NamespaceMapping) *v2beta2.SubOperatorConfig {
	if mapping == nil {
		mapping = []v2beta2.NamespaceMapping{{Namespace: namespace}}
	}
	return &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v2beta2.SubOperatorConfigSpec{OperatorCollection: collection, Mapping: mapping},
	}
}
