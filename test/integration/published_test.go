package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// flagOf returns the field flag of a version of a CRD.
func flagOf(crd *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.JSONSchemaProps {
	for _, v := range crd.Spec.Versions {
		if v.Name == version {
			flag := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["flag"]
			return &flag
		}
	}
	return nil
}

var _ = Describe("A required boolean", func() {
	It("must be set, but in a version that was published with false", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		s.variables = "{name: flag, displayName: Flag, type: boolean, required: true}"
		importSample(ctx, namespace, s)
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: s.crdName()}}
		Get(ctx, Default, crd)
		Expect(flagOf(crd, s.apiVersion()).Default).To(BeNil())
		Eventually(ctx, func() error { return K8s.Create(ctx, s.instance(namespace, "a"), client.DryRunAll) }).
			Should(And(Satisfy(apierrors.IsInvalid), MatchError(ContainSubstring("spec.flag: Required value"))))

		By("publishing the version as earlier managers did")
		Eventually(ctx, func(g Gomega) {
			Get(ctx, g, crd)
			flag := flagOf(crd, s.apiVersion())
			flag.Default = &apiextensionsv1.JSON{Raw: []byte("false")}
			crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["flag"] = *flag
			g.Expect(K8s.Update(ctx, crd)).To(Succeed())
		}).Should(Succeed())

		By("importing a newer version")
		newer := *s
		newer.version = "1.1.0"
		oc := newCollection(namespace, "newer", newer.pinned())
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		Get(ctx, Default, crd)
		Expect(flagOf(crd, s.apiVersion())).To(HaveField("Default.Raw", BeEquivalentTo("false")))
		Expect(flagOf(crd, newer.apiVersion())).To(HaveField("Default", BeNil()))
		Eventually(ctx, func() error { return K8s.Create(ctx, s.instance(namespace, "a"), client.DryRunAll) }).Should(Succeed())
	})
})
