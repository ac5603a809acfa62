//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

func discoverySpecs() {
	discovery := instance("FileDiscovery", "discovery", map[string]any{"zosendpoint": lpar1.name, "pattern": "*.lst"})

	// discovered lists the data files that the discovery made.
	discovered := func(ctx context.Context) func(Gomega) []unstructured.Unstructured {
		return func(g Gomega) []unstructured.Unstructured {
			list := &unstructured.UnstructuredList{}
			list.SetAPIVersion(instanceAPI)
			list.SetKind("DataFileList")
			g.Expect(K8s.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{"discovered-by": "discovery"})).To(Succeed())
			return list.Items
		}
	}

	It("makes resources for them", func(ctx context.Context) {
		lpar1.shell(ctx, "mkdir -p "+lpar1.base()+"; echo old > "+lpar1.base()+"/old.lst; echo older > "+lpar1.base()+"/OLDER.lst; chown -R ibmuser "+lpar1.base())
		Create(ctx, discovery.DeepCopy())
		expectSuccess(ctx, discovery)
		found := discovered(ctx)(Default)
		Expect(found).To(HaveLen(2))
		for i := range found {
			expectSuccess(ctx, &found[i])
			Expect(found[i].GetOwnerReferences()).To(BeEmpty())
		}
		Expect(lpar1.content(ctx, "old.lst")).To(Equal("old\n"))
		Expect(Live(ctx, Default, discovery).GetFinalizers()).To(BeEmpty(), "the kind has no finalizer playbook")
	})

	It("leaves what it discovered when it is deleted", func(ctx context.Context) {
		Remove(ctx, discovery.DeepCopy())
		Eventually(ctx, Gone(ctx, discovery)).Should(BeTrue())
		Consistently(ctx, discovered(ctx)).WithTimeout(5 * time.Second).Should(HaveLen(2))
		Expect(lpar1.files(ctx)).To(ContainElements("old.lst", "OLDER.lst"))
	})
}
