package crdplan

import (
	"maps"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
)

// RecordHolders records on a CRD of a collection which OperatorCollections have its kind, and reports whether that changes it. One
// that is recorded already remains, unless it is seen to have the kind no longer. The finalizer of one that is being deleted
// removes it.
func RecordHolders(definition *apiextensionsv1.CustomResourceDefinition, key model.ID, all []v2beta2.OperatorCollection) (changed bool) {
	holders := crd.Holders(definition)
	for i := range all {
		oc := &all[i]
		name := HolderName(oc)
		switch has := imports.ImportedID(oc) == key && HasKind(oc, definition); {
		case oc.DeletionTimestamp != nil:
		case has && !slices.Contains(holders, name):
			holders = append(holders, name)
		case !has && oc.Status.Collection != nil:
			holders = slices.DeleteFunc(holders, func(holder string) bool { return holder == name })
		}
	}
	before := maps.Clone(definition.Annotations)
	crd.SetHolders(definition, holders, time.Now())
	return !maps.Equal(before, definition.Annotations)
}

// HolderName is the name under which an OperatorCollection is recorded on its CRDs.
func HolderName(oc *v2beta2.OperatorCollection) string { return oc.Namespace + "/" + oc.Name }

// HasKind says whether an OperatorCollection has imported the kind of a CRD of its collection.
func HasKind(oc *v2beta2.OperatorCollection, definition *apiextensionsv1.CustomResourceDefinition) bool {
	imported := oc.Status.Collection
	return imported != nil && slices.Contains(imported.Kinds, definition.Spec.Names.Kind) &&
		strings.HasPrefix(imported.APIVersion, definition.Spec.Group+"/")
}

// DefinitionEdited ignores updates of CRDs that change only the conditions.
var DefinitionEdited = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, isOne := e.ObjectOld.(*apiextensionsv1.CustomResourceDefinition)
	after, isOther := e.ObjectNew.(*apiextensionsv1.CustomResourceDefinition)
	if !isOne || !isOther {
		return true
	}
	return imports.LabelledID(before) != imports.LabelledID(after) ||
		stateOf([]apiextensionsv1.CustomResourceDefinition{*before}) != stateOf([]apiextensionsv1.CustomResourceDefinition{*after})
}}

// OwningNamespace is the namespace that a collection belongs to: the one that its CRDs name, else that of the oldest of the
// OperatorCollections that have it. It is empty as long as none has.
func OwningNamespace(definitions []apiextensionsv1.CustomResourceDefinition, key model.ID, owners []v2beta2.OperatorCollection) string {
	if namespace := crd.Claimant(definitions); namespace != "" {
		return namespace
	}
	var oldest *v2beta2.OperatorCollection
	for i := range owners {
		if imports.ImportedID(&owners[i]) == key && (oldest == nil || mapping.Older(&owners[i], oldest)) {
			oldest = &owners[i]
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Namespace
}
