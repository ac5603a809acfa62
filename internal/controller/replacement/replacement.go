// Package replacement decides when a collection takes over the CRDs of another one that it replaces, in the namespace that the other
// belongs to. A CRD passes once no OperatorCollection has it for the other collection any more, and the other's operators are removed.
// Until then the OperatorCollection of the new one waits, or, if it had the other one itself, its SubOperatorConfigs remove the operators.
package replacement

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// IsSuccessor reports whether an OperatorCollection takes over a collection that belongs to a namespace.
func IsSuccessor(oc *v2beta2.OperatorCollection, replaced model.ID, namespace string) bool {
	return oc.Namespace == namespace && oc.DeletionTimestamp == nil && imports.ReplacedID(oc) == replaced && replaced != model.ID{} &&
		(imports.AwaitsReplaced(oc) || imports.ImportedID(oc) != replaced)
}

// IsInterrupted reports whether an OperatorCollection has waited for the deletion of those with a collection of its namespace, and may do so
// again: its present error may be over soon, such as one of the server that has its archive.
func IsInterrupted(oc *v2beta2.OperatorCollection, replaced model.ID) bool {
	return oc.DeletionTimestamp == nil && imports.ReplacedID(oc) == replaced && replaced != model.ID{} && !imports.AwaitsReplaced(oc) &&
		(imports.ImportedID(oc) == model.ID{} || imports.ImportedID(oc) == replaced)
}

// IsTakenOver reports whether an OperatorCollection takes over a CRD, or waits to do so.
func IsTakenOver(definition *apiextensionsv1.CustomResourceDefinition, all []v2beta2.OperatorCollection) bool {
	return slices.ContainsFunc(all, func(oc v2beta2.OperatorCollection) bool {
		return IsSuccessor(&oc, imports.LabelledID(definition), definition.Annotations[render.AnnotationClaimedBy]) &&
			(imports.AwaitsReplaced(&oc) || crdplan.HasKind(&oc, definition))
	})
}

// OtherHolders are the OperatorCollections that have the kind of a CRD for the collection that it belongs to, as recorded on it, but for
// those that take it over and those that but excludes.
func OtherHolders(definition *apiextensionsv1.CustomResourceDefinition, all []v2beta2.OperatorCollection, but func(*v2beta2.OperatorCollection) bool) []string {
	replaced, namespace := imports.LabelledID(definition), definition.Annotations[render.AnnotationClaimedBy]
	return slices.DeleteFunc(crd.Holders(definition), func(holder string) bool {
		i := slices.IndexFunc(all, func(oc v2beta2.OperatorCollection) bool { return crdplan.HolderName(&oc) == holder })
		return i >= 0 && (IsSuccessor(&all[i], replaced, namespace) || but(&all[i]))
	})
}

// WaitingSuccessor returns the OperatorCollection of a namespace that waits only for the deletion of those with a collection, which it
// replaces, or nil.
func WaitingSuccessor(ctx context.Context, reader client.Reader, namespace string, id model.ID) (*v2beta2.OperatorCollection, error) {
	if id == (model.ID{}) {
		return nil, nil
	}
	return FindIn(ctx, reader, namespace, func(oc *v2beta2.OperatorCollection) bool {
		return IsSuccessor(oc, id, namespace) && imports.AwaitsReplaced(oc)
	})
}

// FindIn returns the first OperatorCollection of a namespace that is accepted, or nil.
func FindIn(ctx context.Context, reader client.Reader, namespace string, accepts func(*v2beta2.OperatorCollection) bool) (*v2beta2.OperatorCollection, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	i := slices.IndexFunc(list.Items, func(oc v2beta2.OperatorCollection) bool { return accepts(&oc) })
	if i < 0 {
		return nil, nil
	}
	return &list.Items[i], nil
}

// AwaitInterrupted keeps custom resources from being deleted for an OperatorCollection, whose deletion has begun, while it is not certain
// that no other one takes them over.
func AwaitInterrupted(ctx context.Context, reader client.Reader, oc *v2beta2.OperatorCollection, id model.ID) error {
	other, err := FindIn(ctx, reader, oc.Namespace, func(other *v2beta2.OperatorCollection) bool {
		return other.UID != oc.UID && IsInterrupted(other, id)
	})
	if err != nil || other == nil {
		return err
	}
	return status.Waiting(v2beta2.ReasonReplaced, intervals.Poll,
		"OperatorCollection %q was to take over the custom resources, and cannot do so now: resume or correct it, see its status, or delete it", other.Name)
}

// DescribeHolders names OperatorCollections that are recorded on CRDs, those in other namespaces with these.
func DescribeHolders(holders []string, namespace string, all []v2beta2.OperatorCollection) string {
	holders = slices.Compact(slices.Sorted(slices.Values(holders)))
	names := make([]string, 0, len(holders))
	for _, holder := range holders {
		name := fmt.Sprintf("%q", strings.TrimPrefix(holder, namespace+"/"))
		if !slices.ContainsFunc(all, func(oc v2beta2.OperatorCollection) bool { return crdplan.HolderName(&oc) == holder }) {
			name += " (which does not exist: remove it from the annotation " + render.AnnotationHeldBy + " of the CRDs)"
		}
		names = append(names, name)
	}
	return status.JoinNames(names)
}
