package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/collection-operator/collection-operator/test/fixture"
)

// All other specs run under this restriction: without it, they would miss what the manager may not do on OpenShift.
var _ = Describe("The control plane", func() {
	It("restricts owner references as OpenShift does", func(ctx context.Context) {
		namespace, user := newNamespace(ctx), "restricted"
		allow(ctx, namespace, user, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create", "patch"}})
		awaitRight(ctx, user, namespace, "patch", "configmaps", "")
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
		Create(ctx, owner)
		owned := func(block *bool) *corev1.ConfigMap {
			return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owned", OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: block},
			}}}
		}

		Expect(As(user).Create(ctx, owned(ptr.To(true)))).To(MatchError(ContainSubstring("cannot set blockOwnerDeletion")))
		Expect(As(user).Create(ctx, owned(nil))).To(Succeed())
		Expect(As(user).Patch(ctx, owned(nil), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"ownerReferences":null}}`)))).
			To(MatchError(ContainSubstring("cannot set an ownerRef on a resource you can't delete")))
	})
})
