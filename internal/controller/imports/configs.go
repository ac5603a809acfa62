package imports

import (
	"cmp"
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

// SetByOthers is what others than the manager have set in a default SubOperatorConfig. It is zero for any other object.
type SetByOthers struct {
	// Fields are the entries of managedFields that all else follows from.
	Fields []metav1.ManagedFieldsEntry
	// TakenOverBy has applied a whole manifest on the server side, or is "". A manifest without operatorCollection, which is required, is a
	// part that adds to what others applied.
	TakenOverBy string
	// Maps is true if such a manifest has a mapping. An empty one leaves no trace in managedFields.
	Maps bool
	// InNamespace is true if anything was set in the mapping of the SubOperatorConfig's own namespace.
	InNamespace bool
}

// FindSetByOthers reads managedFields.
func FindSetByOthers(object client.Object) SetByOthers {
	var found SetByOthers
	soc, ok := object.(*v2beta2.SubOperatorConfig)
	if !ok || soc.Annotations[v2beta2.AnnotationDefault] != "true" {
		return found
	}
	for _, entry := range soc.ManagedFields {
		var set struct {
			Spec struct {
				OperatorCollection json.RawMessage            `json:"f:operatorCollection"`
				Mapping            map[string]json.RawMessage `json:"f:mapping"`
			} `json:"f:spec"`
		}
		if entry.Manager == apply.FieldOwner || entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &set) != nil {
			continue
		}
		isManifest := entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == "" && set.Spec.OperatorCollection != nil
		_, inNamespace := set.Spec.Mapping[fmt.Sprintf(`k:{"namespace":%q}`, soc.Namespace)]
		if isManifest {
			found.TakenOverBy, found.Maps = cmp.Or(found.TakenOverBy, entry.Manager), found.Maps || set.Spec.Mapping != nil
		}
		if isManifest || inNamespace {
			found.Fields, found.InNamespace = append(found.Fields, entry), found.InNamespace || inNamespace
		}
	}
	return found
}
