package imports

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// LabelledID is the identity of the collection that an object was made for.
func LabelledID(object client.Object) model.ID { return render.IDOf(object.GetLabels()) }

// ImportedID is the identity of the imported collection, zero if there is none.
func ImportedID(oc *v2beta2.OperatorCollection) model.ID {
	if oc.Status.Collection == nil {
		return model.ID{}
	}
	return model.ID{Domain: oc.Status.Collection.Domain, Name: oc.Status.Collection.Name}
}

// GroupOf returns the API group of a collection's kinds: that of the collection if the OperatorCollection asks for it, else the shared one.
func GroupOf(oc *v2beta2.OperatorCollection, c *model.Collection) string {
	return c.Group(oc.Spec.APIGroup == v2beta2.APIGroupPerCollection)
}

// CollectionsOf returns the collections that an OperatorCollection has, replaces, and says by its labels that it will have.
func CollectionsOf(oc *v2beta2.OperatorCollection) []string {
	ids := []string{ImportedID(oc).String(), LabelledID(oc).String()}
	if replaced := ReplacedID(oc); replaced != (model.ID{}) {
		ids = append(ids, replaced.String())
	}
	return ids
}

// IsPublishable says whether users may install what an OperatorCollection has.
func IsPublishable(oc *v2beta2.OperatorCollection) bool {
	return oc.DeletionTimestamp == nil && oc.Status.Artifact != nil &&
		meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionImported)
}

// PinnedVersion returns spec.digest if it names an archive in status.history, or "". Such an archive is taken from the store: what
// spec.collectionURL serves does not matter.
func PinnedVersion(oc *v2beta2.OperatorCollection) digest.Digest {
	pinned := digest.Digest(oc.Spec.Digest)
	if InHistory(oc, pinned) {
		return pinned
	}
	return ""
}

// InHistory reports whether status.history of an OperatorCollection has an archive.
func InHistory(oc *v2beta2.OperatorCollection, archive digest.Digest) bool {
	return slices.ContainsFunc(oc.Status.History, func(entry v2beta2.InstalledVersion) bool { return digest.Digest(entry.Digest) == archive })
}

// SourceHash identifies where the archive is fetched from and, after a dash, what it is verified with. Credentials are not
// part of it.
func SourceHash(spec *v2beta2.OperatorCollectionSpec) string {
	return ShortHash("%q", spec.CollectionURL) + "-" +
		ShortHash("%q %q %t", spec.Digest, spec.SignatureSecret, spec.SkipSignatureVerification)
}

// ShortHash returns 16 hexadecimal digits that depend on a formatted text.
func ShortHash(format string, args ...any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, format, args...))
	return fmt.Sprintf("%x", sum[:8])
}

// IsImported reports whether an archive is the imported one, according to the status.
func IsImported(oc *v2beta2.OperatorCollection, archive digest.Digest) bool {
	return oc.Status.Artifact != nil && digest.Digest(oc.Status.Artifact.Digest) == archive
}

// ReplacedID is the collection that an OperatorCollection has taken over or waits to take over, or zero.
func ReplacedID(oc *v2beta2.OperatorCollection) model.ID {
	if oc.Status.Replaces == nil {
		return model.ID{}
	}
	return model.ID{Domain: oc.Status.Replaces.Domain, Name: oc.Status.Replaces.Name}
}

// ReplacedReference is the reference to the collection that another one replaces, or nil.
func ReplacedReference(c *model.Collection) *v2beta2.CollectionReference {
	if c.Replaces == (model.ID{}) {
		return nil
	}
	return &v2beta2.CollectionReference{Domain: c.Replaces.Domain, Name: c.Replaces.Name}
}

// AwaitsReplaced reports whether an OperatorCollection waits only for the deletion of those with the collection that it replaces.
func AwaitsReplaced(oc *v2beta2.OperatorCollection) bool {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	return !oc.Spec.Suspend && imported != nil && imported.Status == metav1.ConditionFalse &&
		imported.Reason == v2beta2.ReasonReplaced && imported.ObservedGeneration == oc.Generation
}
