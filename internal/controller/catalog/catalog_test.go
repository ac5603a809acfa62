package catalog

import (
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
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
		got[name.String()] = p.Digest.String() + " " + p.Message
		if p.Err != nil {
			got[name.String()] = p.Digest.String() + " " + status.AsError(p.Err).Reason
		}
	}
	if diff := cmp.Diff(map[string]string{"ns/lost": "1 CollectionNotImported", "ns/old": "2 in it", "ns/young": "3 PackageConflict"}, got); diff != "" {
		t.Error(diff)
	}
	if all.retryAfter() != intervals.Missing || (candidates{all[1]}).retryAfter() != catalogInterval {
		t.Errorf("again after %s, if nothing is wrong after %s", all.retryAfter(), (candidates{all[1]}).retryAfter())
	}
}
