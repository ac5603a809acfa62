package crd

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/render"
)

func TestPrune(t *testing.T) {
	var contributions []Contribution
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "1.3.0"} {
		contributions = append(contributions, contributed(t, version, version)...)
	}
	made, err := Plan(collection.ID{Domain: "acme", Name: "things"}, nil, contributions, nil)
	if err != nil {
		t.Fatal(err)
	}
	live := made.CRD
	live.Status.StoredVersions = []string{"v1minor0patch0", "v1minor3patch0"}
	for name, test := range map[string]struct {
		inUse  []string
		number int
		want   []string
	}{
		"none":                       {number: 0, want: []string{"v1minor3patch0", "v1minor2patch0", "v1minor1patch0", "v1minor0patch0"}},
		"the oldest":                 {number: 1, want: []string{"v1minor3patch0", "v1minor2patch0", "v1minor1patch0"}},
		"the oldest that is unused":  {number: 1, inUse: []string{"1.0.0"}, want: []string{"v1minor3patch0", "v1minor2patch0", "v1minor0patch0"}},
		"not what is stored":         {number: 9, inUse: []string{"1.1.0"}, want: []string{"v1minor3patch0", "v1minor1patch0"}},
		"an operator of an unknown":  {number: 9, inUse: []string{"1.1.0", "unknown"}, want: []string{"v1minor3patch0", "v1minor2patch0", "v1minor1patch0", "v1minor0patch0"}},
		"the new one is not unknown": {number: 1, inUse: []string{"1.4.0"}, want: []string{"v1minor3patch0", "v1minor2patch0", "v1minor1patch0"}},
	} {
		inUse := map[digest.Digest]bool{}
		for _, content := range test.inUse {
			inUse[digest.FromString(content)] = true
		}
		pruned := Prune(live, contributed(t, "1.4.0", "1.4.0"), inUse, test.number)
		var got []string
		for _, version := range pruned.Spec.Versions {
			got = append(got, version.Name)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		for _, version := range live.Spec.Versions {
			if _, has := pruned.Annotations[render.AnnotationDigest+version.Name]; has != slices.Contains(test.want, version.Name) {
				t.Errorf("%s: %s has its digest: %t", name, version.Name, has)
			}
		}
		stored := Planned{Live: live, CRD: pruned}.StoredVersions()
		if slices.Contains(stored, "v1minor0patch0") != slices.Contains(test.want, "v1minor0patch0") || !slices.Contains(stored, "v1minor3patch0") {
			t.Errorf("%s: stored are %v", name, stored)
		}
	}
	if len(live.Spec.Versions) != 4 {
		t.Error("the live CRD was changed")
	}
}
