package render

import "github.com/collection-operator/collection-operator/internal/collection"

// IDOf returns the collection that labels identify. It is zero for an object that this project did not create.
func IDOf(labels map[string]string) collection.ID {
	if labels[LabelManagedBy] != ManagedBy {
		return collection.ID{}
	}
	return collection.ID{Domain: labels[LabelDomain], Name: labels[LabelName]}
}
