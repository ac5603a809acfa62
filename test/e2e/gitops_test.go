//go:build e2e

package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
	"github.com/collection-operator/collection-operator/test/gitops"
)

// expectHealth expects that Argo CD, with the health checks that the project ships, and Flux say this about an object.
func expectHealth(ctx context.Context, object client.Object, argo, flux string) {
	GinkgoHelper()
	expectHealthOf(Default, Live(ctx, Default, object), argo, flux)
}

func expectHealthOf(g Gomega, live *unstructured.Unstructured, argo, flux string) {
	GinkgoHelper()
	checks, err := gitops.ProjectChecks()
	g.Expect(err).NotTo(HaveOccurred())
	got, err := checks.Judge(live)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(And(HaveField("Argo", argo), HaveField("Flux", flux)), MustJSON(live.Object["status"]))
}
