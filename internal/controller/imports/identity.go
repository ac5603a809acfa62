package imports

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install"
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

// ConflictsChanged reports whether something of a SubOperatorConfig has changed that those of the same collection depend on. It gets
// its labels when its collection is imported, and a status only when it installs something.
func ConflictsChanged(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*v2beta2.SubOperatorConfig)
	after, isOther := e.ObjectNew.(*v2beta2.SubOperatorConfig)
	if !isOne || !isOther {
		return true
	}
	return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Spec.OperatorCollection != after.Spec.OperatorCollection || LabelledID(before) != LabelledID(after) ||
		!equality.Semantic.DeepEqual(before.Spec.Mapping, after.Spec.Mapping) ||
		!equality.Semantic.DeepEqual(before.Status.Collection, after.Status.Collection) ||
		!slices.Equal(install.Namespaces(before), install.Namespaces(after))
}
