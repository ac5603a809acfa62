package integration

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

var namespaces int

// newNamespace makes a namespace for one story. At the story's end everything in it is deleted the way a user would,
// and must go.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespaces++
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("it-%d", namespaces)}}
	create(ctx, namespace)
	DeferCleanup(func(ctx context.Context) {
		removeCollections(ctx, namespace.Name)
		remove(ctx, namespace)
	}, NodeTimeout(3*time.Minute))
	return namespace.Name
}

func removeCollections(ctx context.Context, namespace string) {
	GinkgoHelper()
	collections := &v2beta2.OperatorCollectionList{}
	Expect(k8s.List(ctx, collections, client.InNamespace(namespace))).To(Succeed())
	for i := range collections.Items {
		patch(ctx, &collections.Items[i], `{"spec":{"deletionPolicy":"Finalize"}}`)
		remove(ctx, &collections.Items[i])
	}
	for i := range collections.Items {
		Eventually(isGone(ctx, &collections.Items[i])).WithContext(ctx).WithTimeout(2 * time.Minute).Should(BeTrue())
	}
	for _, list := range []client.ObjectList{&v2beta2.SubOperatorConfigList{}, &v2beta2.ZosEndpointList{}} {
		for _, object := range listObjects(ctx, list, client.InNamespace(namespace)) {
			remove(ctx, object)
			Eventually(isGone(ctx, object)).WithContext(ctx).Should(BeTrue())
		}
	}
}

func listObjects(ctx context.Context, list client.ObjectList, options ...client.ListOption) []client.Object {
	GinkgoHelper()
	Expect(k8s.List(ctx, list, options...)).To(Succeed())
	var objects []client.Object
	Expect(meta.EachListItem(list, func(item runtime.Object) error {
		gvk, err := apiutil.GVKForObject(item, k8s.Scheme())
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

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(k8s.Create(ctx, object)).To(Succeed(), "create %T %s", object, object.GetName())
	}
}

// patch merges changes, a JSON document, into an object.
func patch(ctx context.Context, object client.Object, changes string) {
	GinkgoHelper()
	Expect(tryPatch(ctx, object, changes)).To(Succeed())
}

func tryPatch(ctx context.Context, object client.Object, changes string) error {
	return k8s.Patch(ctx, object, client.RawPatch("application/merge-patch+json", []byte(changes)))
}

// changeSpec replaces an OperatorCollection's spec as a user's kubectl apply would, past concurrent writes of others.
func changeSpec(ctx context.Context, oc *v2beta2.OperatorCollection, spec v2beta2.OperatorCollectionSpec) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		get(ctx, g, oc)
		spec.APIGroup, spec.DeletionPolicy = oc.Spec.APIGroup, oc.Spec.DeletionPolicy
		oc.Spec = spec
		g.Expect(k8s.Update(ctx, oc)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

func remove(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(k8s.Delete(ctx, object))).To(Succeed())
}

// get reads the object anew.
func get(ctx context.Context, g Gomega, object client.Object) {
	g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
}

// live returns the object as the cluster has it now.
func live(ctx context.Context, g Gomega, object client.Object) *unstructured.Unstructured {
	gvk, err := apiutil.GVKForObject(object, k8s.Scheme())
	g.Expect(err).NotTo(HaveOccurred())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	g.Expect(k8s.Get(ctx, client.ObjectKeyFromObject(object), u)).To(Succeed())
	return u
}

// isGone returns whether the object does not exist any more.
func isGone(ctx context.Context, object client.Object) func(Gomega) bool {
	return func(g Gomega) bool {
		err := k8s.Get(ctx, client.ObjectKeyFromObject(object), object.DeepCopyObject().(client.Object))
		g.Expect(client.IgnoreNotFound(err)).NotTo(HaveOccurred())
		return apierrors.IsNotFound(err)
	}
}

// conditionOf returns a condition of the live object, or an empty one as long as the status speaks of an older spec.
func conditionOf(ctx context.Context, object client.Object, conditionType string) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		u := live(ctx, g, object)
		observed, _, _ := unstructured.NestedInt64(u.Object, "status", "observedGeneration")
		conditions, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
		g.Expect(err).NotTo(HaveOccurred())
		for _, item := range conditions {
			var c metav1.Condition
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(item.(map[string]any), &c)).To(Succeed())
			if c.Type == conditionType && observed == u.GetGeneration() && c.ObservedGeneration == observed {
				return c
			}
		}
		return metav1.Condition{Type: conditionType}
	}
}

func beTrue() types.GomegaMatcher { return HaveField("Status", metav1.ConditionTrue) }

func beFalse() types.GomegaMatcher { return HaveField("Status", metav1.ConditionFalse) }

func beAbsent() types.GomegaMatcher { return HaveField("Status", metav1.ConditionStatus("")) }

func because(reason string) types.GomegaMatcher { return HaveField("Reason", reason) }

func saying(text string) types.GomegaMatcher { return HaveField("Message", ContainSubstring(text)) }

// expectFailure waits until the object is not Ready for this reason, says so, and is Stalled or Reconciling, never both.
func expectFailure(ctx context.Context, object client.Object, reason, message string, stalled bool) {
	GinkgoHelper()
	Eventually(conditionOf(ctx, object, v2beta2.ConditionReady)).WithContext(ctx).
		Should(And(beFalse(), because(reason), saying(message)))
	set, unset := v2beta2.ConditionReconciling, v2beta2.ConditionStalled
	if stalled {
		set, unset = unset, set
	}
	Eventually(func(g Gomega) {
		g.Expect(conditionOf(ctx, object, set)(g)).To(And(beTrue(), because(reason)))
		g.Expect(conditionOf(ctx, object, unset)(g)).To(beAbsent())
	}).WithContext(ctx).Should(Succeed())
}

func expectReady(ctx context.Context, object client.Object) {
	GinkgoHelper()
	Eventually(conditionOf(ctx, object, v2beta2.ConditionReady)).WithContext(ctx).Should(beTrue())
	Eventually(func(g Gomega) {
		g.Expect(conditionOf(ctx, object, v2beta2.ConditionReconciling)(g)).To(beAbsent())
		g.Expect(conditionOf(ctx, object, v2beta2.ConditionStalled)(g)).To(beAbsent())
	}).WithContext(ctx).Should(Succeed())
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
	Eventually(func(g Gomega) {
		d := deployment(namespace, name)
		get(ctx, g, d)
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable",
				LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		}
		g.Expect(k8s.Status().Update(ctx, d)).To(Succeed())
	}).WithContext(ctx).Should(Succeed())
}

// installed are the objects that a SubOperatorConfig's inventory lists, as they are now.
func installed(ctx context.Context, soc *v2beta2.SubOperatorConfig) []*unstructured.Unstructured {
	GinkgoHelper()
	get(ctx, NewWithT(GinkgoT()), soc)
	var objects []*unstructured.Unstructured
	for _, ref := range soc.Status.Inventory {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(ref.APIVersion)
		u.SetKind(ref.Kind)
		Expect(k8s.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, u)).To(Succeed(), "%+v", ref)
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
type auditMark int64

func markAudit() auditMark {
	GinkgoHelper()
	info, err := os.Stat(os.Getenv(auditLogVariable))
	Expect(err).NotTo(HaveOccurred())
	return auditMark(info.Size())
}

// writesSince returns every write that the manager has asked for since the mark, as verb and path. Dry runs and questions
// about its own permissions are left out, since they write nothing.
func (m auditMark) writesSince() []string {
	GinkgoHelper()
	file, err := os.Open(os.Getenv(auditLogVariable))
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	_, err = file.Seek(int64(m), 0)
	Expect(err).NotTo(HaveOccurred())
	var writes []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event struct {
			Verb, RequestURI string
			User             struct{ Username string }
		}
		if json.Unmarshal(scanner.Bytes(), &event) != nil {
			continue // The first or the last line may be cut.
		}
		if event.User.Username == managerUser && !strings.Contains(event.RequestURI, "dryRun=All") &&
			!strings.HasSuffix(event.RequestURI, "/selfsubjectrulesreviews") {
			writes = append(writes, event.Verb+" "+event.RequestURI)
		}
	}
	Expect(scanner.Err()).NotTo(HaveOccurred())
	return writes
}

// afterwards waits until an object that is created now is younger than the given one: the API server counts seconds.
func afterwards(ctx context.Context, object client.Object) {
	GinkgoHelper()
	get(ctx, NewWithT(GinkgoT()), object)
	next := object.GetCreationTimestamp().Add(time.Second)
	Eventually(func() bool { return time.Now().After(next) }).WithContext(ctx).WithPolling(10 * time.Millisecond).Should(BeTrue())
}
