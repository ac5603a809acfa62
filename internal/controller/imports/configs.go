package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
)

// SubOperatorConfigsOf lists the SubOperatorConfigs that name the collection, sorted by name. It takes a reader of live
// objects where they decide what is made or deleted: the cache may lack one that a user made a moment ago.
func SubOperatorConfigsOf(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection) ([]v2beta2.SubOperatorConfig, error) {
	list := &v2beta2.SubOperatorConfigList{}
	if err := reader.List(ctx, list, client.InNamespace(oc.Namespace)); err != nil {
		return nil, fmt.Errorf("listing SubOperatorConfigs: %w", err)
	}
	socs := slices.DeleteFunc(list.Items, func(soc v2beta2.SubOperatorConfig) bool {
		return soc.Spec.OperatorCollection != oc.Name
	})
	slices.SortFunc(socs, func(a, b v2beta2.SubOperatorConfig) int { return strings.Compare(a.Name, b.Name) })
	return socs, nil
}

// InstalledDigests are the digests of the archives that a SubOperatorConfig runs, sorted.
func InstalledDigests(soc *v2beta2.SubOperatorConfig) []digest.Digest {
	var digests []digest.Digest
	for _, installation := range soc.Status.Installations {
		if installation.Digest != "" {
			digests = append(digests, digest.Digest(installation.Digest))
		}
	}
	slices.Sort(digests)
	return slices.Compact(digests)
}

// ownedFields are the fields of a SubOperatorConfig that matter for who has taken over a default.
type ownedFields struct {
	Spec struct {
		OperatorCollection json.RawMessage            `json:"f:operatorCollection"`
		Mapping            map[string]json.RawMessage `json:"f:mapping"`
	} `json:"f:spec"`
}

// OwnedByOther returns the fields of an entry of managedFields. They are zero if it is the manager's.
func OwnedByOther(entry metav1.ManagedFieldsEntry) ownedFields {
	var fields ownedFields
	if entry.Manager == apply.FieldOwner || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return ownedFields{}
	}
	return fields
}

// isManifest reports whether an entry of managedFields says that somebody else has applied a whole manifest on the server side. A
// manifest without operatorCollection, which is required, is a part that adds to what others applied.
func isManifest(entry metav1.ManagedFieldsEntry) bool {
	return entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && OwnedByOther(entry).Spec.OperatorCollection != nil
}

// Claims reports whether an entry of managedFields says that somebody else has set anything in the mapping of a namespace.
func Claims(entry metav1.ManagedFieldsEntry, namespace string) bool {
	_, found := OwnedByOther(entry).Spec.Mapping[fmt.Sprintf(`k:{"namespace":%q}`, namespace)]
	return found
}

// FieldsOfOthers returns the entries of managedFields by which a default SubOperatorConfig is handed over: of those who have applied a
// manifest over it, and of those who have set anything in the mapping of its namespace. It is nil for any other object.
func FieldsOfOthers(object client.Object) []metav1.ManagedFieldsEntry {
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok || soc.Annotations[v2beta2.AnnotationDefault] != "true" {
		return nil
	}
	var entries []metav1.ManagedFieldsEntry
	for _, entry := range soc.ManagedFields {
		if isManifest(entry) || Claims(entry, soc.Namespace) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// TakenOverBy returns who has applied a manifest over a default SubOperatorConfig, or "".
func TakenOverBy(soc *v2beta2.SubOperatorConfig) string {
	if i := slices.IndexFunc(FieldsOfOthers(soc), isManifest); i >= 0 {
		return FieldsOfOthers(soc)[i].Manager
	}
	return ""
}
