package crd

import (
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const (
	// maxHolders limits the names in an annotation. Annotations of an object have at most 256 KiB, and a name at most 317 bytes.
	maxHolders = 500
	// manyHolders is recorded in place of the names beyond maxHolders. It is never removed: who they were is not known.
	manyHolders = "*"
)

// Holders returns the OperatorCollections that have the kind of a CRD according to the CRD itself, as namespace/name, sorted. An
// OperatorCollection remains until its deletion, or that it has the kind no longer, was seen and recorded.
func Holders(definition *apiextensionsv1.CustomResourceDefinition) []string {
	text := definition.Annotations[render.AnnotationHeldBy]
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// SetHolders records the OperatorCollections that have the kind of a CRD, as namespace/name. If there were some and none is left,
// it records that the CRD is unused since now.
func SetHolders(definition *apiextensionsv1.CustomResourceDefinition, holders []string, now time.Time) {
	before := Holders(definition)
	many := slices.Contains(holders, manyHolders)
	holders = slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(holders))), func(name string) bool { return name == manyHolders })
	if many || len(holders) > maxHolders {
		holders = append([]string{manyHolders}, holders[:min(len(holders), maxHolders)]...)
	}
	if len(holders) > 0 {
		metav1.SetMetaDataAnnotation(&definition.ObjectMeta, render.AnnotationHeldBy, strings.Join(holders, ","))
		delete(definition.Annotations, render.AnnotationUnused)
		return
	}
	delete(definition.Annotations, render.AnnotationHeldBy)
	if len(before) > 0 && definition.UID != "" {
		metav1.SetMetaDataAnnotation(&definition.ObjectMeta, render.AnnotationUnused, string(definition.UID)+" "+now.UTC().Format(time.RFC3339))
	}
}

// IsUnused reports whether it was recorded on the CRD that its last OperatorCollection was deleted, or has its kind no longer. A
// record that was restored from a backup does not count: it is of a CRD with another UID.
func IsUnused(definition *apiextensionsv1.CustomResourceDefinition) bool {
	uid, _, _ := strings.Cut(definition.Annotations[render.AnnotationUnused], " ")
	return uid != "" && types.UID(uid) == definition.UID && len(Holders(definition)) == 0
}
