package imports

import (
	"github.com/collection-operator/collection-operator/internal/install/mapping"
)

// Fields by which the cache finds objects, with [client.MatchingFields]. The API server does not know them.
const (
	// IndexCollection finds the OperatorCollections that have a collection or replace it, or say by their labels that they will.
	IndexCollection = "collection"
	// IndexSecret finds the objects that name a Secret.
	IndexSecret = "secret"
	// IndexOperatorCollection finds the SubOperatorConfigs that name an OperatorCollection.
	IndexOperatorCollection = "operatorCollection"
	// IndexState finds the ZosEndpoints of a security domain by the name of the Secret with its state.
	IndexState = "state"
	// IndexNamespace finds the SubOperatorConfigs that map a namespace, or have installed there.
	IndexNamespace = mapping.IndexNamespace
)
