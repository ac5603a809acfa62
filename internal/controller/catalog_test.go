package controller

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/test/project"
)

func TestRefusalReason(t *testing.T) {
	wanted := map[catalog.Reason]string{
		catalog.Invalid: v2beta2.ReasonInvalidCollection, catalog.TooLarge: v2beta2.ReasonBundleTooLarge,
		catalog.CatalogFull: v2beta2.ReasonBundleTooLarge, catalog.PackageConflict: v2beta2.ReasonPackageConflict,
		catalog.VersionConflict: v2beta2.ReasonVersionConflict,
	}
	for _, reason := range project.ConstantsOfType(t, "internal/install/catalog", "Reason") {
		if want, known := wanted[catalog.Reason(reason)]; !known || refusalReason(catalog.Reason(reason)) != want {
			t.Errorf("%s: got %s, want %q", reason, refusalReason(catalog.Reason(reason)), want)
		}
	}
}

func TestServedVersions(t *testing.T) {
	crd := func(group, kind, name string, versions ...apiextensionsv1.CustomResourceDefinitionVersion) apiextensionsv1.CustomResourceDefinition {
		return apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
				render.LabelManagedBy: render.ManagedBy, render.LabelDomain: "acme", render.LabelName: name,
			}},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind}, Versions: versions,
			},
		}
	}
	old := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1minor0patch0", Served: true}
	newest := apiextensionsv1.CustomResourceDefinitionVersion{Name: "v1minor10patch0", Served: true, Storage: true}
	deleted := crd("shared", "Deleted", "other", newest)
	deleted.DeletionTimestamp = &metav1.Time{}
	got := newDefinitions([]apiextensionsv1.CustomResourceDefinition{
		crd("shared", "Volume", "other", old, newest), crd("shared", "Own", "this", newest), crd("elsewhere", "Volume", "other", newest),
		crd("somewhere", "Disk", "third", newest), crd("elsewhere", "Disk", "other", newest), deleted,
		crd("shared", "Unused", "other", newest),
	}).served("shared", model.ID{Domain: "acme", Name: "this"}, []string{"Deleted", "Disk", "None", "Own", "Volume"})
	want := map[string]schema.GroupVersion{
		"Disk": {Group: "elsewhere", Version: "v1minor10patch0"}, "Volume": {Group: "shared", Version: "v1minor10patch0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// collectionWith is an imported OperatorCollection.
func collectionWith(name, digest string) *v2beta2.OperatorCollection {
	oc := &v2beta2.OperatorCollection{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 2},
		Status:     v2beta2.OperatorCollectionStatus{Artifact: &v2beta2.Artifact{Digest: digest}},
	}
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionImported, 2, nil, "")
	return oc
}

func TestCandidatesKeepOutWhatIsRefused(t *testing.T) {
	missing := status.Waiting(v2beta2.ReasonCollectionNotImported, intervals.Missing, "lost: %w", fs.ErrNotExist)
	all := candidates{
		{oc: collectionWith("lost", "1"), digest: "1", err: missing},
		{oc: collectionWith("old", "2"), digest: "2", message: "in it"},
		{oc: collectionWith("old", "2"), digest: "1", message: "still runs"},
		{oc: collectionWith("young", "3"), digest: "3", message: "in it"},
	}
	if !all.lackArchives() || len(all.versions()) != 3 {
		t.Errorf("archives are lacking: %v; %d versions", all.lackArchives(), len(all.versions()))
	}
	all.refuse([]*catalog.RefusalError{{Index: 2, Reason: catalog.PackageConflict}})
	got := map[string]string{}
	for name, p := range all.publications() {
		got[name.String()] = p.digest.String() + " " + p.message
		if p.err != nil {
			got[name.String()] = p.digest.String() + " " + status.AsError(p.err).Reason
		}
	}
	if diff := cmp.Diff(map[string]string{"ns/lost": "1 CollectionNotImported", "ns/old": "2 in it", "ns/young": "3 PackageConflict"}, got); diff != "" {
		t.Error(diff)
	}
	if all.retryAfter() != intervals.Missing || (candidates{all[1]}).retryAfter() != catalogInterval {
		t.Errorf("again after %s, if nothing is wrong after %s", all.retryAfter(), (candidates{all[1]}).retryAfter())
	}
}

func TestPublicationsBringBackWhatChanged(t *testing.T) {
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: name} }
	p := NewPublications()
	for _, step := range []struct {
		known map[types.NamespacedName]publication
		back  []string
	}{
		{map[types.NamespacedName]publication{name("a"): {digest: "1", message: "m"}, name("b"): {digest: "2", err: errors.New("x")}}, []string{"a", "b"}},
		{map[types.NamespacedName]publication{name("a"): {digest: "1", message: "m"}, name("b"): {digest: "2", err: errors.New("x")}}, nil},
		{map[types.NamespacedName]publication{name("a"): {digest: "1", message: "m"}, name("b"): {digest: "2", err: errors.New("y")}}, []string{"b"}},
		{map[types.NamespacedName]publication{name("a"): {digest: "1", err: errors.New("x")}}, []string{"a"}},
		{map[types.NamespacedName]publication{name("a"): {digest: "1", message: "m"}, name("b"): {digest: "2", message: "m"}}, []string{"a", "b"}},
		{map[types.NamespacedName]publication{name("a"): {digest: "3", message: "m"}, name("b"): {digest: "2", message: "n"}}, []string{"a", "b"}},
	} {
		done := make(chan struct{})
		go func() {
			p.set(context.Background(), step.known)
			close(done)
		}()
		var back []string
		for waiting := true; waiting; {
			select {
			case e := <-p.changed:
				back = append(back, e.Object.GetName())
			case <-done:
				waiting = false
			}
		}
		slices.Sort(back)
		if diff := cmp.Diff(step.back, back); diff != "" {
			t.Errorf("after %v: %s", step.known, diff)
		}
	}
}

func TestDescribePublished(t *testing.T) {
	published := func(oc *v2beta2.OperatorCollection) string {
		c := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionPublished)
		if c == nil {
			return ""
		}
		return string(c.Status) + " " + c.Reason
	}
	oc := collectionWith("a", "1")
	p := NewPublications()
	expect := func(when, want string) {
		t.Helper()
		if got := published(oc); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	p.describe(oc)
	expect("before the first catalog", "")
	p.known = map[types.NamespacedName]publication{{Namespace: "ns", Name: "a"}: {digest: "1", message: "m"}}
	p.describe(oc)
	expect("in the catalog", "True Succeeded")
	oc.Status.Artifact.Digest = "2"
	p.describe(oc)
	expect("with another archive", "True Succeeded")
	p.known[types.NamespacedName{Namespace: "ns", Name: "a"}] = publication{digest: "2", err: status.Retry(v2beta2.ReasonBundleTooLarge, errors.New("x"))}
	p.describe(oc)
	expect("refused", "False BundleTooLarge")
	status.SetCondition(&oc.Status.Conditions, v2beta2.ConditionImported, 2, errors.New("x"), "")
	p.describe(oc)
	expect("not imported any more", "False CollectionNotImported")
	p = nil
	p.describe(oc)
	expect("without a catalog", "")
}
