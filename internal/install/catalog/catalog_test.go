package catalog

import (
	"bytes"
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	"github.com/google/go-cmp/cmp"
	opversion "github.com/operator-framework/api/pkg/lib/version"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "rewrite golden files")

// bundle is one of a small collection of domain acme.
func bundle(name, version string) Bundle {
	pack := "acme-" + name + "-operator"
	number := semver.MustParse(version)
	number.Build = nil
	csv := &operatorsv1alpha1.ClusterServiceVersion{
		TypeMeta: metav1.TypeMeta{APIVersion: operatorsv1alpha1.SchemeGroupVersion.String(), Kind: operatorsv1alpha1.ClusterServiceVersionKind},
		ObjectMeta: metav1.ObjectMeta{
			Name:        pack + ".v" + strings.ToLower(number.String()),
			Annotations: map[string]string{"alm-examples": `[{"apiVersion":"suboperator.zoscb.ibm.com/v1minor0patch0","kind":"Widget","metadata":{"name":"<a>"}}]`},
		},
		Spec: operatorsv1alpha1.ClusterServiceVersionSpec{
			DisplayName: "Acme " + name, Description: "Version *" + version + "*.",
			Version:      opversion.OperatorVersion{Version: semver.MustParse(version)},
			Icon:         []operatorsv1alpha1.Icon{{Data: base64.StdEncoding.EncodeToString([]byte("<svg/>")), MediaType: "image/svg+xml"}},
			InstallModes: []operatorsv1alpha1.InstallMode{{Type: operatorsv1alpha1.InstallModeTypeOwnNamespace, Supported: true}},
			InstallStrategy: operatorsv1alpha1.NamedInstallStrategy{
				StrategyName: operatorsv1alpha1.InstallStrategyNameDeployment,
				StrategySpec: operatorsv1alpha1.StrategyDetailsDeployment{
					DeploymentSpecs: []operatorsv1alpha1.StrategyDeploymentSpec{{Name: pack, Spec: appsv1.DeploymentSpec{}}},
				},
			},
			CustomResourceDefinitions: operatorsv1alpha1.CustomResourceDefinitions{Owned: []operatorsv1alpha1.CRDDescription{
				{Name: "widgets.suboperator.zoscb.ibm.com", Kind: "Widget", Version: "v1minor0patch0"},
			}},
			RelatedImages: []operatorsv1alpha1.RelatedImage{{Name: "runtime", Image: "registry.example/runtime:1"}},
		},
	}
	return Bundle{Domain: "acme", Name: name, Package: pack, ClusterServiceVersion: csv}
}

func bundles(name string, versions ...string) []Bundle {
	var made []Bundle
	for _, version := range versions {
		made = append(made, bundle(name, version))
	}
	return made
}

// mustBuild fails the test unless all bundles are in the catalog.
func mustBuild(t *testing.T, bundles ...Bundle) *declcfg.DeclarativeConfig {
	t.Helper()
	catalog, refusals := Build(bundles)
	for _, r := range refusals {
		t.Errorf("%s is refused: %s: %v", bundles[r.Index].ClusterServiceVersion.Name, r.Reason, r)
	}
	return catalog
}

// versions fails the test unless all bundles are valid.
func versions(t testing.TB, bundles ...Bundle) []*Version {
	t.Helper()
	var valid []*Version
	for _, b := range bundles {
		v, err := NewVersion(b)
		if err != nil {
			t.Fatal(err)
		}
		valid = append(valid, v)
	}
	return valid
}

// made fails the test unless all bundles are in the catalog.
func made(t *testing.T, bundles ...Bundle) *Catalog {
	t.Helper()
	catalog, refusals := new(Builder).Build(versions(t, bundles...))
	for _, r := range refusals {
		t.Errorf("%s is refused: %s: %v", bundles[r.Index].ClusterServiceVersion.Name, r.Reason, r)
	}
	return catalog
}

func text(t *testing.T, catalog *declcfg.DeclarativeConfig) string {
	t.Helper()
	var content bytes.Buffer
	if err := declcfg.WriteYAML(*catalog, &content); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

func TestGolden(t *testing.T) {
	got := text(t, mustBuild(t, bundle("widgets", "1.0.0"), bundle("widgets", "1.1.0"), bundle("gadgets", "2.0.0")))
	file := filepath.Join("testdata", "catalog.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", file, diff)
	}
}

// The catalog is unchanged after it is written and read, and valid according to operator-registry.
func TestCatalogIsReadBack(t *testing.T) {
	catalog := mustBuild(t, bundles("widgets", "1.0.0", "1.1.0")...)
	read, err := declcfg.LoadReader(strings.NewReader(text(t, catalog)))
	if err != nil {
		t.Fatal(err)
	}
	packages, err := declcfg.ConvertToModel(*read)
	if err != nil {
		t.Fatal(err)
	}
	head, err := packages["acme-widgets-operator"].DefaultChannel.Head()
	if err != nil {
		t.Fatal(err)
	}
	if head.Name != "acme-widgets-operator.v1.1.0" || head.CsvJSON != catalog.Bundles[1].CsvJSON || head.CsvJSON == "" {
		t.Errorf("the head is %s, its ClusterServiceVersion is\n%s\ninstead of\n%s", head.Name, head.CsvJSON, catalog.Bundles[1].CsvJSON)
	}
	if !strings.Contains(head.CsvJSON, `"replaces":"acme-widgets-operator.v1.0.0"`) || strings.Contains(head.CsvJSON, `"status"`) {
		t.Errorf("the ClusterServiceVersion is\n%s", head.CsvJSON)
	}
}

func TestSameBundlesGiveSameBytesInAnyOrder(t *testing.T) {
	given := append(bundles("widgets", "1.0.0", "1.1.0", "2.0.0-rc.1", "2.0.0"), bundles("gadgets", "1.0.0", "0.9.0")...)
	want := text(t, mustBuild(t, given...))
	slices.Reverse(given)
	given = append(given, bundle("widgets", "1.1.0"))
	if diff := cmp.Diff(want, text(t, mustBuild(t, given...))); diff != "" {
		t.Errorf("catalogs differ (-want +got):\n%s", diff)
	}
}

func TestBuildLeavesBundlesAlone(t *testing.T) {
	given := bundles("widgets", "1.0.0", "1.1.0")
	given[1].ClusterServiceVersion.Spec.Skips = []string{"acme-widgets-operator.v0.1.0"}
	want := given[1].ClusterServiceVersion.DeepCopy()
	catalog := mustBuild(t, given...)
	if diff := cmp.Diff(want, given[1].ClusterServiceVersion); diff != "" {
		t.Errorf("the ClusterServiceVersion has changed (-before +after):\n%s", diff)
	}
	if strings.Contains(catalog.Bundles[1].CsvJSON, "skips") {
		t.Error("the bundle skips what its channels do not")
	}
}

// A channel ends with its version and contains all older ones, in the order of semantic versions, independent of the order
// of the bundles.
func TestChannelsAreChains(t *testing.T) {
	var names []string
	given := bundles("widgets", "0.9.9", "1.0.0-Alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc-2", "1.0.0", "1.2.0", "1.10.0+build.7")
	for _, b := range given {
		names = append(names, b.ClusterServiceVersion.Name)
	}
	slices.Reverse(given)
	got := map[string][]string{}
	for _, channel := range mustBuild(t, given...).Channels {
		replaces := ""
		for _, entry := range channel.Entries {
			if entry.Replaces != replaces {
				t.Errorf("channel %s: %s replaces %q instead of %q", channel.Name, entry.Name, entry.Replaces, replaces)
			}
			replaces = entry.Name
			got[channel.Name] = append(got[channel.Name], entry.Name)
		}
	}
	want := map[string][]string{StableChannel: names}
	for i, name := range names {
		want[strings.TrimPrefix(name, "acme-widgets-operator.")] = names[:i+1]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("channels differ (-want +got):\n%s", diff)
	}
}

// A version that is no longer in the catalog can still be upgraded.
func TestOlderVersionsThatHaveLeftAreSkipped(t *testing.T) {
	for version, older := range map[string]string{
		"1.0.0": "0.9.0", "2.0.0": "2.0.0-rc.1", "2.0.0-rc.2": "2.0.0-rc.1", "1.0.0-rc-2": "1.0.0-rc-1", "3.0.0+build": "2.9.9",
	} {
		entry := mustBuild(t, bundle("widgets", version)).Channels[0].Entries[0]
		skips, err := semver.ParseRange(entry.SkipRange)
		if err != nil {
			t.Fatal(err)
		}
		if !skips(semver.MustParse(older)) || skips(semver.MustParse(version)) {
			t.Errorf("%s skips %s, which is wrong for %s or for itself", version, entry.SkipRange, older)
		}
	}
}

func TestRefusals(t *testing.T) {
	good := bundle("widgets", "1.0.0")
	other := func(change func(*Bundle)) Bundle {
		b := bundle("gadgets", "1.0.0")
		change(&b)
		return b
	}
	for name, test := range map[string]struct {
		bundle Bundle
		reason Reason
		want   string
	}{
		"no install modes": {
			other(func(b *Bundle) { b.ClusterServiceVersion.Spec.InstallModes = nil }), Invalid, "acme-gadgets-operator.v1.0.0: ",
		},
		"broken examples": {
			other(func(b *Bundle) { b.ClusterServiceVersion.Annotations["alm-examples"] = "[" }), Invalid, "example",
		},
		"broken icon": {
			other(func(b *Bundle) { b.ClusterServiceVersion.Spec.Icon[0].Data = "?" }), Invalid, "icon",
		},
		"broken icon of a package's newest": {
			func() Bundle {
				b := bundle("widgets", "2.0.0")
				b.ClusterServiceVersion.Spec.Icon[0].Data = "?"
				return b
			}(), Invalid, "acme-widgets-operator.v2.0.0: icon",
		},
		"other version's name": {
			func() Bundle {
				b := bundle("widgets", "2.0.0")
				b.ClusterServiceVersion.Name = good.ClusterServiceVersion.Name
				return b
			}(), VersionConflict, "acme-widgets-operator.v1.0.0",
		},
		"no name of a package": {
			other(func(b *Bundle) { b.Package = "a.b" }), Invalid, `invalid package name "a.b"`,
		},
		"too large": {
			other(func(b *Bundle) { b.ClusterServiceVersion.Spec.Description = strings.Repeat("x", MaxBundleBytes) }), TooLarge, "and may have 1048576",
		},
		"too large in an InstallPlan": {
			other(func(b *Bundle) { b.ClusterServiceVersion.Spec.Description = strings.Repeat(`"`, MaxBundleBytes/3) }), TooLarge, "and may have 1048576",
		},
		"another collection's package": {
			other(func(b *Bundle) { b.Package, b.Domain, b.Name = good.Package, "acme-widgets", "" }), PackageConflict, "domain acme and name widgets",
		},
		"other content": {
			func() Bundle {
				b := bundle("widgets", "1.0.0+other")
				b.ClusterServiceVersion.Spec.Description = "Other."
				return b
			}(), VersionConflict, "acme-widgets-operator.v1.0.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, refusals := Build([]Bundle{good, test.bundle, bundle("widgets", "1.1.0")})
			if len(refusals) != 1 || refusals[0].Index != 1 || refusals[0].Reason != test.reason || !strings.Contains(refusals[0].Error(), test.want) {
				t.Errorf("refusals are %v, want %s of bundle 1 with %q", refusals, test.reason, test.want)
			}
			if diff := cmp.Diff(text(t, mustBuild(t, good, bundle("widgets", "1.1.0"))), text(t, catalog)); diff != "" {
				t.Errorf("the other bundles are not what they are alone (-want +got):\n%s", diff)
			}
		})
	}
}

// A full catalog contains the first bundles, and later ones that are small enough.
func TestCatalogIsBounded(t *testing.T) {
	given := bundles("widgets", "1.0.0", "1.1.0", "1.2.0", "1.3.0")
	given[2].ClusterServiceVersion.Spec.Description = strings.Repeat("x", 16<<10)
	made, refusals := build(given, 20<<10)
	if len(refusals) != 1 || refusals[0].Index != 2 || refusals[0].Reason != CatalogFull || !strings.Contains(refusals[0].Error(), "and may have 20480") {
		t.Fatalf("refusals are %v", refusals)
	}
	if diff := cmp.Diff(text(t, mustBuild(t, given[0], given[1], given[3])), text(t, made)); diff != "" {
		t.Errorf("the other bundles are not what they are alone (-want +got):\n%s", diff)
	}
	catalog, _ := new(Builder).build(versions(t, given...), 20<<10)
	served := 0
	for _, p := range catalog.packages {
		for _, b := range p.bundles {
			served += len(b.GetCsvJson())
		}
	}
	if served > 20<<10 {
		t.Errorf("%d bytes are served", served)
	}
}

// BenchmarkBuild makes a catalog of 1,000 packages, and then catalogs in which one package changes.
func BenchmarkBuild(b *testing.B) {
	var given []Bundle
	for i := range 1000 {
		given = append(given, bundle(fmt.Sprintf("widgets%d", i), "1.0.0"))
	}
	first := versions(b, given...)
	changed := slices.Clone(first)
	changed[500] = versions(b, bundle("widgets500", "1.1.0"))[0]
	b.Run("first", func(b *testing.B) {
		for b.Loop() {
			new(Builder).Build(first)
		}
	})
	b.Run("change", func(b *testing.B) {
		builder := &Builder{}
		for b.Loop() {
			builder.Build(first)
			first, changed = changed, first
		}
	})
}
