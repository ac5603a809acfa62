package integration

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// answer is what the API server answers to the GET request of a client.
func answer(ctx context.Context, path string) map[string]any {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(RestConfig)
	Expect(err).NotTo(HaveOccurred())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, RestConfig.Host+path, nil)
	Expect(err).NotTo(HaveOccurred())
	response, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(response.StatusCode).To(Equal(http.StatusOK), path)
	var object map[string]any
	Expect(json.Unmarshal(content, &object)).To(Succeed())
	return object
}

var _ = Describe("The editor extension", func() {
	It("finds collections, their kinds, resources and pods where it looks for them", func(ctx context.Context) {
		namespace, s := newNamespace(ctx), newSample()
		theManager.upload(s.name, s.version, s.archive())
		oc := newCollection(namespace, "oc", skipping)
		oc.Labels = s.labels()
		Create(ctx, oc)
		Eventually(ctx, Condition(ctx, oc, v2beta2.ConditionImported)).Should(ConditionTrue())
		makeAvailable(ctx, namespace, s.operator())
		ExpectReady(ctx, oc)
		Create(ctx, s.instance(namespace, "mine"))
		ours := And(HaveKeyWithValue("operator-domain", domain), HaveKeyWithValue("operator-name", s.name),
			HaveKeyWithValue("operator-version", s.version), HaveKeyWithValue("managed-by", "ibm-zos-cloud-broker"))
		inNamespace := func(api, resource string) map[string]any {
			return answer(ctx, "/apis/"+api+"/namespaces/"+namespace+"/"+resource)
		}
		labels := func(object any) any { return object.(map[string]any)["metadata"].(map[string]any)["labels"] }

		items := inNamespace("zoscb.ibm.com/v2beta2", "operatorcollections")["items"].([]any)
		Expect(items).To(HaveLen(1))
		Expect(labels(items[0])).To(ours)
		Expect(items[0]).To(HaveKeyWithValue("status", And(HaveKeyWithValue("phase", "Successful"), HaveKeyWithValue("config", HaveKey("collectionPath")))))

		configs := inNamespace("zoscb.ibm.com/v2beta2", "suboperatorconfigs")["items"].([]any)
		Expect(configs).To(HaveLen(1))
		Expect(labels(configs[0])).To(ours)
		Expect(configs[0]).To(HaveKeyWithValue("metadata", HaveKeyWithValue("name", "oc-soc")))
		Expect(configs[0]).To(HaveKeyWithValue("status", And(HaveKeyWithValue("phase", "Successful"),
			HaveKeyWithValue("customresourcedefinition", Not(BeEmpty())))))

		resources := inNamespace("suboperator.zoscb.ibm.com/"+s.apiVersion(), strings.ToLower(s.kind)+"s")["items"].([]any)
		Expect(resources).To(HaveExactElements(And(HaveKeyWithValue("metadata", HaveKeyWithValue("name", "mine")),
			HaveKeyWithValue("status", HaveKeyWithValue("phase", "Pending")))), "one without a phase spins for ever")

		template := deployment(namespace, s.operator())
		Get(ctx, Default, template)
		Expect(template.Spec.Template.Labels).To(ours)
		Expect(template.Spec.Template.Spec.InitContainers).NotTo(BeEmpty())
		Expect(template.Spec.Template.Spec.InitContainers).To(HaveEach(HaveField("Name", HavePrefix("init-"))), "others that have ended look failed")
		Expect(template.Spec.Template.Spec.Containers).To(HaveExactElements(HaveField("Name", "operator")))
	})
})
