//go:build e2e

package e2e

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func deletionStories() {
	keeper := dataFile("keeper", map[string]any{"zosendpoint": lpar1.name, "filename": "keeper.txt", "lines": []any{"stay"}})

	It("refuses to delete a collection that has instances, and says which", func(ctx context.Context) {
		create(ctx, keeper.DeepCopy())
		expectSuccess(ctx, keeper)
		remove(ctx, files.DeepCopy())
		Eventually(condition(ctx, files, v2beta2.ConditionReady)).WithContext(ctx).
			Should(And(beFalse(), because(v2beta2.ReasonInstancesExist), saying("keeper")))

		patch(ctx, keeper.DeepCopy(), `{"spec":{"lines":["still served"]}}`)
		Eventually(func(g Gomega) {
			g.Expect(lpar1.content(ctx, "keeper.txt")).To(HaveSuffix("\nstill served\n"))
		}).WithContext(ctx).Should(Succeed())
		Consistently(gone(ctx, filesSOC)).WithContext(ctx).WithTimeout(5 * time.Second).Should(BeFalse())
		live := &appsv1.Deployment{}
		Expect(k8s.Get(ctx, client.ObjectKeyFromObject(operator), live)).To(Succeed())
		Expect(live.Status.ReadyReplicas).To(BeEquivalentTo(1))
	}, NodeTimeout(5*time.Minute))

	It("with Finalize runs the finalizer playbooks and leaves the cluster as it was", func(ctx context.Context) {
		patch(ctx, files.DeepCopy(), `{"spec":{"deletionPolicy":"Finalize"}}`)
		Eventually(gone(ctx, files)).WithContext(ctx).WithTimeout(4 * time.Minute).Should(BeTrue())
		Expect(lpar1.files(ctx)).NotTo(ContainElement("keeper.txt"))
		Expect(lpar1.files(ctx)).To(ContainElements("old.lst", "OLDER.lst"), "what was only recorded stays")
		Eventually(gone(ctx, filesSOC)).WithContext(ctx).Should(BeTrue())

		remove(ctx, lpar1.credential)
		Eventually(func(g Gomega) {
			after := listObjects(ctx, namespace)
			g.Expect(slices.DeleteFunc(slices.Clone(after), in(objectsBefore))).To(BeEmpty(), "left behind")
			g.Expect(slices.DeleteFunc(slices.Clone(objectsBefore), in(after))).To(BeEmpty(), "gone too")
		}).WithContext(ctx).Should(Succeed())
	}, NodeTimeout(8*time.Minute))
}

func in(list []string) func(string) bool {
	return func(item string) bool { return slices.Contains(list, item) }
}

// listObjects lists every object of every kind in the cluster that can be listed, as "resource namespace/name". An
// object whose name the server made up is listed under what the name was made from. Left out are kinds that come and
// go by themselves: Events and Leases, metrics, and component statuses, which are no objects. The namespace must be one
// with a web server for archives.
func listObjects(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	discoveryClient := discovery.NewDiscoveryClientForConfigOrDie(restConfig)
	lists, err := discoveryClient.ServerPreferredResources()
	Expect(err).NotTo(HaveOccurred())
	metadataClient := metadata.NewForConfigOrDie(restConfig)
	objects := []string{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		Expect(err).NotTo(HaveOccurred())
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains([]string{"events", "leases", "componentstatuses"}, resource.Name) || version.Group == "metrics.k8s.io" {
				continue
			}
			found, err := metadataClient.Resource(version.WithResource(resource.Name)).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred(), resource.Name)
			for _, item := range found.Items {
				name := item.Name
				if item.GenerateName != "" {
					name = item.GenerateName + "*"
				}
				objects = append(objects, resource.Name+" "+item.Namespace+"/"+name)
			}
		}
	}
	Expect(objects).To(ContainElements("services "+namespace+"/archives", "customresourcedefinitions /zosendpoints.zoscb.ibm.com"))
	slices.Sort(objects)
	return objects
}
