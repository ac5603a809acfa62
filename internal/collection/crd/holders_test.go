package crd

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestHolders(t *testing.T) {
	now := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	expect := func(what string, unused bool, holders ...string) {
		t.Helper()
		if diff := cmp.Diff(holders, Holders(definition)); diff != "" || IsUnused(definition) != unused {
			t.Errorf("%s: unused is %v, holders %s", what, IsUnused(definition), diff)
		}
	}
	expect("as earlier versions wrote it", false)
	SetHolders(definition, nil, now)
	expect("none was ever recorded", false)
	SetHolders(definition, []string{"b/y", "a/x", "b/y"}, now)
	expect("two", false, "a/x", "b/y")
	SetHolders(definition, []string{"b/y"}, now)
	expect("one is gone", false, "b/y")
	SetHolders(definition, nil, now)
	expect("the last is gone", true)
	if got, want := definition.Annotations[render.AnnotationUnused], "uid 2026-11-22T10:00:00Z"; got != want {
		t.Errorf("recorded %q instead of %q", got, want)
	}
	SetHolders(definition, nil, now.Add(time.Hour))
	expect("and again", true)

	restored := definition.DeepCopy()
	restored.UID = "another"
	if IsUnused(restored) {
		t.Error("the record of another CRD counts")
	}
	SetHolders(definition, []string{"a/x"}, now)
	expect("imported again", false, "a/x")
	if _, recorded := definition.Annotations[render.AnnotationUnused]; recorded {
		t.Error("the record was kept")
	}
}

func TestManyHolders(t *testing.T) {
	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	var many []string
	for i := range maxHolders + 1 {
		many = append(many, fmt.Sprintf("namespace/%04d", i))
	}
	for range 2 {
		SetHolders(definition, many, time.Now())
		many = Holders(definition)
		if len(many) != maxHolders+1 || many[0] != manyHolders {
			t.Fatalf("recorded %d holders, the first is %s", len(many), many[0])
		}
	}
	SetHolders(definition, []string{manyHolders}, time.Now())
	if IsUnused(definition) {
		t.Error("the holders that were not recorded do not count")
	}
}
