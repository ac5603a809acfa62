package operatorcollection

import (
	"fmt"
	"testing"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/upgrade"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/install/mapping"
	"github.com/collection-operator/collection-operator/internal/install/preflight"
)

func TestNamespacesByDigest(t *testing.T) {
	soc := func(installed ...string) v2beta2.SubOperatorConfig {
		var s v2beta2.SubOperatorConfig
		for i := 0; i < len(installed); i += 2 {
			s.Status.Installations = append(s.Status.Installations, v2beta2.InstallationStatus{Namespace: installed[i], Digest: installed[i+1]})
		}
		return s
	}
	got := namespacesByDigest([]v2beta2.SubOperatorConfig{soc("b", "one", "c", "new", "d", "two"), soc("a", "one"), soc("e", "", "z", "two")}, "new", mapping.Selection{"a", "b", "c", "d", "e"})
	if diff := cmp.Diff(map[digest.Digest][]string{"one": {"a", "b"}, "two": {"d"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUpgradeWarnings(t *testing.T) {
	report := preflight.Report{
		Resources: 3, Blocked: 1,
		Problems: []upgrade.Problem{{Kind: "Thing", Namespace: "ns", Name: "one", Field: "spec.mode", Message: "must be set", Refused: true}},
	}
	changes := []upgrade.Change{
		{Type: upgrade.Added, Kind: "Other"},
		{Type: upgrade.Changed, Kind: "Thing", Field: "spec.size", Property: "default", Old: "3", New: "5"},
		{Type: upgrade.Removed, Kind: "Thing", Field: "spec.old", Old: "string", Breaking: true},
	}
	want := []string{
		"upgrade to version 2.0.0: it does not fit 1 of 3 custom resources",
		"upgrade to version 2.0.0: Thing ns/one: spec.mode: must be set",
		`upgrade to version 2.0.0: Thing: spec.size: default changed from "3" to "5"`,
		"upgrade to version 2.0.0: Thing: spec.old is removed",
	}
	if diff := cmp.Diff(want, upgradeWarnings("2.0.0", report, append(changes, changes...))); diff != "" {
		t.Error(diff)
	}
	for i := range 50 {
		report.Warnings = append(report.Warnings, upgrade.Problem{Kind: "Thing", Name: fmt.Sprint(i)})
	}
	bounded := upgradeWarnings("2.0.0", report, changes)
	if len(bounded) != maxUpgradeWarnings+1 || bounded[maxUpgradeWarnings] != "upgrade to version 2.0.0: 44 more warnings" {
		t.Errorf("got %d: %q", len(bounded), bounded[len(bounded)-1])
	}
}

// What was found when a version was imported is kept until another one is.
func TestKeepUpgradeWarnings(t *testing.T) {
	c := &model.Collection{Version: semver.MustParse("2.0.0")}
	oc := &v2beta2.OperatorCollection{Status: v2beta2.OperatorCollectionStatus{
		Artifact: &v2beta2.Artifact{Digest: "now"},
		Warnings: []string{"something else", "upgrade to version 1.0.0: old", "upgrade to version 2.0.0: text"},
	}}
	for archive, want := range map[string][]string{"now": {"upgrade to version 2.0.0: text"}, "next": nil} {
		scope := &importScope{collection: c, Archive: intake.Archive{Artifact: &v2beta2.Artifact{Digest: archive}}}
		scope.keepUpgradeWarnings(oc)
		if diff := cmp.Diff(want, scope.upgradeWarnings); diff != "" {
			t.Errorf("%s: %s", archive, diff)
		}
	}
}
