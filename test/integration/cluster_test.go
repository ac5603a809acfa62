package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

var namespaces int

// newNamespace makes a namespace for one spec; names sort in the order in which they were made. At the spec's end everything in it is deleted the way a user would,
// and must go.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespaces++
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("it-%04d", namespaces)}}
	Create(ctx, namespace)
	DeferCleanup(func(ctx context.Context) {
		removeCollections(ctx, namespace.Name)
		Remove(ctx, namespace)
	})
	return namespace.Name
}

func removeCollections(ctx context.Context, namespace string) {
	GinkgoHelper()
	collections := &v2beta2.OperatorCollectionList{}
	Expect(K8s.List(ctx, collections, client.InNamespace(namespace))).To(Succeed())
	for i := range collections.Items {
		PatchIfFound(ctx, &collections.Items[i], `{"spec":{"deletionPolicy":"Finalize"}}`)
		Remove(ctx, &collections.Items[i])
	}
	for i := range collections.Items {
		Eventually(ctx, Gone(ctx, &collections.Items[i])).Should(BeTrue())
	}
	for _, list := range []client.ObjectList{&v2beta2.SubOperatorConfigList{}, &v2beta2.ZosEndpointList{}} {
		for _, object := range listObjects(ctx, list, client.InNamespace(namespace)) {
			Remove(ctx, object)
			Eventually(ctx, Gone(ctx, object)).Should(BeTrue())
		}
	}
}

func listObjects(ctx context.Context, list client.ObjectList, options ...client.ListOption) []client.Object {
	GinkgoHelper()
	Expect(K8s.List(ctx, list, options...)).To(Succeed())
	var objects []client.Object
	Expect(meta.EachListItem(list, func(item runtime.Object) error {
		gvk, err := apiutil.GVKForObject(item, K8s.Scheme())
		item.GetObjectKind().SetGroupVersionKind(gvk)
		objects = append(objects, item.(client.Object))
		return err
	})).To(Succeed())
	return objects
}

// madeIn names everything in a namespace that the manager could have made, as kind/name.
func madeIn(ctx context.Context, namespace string) []string {
	GinkgoHelper()
	var names []string
	for _, list := range []client.ObjectList{
		&v2beta2.SubOperatorConfigList{}, &appsv1.DeploymentList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &networkingv1.NetworkPolicyList{},
	} {
		for _, object := range listObjects(ctx, list, client.InNamespace(namespace)) {
			if object.GetName() != "default" && object.GetName() != "kube-root-ca.crt" {
				names = append(names, object.GetObjectKind().GroupVersionKind().Kind+"/"+object.GetName())
			}
		}
	}
	return names
}

// changeSpec replaces an OperatorCollection's spec as a user's kubectl apply would, past concurrent writes of others.
func changeSpec(ctx context.Context, oc *v2beta2.OperatorCollection, spec v2beta2.OperatorCollectionSpec) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		Get(ctx, g, oc)
		spec.APIGroup, spec.DeletionPolicy = oc.Spec.APIGroup, oc.Spec.DeletionPolicy
		oc.Spec = spec
		g.Expect(K8s.Update(ctx, oc)).To(Succeed())
	}).Should(Succeed())
}

func deployment(namespace, name string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func customResourceDefinition(name string) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// makeAvailable plays the part of the Deployment controller and of a node.
func makeAvailable(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		d := deployment(namespace, name)
		Get(ctx, g, d)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
				LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		}
		g.Expect(K8s.Status().Update(ctx, d)).To(Succeed())
	}).Should(Succeed())
}

// installed are the objects that a SubOperatorConfig's inventory lists, as they are now.
func installed(ctx context.Context, soc *v2beta2.SubOperatorConfig) []*unstructured.Unstructured {
	GinkgoHelper()
	Get(ctx, Default, soc)
	var objects []*unstructured.Unstructured
	for _, ref := range soc.Status.Inventory {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(ref.APIVersion)
		u.SetKind(ref.Kind)
		Expect(K8s.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, u)).To(Succeed(), "%+v", ref)
		objects = append(objects, u)
	}
	return objects
}

// versions are the resourceVersions of objects, by kind and name.
func versions(objects []*unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	for _, object := range objects {
		found[object.GetKind()+"/"+object.GetName()] = object.GetResourceVersion()
	}
	return found
}

// auditMark is a place in the API server's audit log.
type auditMark struct {
	log    *AuditLog
	writes []string
}

func markAudit() *auditMark {
	GinkgoHelper()
	return &auditMark{log: OpenAuditLog(controlPlane.AuditLog)}
}

// writesSince returns every write that the manager has asked for since the mark, as verb and path. Dry runs and questions
// about its own permissions are left out, since they write nothing.
func (m *auditMark) writesSince() []string {
	GinkgoHelper()
	for _, event := range m.log.Next() {
		if event.User.Username == managerUser && !event.DryRun() && !strings.HasSuffix(event.ObjectRef.Resource, "reviews") {
			m.writes = append(m.writes, event.Verb+" "+event.RequestURI)
		}
	}
	return m.writes
}

// writesAbout returns those of writesSince whose path has one of some names of namespaces and objects. Others may be about what earlier
// specs have left behind, which goes in the background.
func (m *auditMark) writesAbout(names ...string) func() []string {
	return func() []string {
		return slices.DeleteFunc(slices.Clone(m.writesSince()), func(write string) bool {
			_, uri, _ := strings.Cut(write, " ")
			path, _, _ := strings.Cut(uri, "?")
			return !slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool { return slices.Contains(names, segment) })
		})
	}
}

// expectRest waits until the manager has written nothing for two seconds, or nothing about some names.
func expectRest(ctx context.Context, names ...string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		mark := markAudit()
		writes := mark.writesSince
		if len(names) > 0 {
			writes = mark.writesAbout(names...)
		}
		g.Consistently(writes).WithTimeout(2 * time.Second).Should(BeEmpty())
	}).Should(Succeed(), "it comes to rest")
}

// afterwards waits until an object that is created now is younger than the given one: the API server counts seconds.
func afterwards(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Get(ctx, Default, object)
	next := object.GetCreationTimestamp().Add(time.Second)
	Eventually(ctx, func() bool { return time.Now().After(next) }).WithPolling(10 * time.Millisecond).Should(BeTrue())
}
