package controller

import (
	"context"

	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/internal/apply"
	"github.com/collection-operator/collection-operator/internal/install"
	"github.com/collection-operator/collection-operator/internal/render"
)

// annotationCatalog, on the CatalogSource, has the digest of the catalog's content. OLM reads a CatalogSource again when it
// changes.
const annotationCatalog = "zoscb.ibm.com/catalog-digest"

// applyCatalogSource keeps the CatalogSource, by which OLM finds the catalog.
func (r *CatalogReconciler) applyCatalogSource(ctx context.Context, digest string) error {
	applier := &apply.Applier{Client: r.Client, Reader: r.Reader}
	_, err := applier.Apply(ctx, []client.Object{r.catalogSource(digest)}, func(live client.Object) bool {
		return live.GetLabels()[render.LabelManagedBy] == render.ManagedBy
	})
	return install.ApplyError(err)
}

// catalogSource has no update strategy: OLM polls images, not addresses.
func (r *CatalogReconciler) catalogSource(digest string) *operatorsv1alpha1.CatalogSource {
	name := r.OLM.CatalogSource()
	return &operatorsv1alpha1.CatalogSource{
		TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.CatalogSourceKind},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: name.Namespace, Name: name.Name,
			Labels:      map[string]string{render.LabelManagedBy: render.ManagedBy},
			Annotations: map[string]string{annotationCatalog: digest},
		},
		Spec: operatorsv1alpha1.CatalogSourceSpec{
			SourceType: operatorsv1alpha1.SourceTypeGrpc, Address: r.OLM.CatalogAddress,
			DisplayName: "Collection Operator", Publisher: "Collection Operator",
			Description: "Operators of the Ansible Operator Collections that this cluster's OperatorCollections have imported.",
			Icon:        render.DefaultIcon(),
		},
	}
}
