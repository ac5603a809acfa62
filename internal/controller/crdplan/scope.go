package crdplan

import (
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// DefinitionScope is what one reconcile knows of the CRDs of a collection.
type DefinitionScope struct {
	ID model.ID
	// All are the OperatorCollections of the cluster, and Owners those that have the collection, or, in the namespace that it belongs to,
	// say by their labels that they will.
	All, Owners []v2beta2.OperatorCollection
	// Definitions are the CRDs, as they were read live or written since then.
	Definitions []apiextensionsv1.CustomResourceDefinition
	// Versions are those that the CRDs are written for.
	Versions []crd.Version
	// Again is the delay before they are to be looked at again, or zero.
	Again time.Duration
	// Unsettled is true if something is to be done that depends on more than the CRDs and what they are planned from.
	Unsettled bool
}

// Written replaces a CRD in the scope.
func (s *DefinitionScope) Written(definition *apiextensionsv1.CustomResourceDefinition) {
	i := slices.IndexFunc(s.Definitions, func(d apiextensionsv1.CustomResourceDefinition) bool { return d.Name == definition.Name })
	if i < 0 {
		s.Definitions = append(s.Definitions, *definition)
		return
	}
	s.Definitions[i] = *definition
}
