package controller

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Fields by which the cache finds objects, with [client.MatchingFields]. The API server does not know them.
const (
	// indexCollection finds the OperatorCollections that have a collection, or say by their labels that they will.
	indexCollection = "collection"
	// indexSecret finds the OperatorCollections that name a Secret.
	indexSecret = "secret"
	// indexOperatorCollection finds the SubOperatorConfigs that name an OperatorCollection.
	indexOperatorCollection = "operatorCollection"
)

// AddIndexes makes the cache keep the indexes that the controllers use. It is called before the cache starts.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, indexCollection, func(object client.Object) []string {
			oc := object.(*v2beta2.OperatorCollection)
			return []string{importedID(oc).String(), labelledID(oc).String()}
		}),
		indexer.IndexField(ctx, &v2beta2.OperatorCollection{}, indexSecret, func(object client.Object) []string {
			spec := object.(*v2beta2.OperatorCollection).Spec
			return []string{spec.CredentialsSecret, spec.SignatureSecret}
		}),
		indexer.IndexField(ctx, &v2beta2.SubOperatorConfig{}, indexOperatorCollection, func(object client.Object) []string {
			return []string{object.(*v2beta2.SubOperatorConfig).Spec.OperatorCollection}
		}),
	)
}
