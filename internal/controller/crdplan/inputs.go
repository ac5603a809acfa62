package crdplan

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// Inputs are all that the CRDs of a collection are planned from, beside the CRDs themselves and the archives, which their digests identify.
// Whether they have changed is decided on this value: what is added to it, or to what it has of an OperatorCollection, is compared, too.
type Inputs struct {
	ID model.ID
	// Collections are the OperatorCollections of the cluster, with nothing but what is read for a plan.
	Collections []v2beta2.OperatorCollection
	// Installed are the archives that SubOperatorConfigs run, sorted, if CRDs have several versions: one may end after its last use. It is set
	// by the reconcile of the CRDs.
	Installed []digest.Digest
}

// InputsOf returns inputs without archives that are installed.
func InputsOf(id model.ID, all []v2beta2.OperatorCollection) *Inputs {
	inputs := &Inputs{ID: id, Collections: make([]v2beta2.OperatorCollection, 0, len(all))}
	for i := range all {
		inputs.Collections = append(inputs.Collections, inputOf(&all[i]))
	}
	return inputs
}

// inputOf returns an OperatorCollection with nothing but what may be read for a plan.
func inputOf(oc *v2beta2.OperatorCollection) v2beta2.OperatorCollection {
	input := v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{
		Namespace: oc.Namespace, Name: oc.Name, UID: oc.UID, CreationTimestamp: oc.CreationTimestamp, DeletionTimestamp: oc.DeletionTimestamp,
	}}
	if labelled := imports.LabelledID(oc); labelled != (model.ID{}) {
		input.Labels = render.IdentityLabels(labelled)
	}
	input.Spec.APIGroup = oc.Spec.APIGroup
	input.Status.Collection, input.Status.Replaces = oc.Status.Collection, oc.Status.Replaces
	if oc.Status.Artifact != nil {
		input.Status.Artifact = &v2beta2.Artifact{Digest: oc.Status.Artifact.Digest}
	} else if record := oc.Annotations[imports.AnnotationArtifact]; record != "" {
		input.Annotations = map[string]string{imports.AnnotationArtifact: record} // It was restored without its status.
	}
	for _, entry := range oc.Status.History {
		input.Status.History = append(input.Status.History, v2beta2.InstalledVersion{Version: entry.Version, Digest: entry.Digest})
	}
	if imports.AwaitsReplaced(oc) {
		input.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionImported, Status: metav1.ConditionFalse, Reason: v2beta2.ReasonReplaced}}
	}
	return input
}

// InUse are the archives that are in use according to the inputs.
func (i *Inputs) InUse(key endpoint.Key) []crd.Use {
	config := v2beta2.SubOperatorConfig{}
	for _, installed := range i.Installed {
		config.Status.Installations = append(config.Status.Installations, v2beta2.InstallationStatus{Digest: installed.String()})
	}
	inUse := &imports.ArchivesInUse{Key: key, Collections: i.Collections, Configs: []v2beta2.SubOperatorConfig{config}}
	return inUse.Of(i.ID)
}

// fingerprint identifies the inputs. Of the OperatorCollections those count that have the collection, replace it, say that they will have
// it, or are recorded on its CRDs: a CRD that it takes over from another collection becomes one of its own.
func (i *Inputs) fingerprint(definitions []apiextensionsv1.CustomResourceDefinition) string {
	var holders []string
	for n := range definitions {
		holders = append(holders, crd.Holders(&definitions[n])...)
	}
	counting := *i
	counting.Collections = slices.DeleteFunc(slices.Clone(i.Collections), func(oc v2beta2.OperatorCollection) bool {
		return !slices.Contains(imports.CollectionsOf(&oc), i.ID.String()) && !slices.Contains(holders, HolderName(&oc))
	})
	content, _ := json.Marshal(counting)
	return imports.ShortHash("%s", content)
}

// WrittenDefinitions remember, in this process, the CRDs that were planned and written without a problem, so that those that have not
// changed since then are neither planned nor read again.
type WrittenDefinitions struct {
	mu sync.Mutex
	of map[model.ID]writtenDefinitions
}

// writtenDefinitions are the CRDs of one collection.
type writtenDefinitions struct {
	// inputs is the fingerprint of what they were planned from.
	inputs string
	// state is what they were like then.
	state string
	// versions are those that they were written for.
	versions []WrittenVersion
	// next is when they are to be looked at again, or zero.
	next time.Time
}

// WrittenVersion is an import that CRDs were written for.
type WrittenVersion struct {
	Digest           digest.Digest
	Group, Namespace string
}

// Record remembers the CRDs of a collection as they were planned from inputs, and written for versions. Again is the delay before they are
// to be looked at again, or zero.
func (w *WrittenDefinitions) Record(inputs *Inputs, definitions []apiextensionsv1.CustomResourceDefinition, versions []crd.Version, again time.Duration) {
	written := writtenDefinitions{inputs: inputs.fingerprint(definitions), state: stateOf(definitions)}
	for _, v := range versions {
		written.versions = append(written.versions, WrittenVersion{v.Digest, v.Group, v.Namespace})
	}
	if again > 0 {
		written.next = time.Now().Add(again)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[model.ID]writtenDefinitions{}
	}
	if len(definitions) == 0 {
		delete(w.of, inputs.ID) // Nothing is remembered of collections that are gone.
		return
	}
	w.of[inputs.ID] = written
}

// Forget makes the CRDs of a collection be planned again.
func (w *WrittenDefinitions) Forget(id model.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.of, id)
}

// AreWritten reports whether CRDs are still as they were written for a version.
func (w *WrittenDefinitions) AreWritten(id model.ID, version WrittenVersion, are []apiextensionsv1.CustomResourceDefinition) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.of[id]
	return ok && slices.Contains(known.versions, version) && known.state == stateOf(are)
}

// AreUnchanged reports whether neither CRDs nor what they are planned from have changed, and they need not be looked at now. Again is
// the delay before they are, or zero.
func (w *WrittenDefinitions) AreUnchanged(inputs *Inputs, are []apiextensionsv1.CustomResourceDefinition) (again time.Duration, unchanged bool) {
	fingerprint := inputs.fingerprint(are)
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.of[inputs.ID]
	if !ok || known.inputs != fingerprint || known.state != stateOf(are) {
		return 0, false
	}
	if known.next.IsZero() {
		return 0, true
	}
	again = time.Until(known.next)
	return again, again > 0
}
