package crdplan

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/platform/status"
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

// HasCollection says whether an OperatorCollection has a collection, or says by its labels that it will. Anybody can write labels:
// they count only in the namespace that the collection belongs to.
func HasCollection(oc *v2beta2.OperatorCollection, id model.ID, claimant string) bool {
	return oc.DeletionTimestamp == nil && (imports.ImportedID(oc) == id || imports.LabelledID(oc) == id && oc.Namespace == claimant)
}

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

// Missing names the CRDs of a collection that do not serve its version yet, or belong to one that it replaces.
func Missing(ctx context.Context, c client.Reader, col *model.Collection, group string) ([]string, error) {
	var missing []string
	for _, resource := range col.Resources {
		name := resource.Plural() + "." + group
		live := &apiextensionsv1.CustomResourceDefinition{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, live)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading CRD %q: %w", name, err)
		}
		if err != nil || imports.LabelledID(live) != col.ID() || !crd.Serves(live, col.APIVersion()) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing, nil
}

// IsEstablished reports whether the API server serves a CRD.
func IsEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established)
}

// Rewritten says for which CRDs custom resources are rewritten, and how far, or "".
func Rewritten(definitions []apiextensionsv1.CustomResourceDefinition) string {
	var texts []string
	for i := range definitions {
		if recorded := crd.RewritingOf(&definitions[i]); recorded != nil {
			texts = append(texts, definitions[i].Name+": "+recorded.String())
		}
	}
	if texts == nil {
		return ""
	}
	slices.Sort(texts)
	return "custom resources are being rewritten, so that old versions of their CRDs can end: " + status.JoinNames(texts)
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

// stateOf identifies what CRDs are like. It is the same for live and for cached ones, which have no schemas. Conditions do not count.
func stateOf(definitions []apiextensionsv1.CustomResourceDefinition) string {
	var states []string
	for i := range definitions {
		d := &definitions[i]
		text, _ := json.Marshal([]any{d.Name, d.UID, d.Generation, d.DeletionTimestamp != nil, d.Labels, d.Annotations, d.Status.StoredVersions})
		states = append(states, string(text))
	}
	slices.Sort(states)
	return imports.ShortHash("%s", strings.Join(states, "\n"))
}
