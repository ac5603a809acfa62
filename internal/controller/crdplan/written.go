package crdplan

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
)

// WrittenDefinitions remember, in this process, the CRDs that were planned and written without a problem, so that those that have not
// changed since then are neither planned nor read again.
type WrittenDefinitions struct {
	mu sync.Mutex
	of map[model.ID]writtenDefinitions
}

// writtenDefinitions are the CRDs of one collection.
type writtenDefinitions struct {
	// inputs are what they were planned from.
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

// Record remembers the CRDs of a collection as they were planned from inputs, and written.
func (w *WrittenDefinitions) Record(id model.ID, inputs string, s *DefinitionScope) {
	written := writtenDefinitions{inputs: inputs, state: stateOf(s.Definitions)}
	for _, v := range s.Versions {
		written.versions = append(written.versions, WrittenVersion{v.Digest, v.Group, v.Namespace})
	}
	if s.Again > 0 {
		written.next = time.Now().Add(s.Again)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		w.of = map[model.ID]writtenDefinitions{}
	}
	if len(s.Definitions) == 0 {
		delete(w.of, id) // Nothing is remembered of collections that are gone.
		return
	}
	w.of[id] = written
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
func (w *WrittenDefinitions) AreUnchanged(id model.ID, inputs string, are []apiextensionsv1.CustomResourceDefinition) (again time.Duration, unchanged bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	known, ok := w.of[id]
	if !ok || known.inputs != inputs || known.state != stateOf(are) {
		return 0, false
	}
	if known.next.IsZero() {
		return 0, true
	}
	again = time.Until(known.next)
	return again, again > 0
}

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

// InputsOf identifies what the CRDs of a collection are planned from: the OperatorCollections that have it, replace it, say that they will
// have it, or are recorded on its CRDs.
func InputsOf(id model.ID, definitions []apiextensionsv1.CustomResourceDefinition, all []v2beta2.OperatorCollection) string {
	var holders, inputs []string
	for i := range definitions {
		holders = append(holders, crd.Holders(&definitions[i])...)
	}
	for i := range all {
		oc := &all[i]
		if !slices.Contains(imports.CollectionsOf(oc), id.String()) && !slices.Contains(holders, HolderName(oc)) {
			continue
		}
		var archive string
		var imported v2beta2.ImportedCollection
		if oc.Status.Artifact != nil {
			archive = oc.Status.Artifact.Digest
		}
		if oc.Status.Collection != nil {
			imported = *oc.Status.Collection
		}
		inputs = append(inputs, fmt.Sprintf("%s %s %t %s %s %v %v %v %t", HolderName(oc), oc.UID, oc.DeletionTimestamp != nil, archive,
			oc.Spec.APIGroup, imported, imports.LabelledID(oc), imports.ReplacedID(oc), imports.AwaitsReplaced(oc)))
	}
	return imports.ShortHash("%q", inputs)
}
