package controller_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// as makes the rig one of another OperatorCollection, whose collection is built from a source.
func (i *importer) as(name string, s source) {
	i.key.Name, i.source = name, s
}

// successor returns the collection that replaces another one and has its kind.
func successor(of source) source {
	return source{name: of.name + "-next", kind: of.kind, version: "2.0.0", description: "next", more: "replaces: tests/" + of.name + "\n"}
}

// replaced is an importer whose collection is installed with a custom resource, and a second OperatorCollection that waits in its place.
func replaced(t *testing.T) (i *importer, was, is source, thing *unstructured.Unstructured) {
	t.Helper()
	i = newImporter(t)
	i.installed(t)
	i.runOperator(t, i.home)
	was, is, thing = i.source, successor(i.source), i.resource(t, i.home, "one", map[string]any{})
	i.add(t, "next", i.serve(t, is))
	i.as("next", is)
	oc := i.becomes(t, v2beta2.ReasonReplaced, `delete OperatorCollection "gadgets": its kinds and custom resources stay`)
	if oc.Status.Artifact != nil || oc.Status.Replaces == nil || oc.Status.Replaces.Name != was.name {
		t.Errorf("got %+v", oc.Status)
	}
	i.write(t)
	if definition := i.definition(t, was.kind); definition.Labels[render.LabelName] != was.name || len(definition.Spec.Versions) != 1 {
		t.Errorf("got %v", definition.Labels)
	}
	return i, was, is, thing
}

// The custom resources stay, whatever the deletion policy of their OperatorCollection says.
func TestCollectionIsReplaced(t *testing.T) {
	i, was, is, thing := replaced(t)
	i.as("gadgets", was)
	soc := i.keepConfig(t)
	i.delete(t, v2beta2.DeletionFinalize)
	i.becomes(t, v2beta2.ReasonReplaced, `OperatorCollection "next" takes over the kinds: custom resources and CRDs stay`)
	i.write(t)
	if i.exists(t, soc) || !i.exists(t, thing) || !i.exists(t, i.definition(t, was.kind)) {
		t.Error("the operator stays, or a custom resource or CRD does not")
	}
	i.as("next", is)
	i.becomes(t, v2beta2.ReasonReplaced, "")

	i.as("gadgets", was)
	i.end(t, soc)
	if !i.isGone(t) || !i.exists(t, thing) {
		t.Fatal("it is still there, or the custom resource is not")
	}
	apiserver.Must(t, i.forget(t))
	i.as("next", is)
	oc := i.awaitImport(t)
	definition := i.definition(t, was.kind)
	if definition.Labels[render.LabelName] != is.name || len(definition.Spec.Versions) != 2 || definition.Annotations[render.AnnotationHeldBy] != i.home+"/next" {
		t.Errorf("got %v, %v", definition.Labels, definition.Annotations)
	}
	if oc.Status.Collection.Name != is.name || !i.exists(t, thing) {
		t.Errorf("got %+v", oc.Status)
	}
}

// As long as it is not certain that custom resources are taken over, none is deleted.
func TestReplacementThatIsInterrupted(t *testing.T) {
	i, was, is, thing := replaced(t)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Suspend = true })
	i.as("gadgets", was)
	i.delete(t, v2beta2.DeletionFinalize)
	i.becomes(t, v2beta2.ReasonReplaced, `OperatorCollection "next" was to take over the custom resources, and cannot do so now: resume or correct it`)
	if len(i.configs(t)) != 1 || !i.exists(t, thing) {
		t.Error("the operator or the custom resource is deleted")
	}
	i.as("next", is)
	i.change(t, func(oc *v2beta2.OperatorCollection) { oc.Spec.Suspend = false })
	i.becomes(t, v2beta2.ReasonReplaced, "")
	i.as("gadgets", was)
	i.becomes(t, v2beta2.ReasonReplaced, `OperatorCollection "next" takes over the kinds`)
}

// All who have the collection must go.
func TestReplacementOfSeveral(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	was, is := i.source, successor(i.source)
	i.addVersion(t, was)
	i.write(t)
	thing := i.resource(t, i.home, "one", map[string]any{})
	i.add(t, "next", i.serve(t, is))
	i.as("next", is)
	i.becomes(t, v2beta2.ReasonReplaced, `delete OperatorCollection "gadgets", "other"`)
	i.as("gadgets", was)
	i.delete(t, v2beta2.DeletionFinalize)
	i.becomes(t, v2beta2.ReasonReplaced, `the deletion waits until OperatorCollection "next" can take over the custom resources: delete OperatorCollection "other", too`)
	if !i.exists(t, thing) {
		t.Error("the custom resource is deleted")
	}
}

// What a collection does not take over is told.
func TestReplacementWithoutTheKind(t *testing.T) {
	i := newImporter(t)
	i.installed(t)
	was, is := i.source, successor(i.source)
	i.resource(t, i.home, "one", map[string]any{})
	is.kind += "x"
	i.add(t, "next", i.serve(t, is))
	i.as("next", is)
	oc := i.awaitImport(t)
	if len(oc.Status.Warnings) == 0 || i.definition(t, was.kind).Labels[render.LabelName] != was.name {
		t.Fatalf("got %+v", oc.Status)
	}
	want := "has no kind " + was.kind + ": these custom resources stay without an operator: " + was.kind + " " + i.home + "/one"
	if !containsText(oc.Status.Warnings, want) {
		t.Errorf("got %q, want %q", oc.Status.Warnings, want)
	}
}
