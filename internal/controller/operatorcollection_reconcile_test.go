package controller_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// Whoever waits for Ready must not see it in a status that names an archive which is not installed yet.
func TestReadyIsTakenBackWithAnotherArchive(t *testing.T) {
	for name, served := range map[string]bool{"whose kinds are served": true, "whose kinds are not served yet": false} {
		t.Run(name, func(t *testing.T) {
			i := newImporter(t)
			if oc := i.awaitImport(t); isReady(oc) {
				t.Error("it is ready before it is installed")
			}
			next := i.at("1.0.1")
			if served {
				i.addVersion(t, next)
			}
			former := i.installed(t).Status.Artifact.Digest
			if oc, err := i.reconcile(t); err != nil || !isReady(oc) || len(i.writes.Take()) > 0 {
				t.Errorf("nothing has changed, and something was written: %v", err)
			}
			i.ask(t, next)
			named := 0
			i.wrote = func() {
				if oc := i.live(t); oc.Status.Artifact.Digest != former {
					named++
					if isReady(oc) {
						t.Errorf("a status names %s and is Ready", oc.Status.Collection.Version)
					}
				}
			}
			oc, err := i.reconcile(t)
			if err != nil || oc.Status.Artifact.Digest == former || isReady(oc) || named == 0 {
				t.Errorf("got %+v, %v", oc.Status, err)
			}
		})
	}
}

// addVersion imports a version with another OperatorCollection, whose kinds are served then.
func (i *importer) addVersion(t *testing.T, s source) {
	t.Helper()
	first := i.key
	i.key.Name = "other"
	i.add(t, "other", i.serve(t, s))
	i.awaitImport(t)
	i.key = first
}

// An archive counts once it is recorded, and what runs is not affected by one that cannot be fetched.
func TestImportAfterAFailure(t *testing.T) {
	i := newImporter(t)
	i.faults.Set("status OperatorCollection", errAway)
	if oc, err := i.reconcile(t); !errors.Is(err, errAway) || oc.Status.Artifact != nil {
		t.Errorf("got %+v, %v", oc.Status, err)
	}
	i.faults.Clear()
	imported := i.installed(t).Status.Artifact.Digest
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.CollectionURL = "http://127.0.0.1:1/none" })
	oc := i.becomes(t, v2beta2.ReasonSourceUnreachable, "")
	if oc.Status.Artifact == nil || oc.Status.Artifact.Digest != imported || meta.IsStatusConditionPresentAndEqual(oc.Status.Conditions, v2beta2.ConditionImported, metav1.ConditionTrue) {
		t.Errorf("got %+v", oc.Status)
	}
}
