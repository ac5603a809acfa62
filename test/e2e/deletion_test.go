//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

func deletionSpecs() {
	keeper := dataFile("keeper", map[string]any{"zosendpoint": lpar1.name, "filename": "keeper.txt", "lines": []any{"stay"}})

	It("refuses to delete a collection that has instances, and says which", func(ctx context.Context) {
		Create(ctx, keeper.DeepCopy())
		expectSuccess(ctx, keeper)
		// As Argo CD deletes. Then the garbage collector deletes what has an owner reference, at once.
		Expect(K8s.Delete(ctx, files.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
		Eventually(ctx, Condition(ctx, files, v2beta2.ConditionReady)).
			Should(And(ConditionFalse(), WithReason(v2beta2.ReasonInstancesExist), WithMessage("keeper")))

		Patch(ctx, keeper.DeepCopy(), `{"spec":{"lines":["still served"]}}`)
		Eventually(ctx, func(g Gomega) {
			g.Expect(lpar1.content(ctx, "keeper.txt")).To(HaveSuffix("\nstill served\n"))
		}).Should(Succeed())
		Consistently(ctx, Gone(ctx, filesSOC)).WithTimeout(5 * time.Second).Should(BeFalse())
		live := &appsv1.Deployment{}
		Expect(K8s.Get(ctx, client.ObjectKeyFromObject(operator), live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))
	})

	It("with Finalize runs the finalizer playbooks and leaves nothing of the collection", func(ctx context.Context) {
		Patch(ctx, files.DeepCopy(), `{"spec":{"deletionPolicy":"Finalize"}}`)
		Eventually(ctx, Gone(ctx, files)).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement("keeper.txt"))
		Expect(lpar1.files(ctx)).To(ContainElements("old.lst", "OLDER.lst"), "what was only recorded stays")
		Eventually(ctx, Gone(ctx, filesSOC)).Should(BeTrue())

		Remove(ctx, lpar1.credential)
		Remove(ctx, helloContent)
		// Other specs create objects meanwhile; the whole cluster is compared where nothing else happens.
		Eventually(ctx, func(g Gomega) {
			after := ours(listObjects(ctx, namespace))
			g.Expect(slices.DeleteFunc(slices.Clone(after), in(objectsBefore))).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(objectsBefore), in(after))).To(BeEmpty(), "gone too")
			var crds apiextensionsv1.CustomResourceDefinitionList
			g.Expect(K8s.List(ctx, &crds, client.MatchingLabels{"operator-domain": domain})).To(Succeed())
			g.Expect(crds.Items).To(BeEmpty())
		}).Should(Succeed())
	})
}

// ours are the objects in the main container's namespace, and those with the domain or the namespace in their names.
func ours(objects []string) []string {
	return slices.DeleteFunc(objects, func(object string) bool {
		_, name, _ := strings.Cut(object, " ")
		return !strings.HasPrefix(name, namespace+"/") && !strings.Contains(name, domain) && !strings.Contains(name, ":"+namespace+":")
	})
}

func in(list []string) func(string) bool {
	return func(item string) bool { return slices.Contains(list, item) }
}

// listObjects lists every object of every kind in the cluster that can be listed, as "resource namespace/name". An
// object whose name the server made up is listed under what the name was made from. Left out are kinds that come and
// go by themselves: Events and Leases, metrics, and component statuses, which are no objects. The namespace must be one
// with a web server for archives. It begins again if a kind goes meanwhile: other specs remove their collections.
func listObjects(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var objects []string
	Eventually(ctx, func(g Gomega) { objects = listOnce(ctx, g, namespace) }).Should(Succeed())
	return objects
}

func listOnce(ctx context.Context, g Gomega, namespace string) []string {
	discoveryClient := discovery.NewDiscoveryClientForConfigOrDie(RestConfig)
	lists, err := discoveryClient.ServerPreferredResources()
	g.Expect(err).NotTo(HaveOccurred())
	metadataClient := metadata.NewForConfigOrDie(RestConfig)
	objects := []string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		g.Expect(err).NotTo(HaveOccurred())
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains([]string{"events", "leases", "componentstatuses"}, resource.Name) || version.Group == "metrics.k8s.io" {
				continue
			}
			found, err := metadataClient.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			g.Expect(err).NotTo(HaveOccurred(), resource.Name)
			for _, item := range found.Items {
				name := item.Name
				if item.GenerateName != "" {
					name = item.GenerateName + "*"
				}
				objects = append(objects, resource.Name+" "+item.Namespace+"/"+name)
			}
		}
	}
	g.Expect(objects).To(ContainElements("services "+namespace+"/archives", "customresourcedefinitions /zosendpoints.zoscb.ibm.com"))
	slices.Sort(objects)
	return objects
}
