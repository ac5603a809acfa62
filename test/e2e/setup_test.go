//go:build e2e

package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	. "github.com/collection-operator/collection-operator/test/fixture"
)

// setUp creates what is there before any collection: two systems and a web server with all archives.
func setUp(ctx context.Context) {
	Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	lpar1.start(ctx)
	lpar2.start(ctx)
	buildArchives()
	Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "archives", Namespace: namespace},
		BinaryData: archives,
	})
	applyManifest(ctx, "archives.yaml", "NAMESPACE", namespace, "CONFIGMAP", "archives")
	for _, name := range []string{lpar1.name, lpar2.name, "archives"} {
		kubectl(ctx, "rollout", "status", "-n", namespace, "deployment/"+name, "--timeout=3m")
	}
}

// tearDown removes what a run left, also a run that was killed: first the way a user would, then by force.
func tearDown(ctx context.Context) {
	GinkgoHelper()
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if K8s.Get(ctx, client.ObjectKeyFromObject(space), space) != nil {
		return
	}
	for _, t := range []*target{lpar1, lpar2} {
		_, _ = Output(ctx, kubectlPath(), "exec", "-n", namespace, "deployment/"+t.name, "--", "rm", "-f", "/run/target/down")
	}
	var collections v2beta2.OperatorCollectionList
	if err := K8s.List(ctx, &collections, client.InNamespace(namespace)); err == nil {
		for i := range collections.Items {
			PatchIfFound(ctx, &collections.Items[i], `{"spec":{"deletionPolicy":"Finalize"}}`)
			Remove(ctx, &collections.Items[i])
		}
		deadline := time.Now().Add(90 * time.Second)
		for _, oc := range collections.Items {
			_, _ = Output(ctx, kubectlPath(), "wait", "-n", namespace, "--for=delete", "operatorcollection/"+oc.Name,
				"--timeout="+max(time.Until(deadline), time.Second).String())
		}
	}
	forceRemoval(ctx)
	Remove(ctx, space)
	Eventually(ctx, Gone(ctx, space)).Should(BeTrue())
}

// forceRemoval strips the finalizers of all that is left of the specs and removes the CRDs of their collections.
func forceRemoval(ctx context.Context) {
	GinkgoHelper()
	var crds apiextensionsv1.CustomResourceDefinitionList
	Expect(K8s.List(ctx, &crds)).To(Succeed())
	for i := range crds.Items {
		crd := &crds.Items[i]
		generated := crd.Labels["operator-domain"] == domain
		if !generated && crd.Spec.Group != v2beta2.GroupVersion.Group {
			continue
		}
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(crd.Spec.Group + "/" + crd.Spec.Versions[0].Name)
		list.SetKind(crd.Spec.Names.ListKind)
		if err := K8s.List(ctx, list, client.InNamespace(namespace)); err != nil {
			continue
		}
		for j := range list.Items {
			if len(list.Items[j].GetFinalizers()) > 0 {
				PatchIfFound(ctx, &list.Items[j], `{"metadata":{"finalizers":null}}`)
			}
			Remove(ctx, &list.Items[j])
		}
		if generated {
			Remove(ctx, crd)
		}
	}
}
