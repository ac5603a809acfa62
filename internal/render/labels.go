package render

import "github.com/collection-operator/collection-operator/internal/collection"

// IDOf returns the identity of the collection that labels name. It is zero for an object that this project did not make.
func IDOf(labels map[string]string) collection.ID {
	if labels[LabelManagedBy] != ManagedBy {
		return collection.ID{}
	}
	return collection.ID{Domain: labels[LabelDomain], Name: labels[LabelName]}
}
