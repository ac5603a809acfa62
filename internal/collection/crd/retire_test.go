package crd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

const day = 24 * time.Hour

var (
	testAges  = Ages{Retention: 90 * day, Deprecation: 30 * day, Settles: time.Minute}
	published = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
)

// importVersion merges another version into a CRD, as an import does. All resources are then stored in it, or in the version before.
func importVersion(t *testing.T, live *apiextensionsv1.CustomResourceDefinition, version string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	planned, err := Plan(model.ID{Domain: "acme", Name: "things"}, live, contributed(t, version, version), func() (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	made := planned.CRD
	made.UID = "uid"
	if newest := made.Spec.Versions[0].Name; !slices.Contains(made.Status.StoredVersions, newest) {
		made.Status.StoredVersions = append(made.Status.StoredVersions, newest)
	}
	return made
}

// twelve has the versions 1.0.0 to 1.11.0, all published at the same time.
func twelve(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var live *apiextensionsv1.CustomResourceDefinition
	for i := range 12 {
		live = importVersion(t, live, fmt.Sprintf("1.%d.0", i))
	}
	return Retire(live, RetireFacts{Ages: testAges}, published).CRD
}

func stageOf(definition *apiextensionsv1.CustomResourceDefinition, name string) string {
	i := versionIndex(definition, name)
	switch {
	case i < 0:
		return "removed"
	case !definition.Spec.Versions[i].Served:
		return "not served"
	case definition.Spec.Versions[i].Deprecated:
		return "deprecated"
	}
	return "served"
}

func TestRetire(t *testing.T) {
	const oldest = "v1minor0patch0"
	all := twelve(t)
	use := func(of string) Use { return Use{Digest: digest.FromString(of)} }
	for name, test := range map[string]struct {
		// after are the days since publication at which the versions are looked at, one time after the other.
		after []int
		used  []Use
		// clean is true if all resources are rewritten at once.
		clean   bool
		version string
		want    string
		rewrite bool
		// next is in days since publication, or 0.
		next int
	}{
		"young":                              {after: []int{0, 89}, want: "served", next: 90},
		"old":                                {after: []int{90}, want: "deprecated", next: 120},
		"old, long ago":                      {after: []int{500}, want: "deprecated", next: 530},
		"deprecated, not long enough":        {after: []int{90, 119}, want: "deprecated", next: 120},
		"still stored":                       {after: []int{90, 120}, want: "deprecated", rewrite: true},
		"still stored, long ago":             {after: []int{90, 600}, want: "deprecated", rewrite: true},
		"rewritten":                          {after: []int{90, 120}, clean: true, want: "not served", next: 150},
		"not served, not long enough":        {after: []int{90, 120, 149}, clean: true, want: "not served", next: 150},
		"not served, long enough":            {after: []int{90, 120, 150}, clean: true, want: "removed"},
		"no stage is left out":               {after: []int{90, 900}, clean: true, want: "not served", next: 930},
		"one of the newest ten":              {after: []int{90, 120, 150}, clean: true, version: "v1minor2patch0", want: "served"},
		"the next one":                       {after: []int{90, 120, 150}, clean: true, version: "v1minor1patch0", want: "removed"},
		"in use":                             {after: []int{90, 120, 150}, used: []Use{use("1.0.0")}, clean: true, want: "served"},
		"in use, with other content":         {after: []int{90, 120, 150}, used: []Use{{Digest: "x", Version: oldest}}, clean: true, want: "served"},
		"in use by another collection":       {after: []int{90, 120, 150}, used: []Use{{Digest: "x", Version: oldest, Foreign: true}}, clean: true, want: "removed"},
		"in the history of another":          {after: []int{90}, used: []Use{{Digest: digest.FromString("1.0.0"), Version: "v9", Foreign: true}}, want: "served", next: 120},
		"beside another in use":              {after: []int{90}, used: []Use{use("1.1.0")}, want: "deprecated", next: 120},
		"beside one of an unknown":           {after: []int{90, 120}, used: []Use{use("unknown")}, clean: true, want: "served"},
		"beside one of a known other":        {after: []int{90}, used: []Use{{Digest: "x", Version: "v9"}}, want: "deprecated", next: 120},
		"of an unknown of another is no one": {after: []int{90}, used: []Use{{Digest: "x", Foreign: true}}, want: "deprecated", next: 120},
	} {
		t.Run(name, func(t *testing.T) {
			live := all.DeepCopy()
			var got Retirement
			for _, days := range test.after {
				now := published.Add(time.Duration(days) * day)
				got = Retire(live, RetireFacts{Ages: testAges, Used: test.used}, now)
				if again := Retire(got.CRD, RetireFacts{Ages: testAges, Used: test.used}, now); !cmp.Equal(got, again) {
					t.Errorf("retired again: %s", cmp.Diff(got, again))
				}
				live = got.CRD.DeepCopy()
				if !test.clean {
					continue
				}
				live.Status.StoredVersions = []string{"v1minor11patch0"}
				if len(got.Forget) > 0 {
					if stage := stageOf(got.CRD, got.Forget[0]); stage != "not served" || !got.Rewrite {
						t.Errorf("%s while custom resources may name it", stage)
					}
					Forgotten(live, got.Forget)
					got = Retire(live, RetireFacts{Ages: testAges, Used: test.used}, now)
					live = got.CRD.DeepCopy()
				}
			}
			if test.version == "" {
				test.version = oldest
			}
			if stage := stageOf(got.CRD, test.version); stage != test.want {
				t.Errorf("got %s, want %s", stage, test.want)
			}
			if got.Rewrite != test.rewrite {
				t.Errorf("rewrite: %t", got.Rewrite)
			}
			var next time.Time
			if test.next > 0 {
				next = published.Add(time.Duration(test.next) * day)
			}
			if !got.Next.Equal(next) {
				t.Errorf("next: %s, want %s", got.Next, next)
			}
			_, hasDigest := got.CRD.Annotations[render.AnnotationDigest+test.version]
			_, hasLife := got.CRD.Annotations[render.AnnotationLife+test.version]
			if hasDigest != (test.want != "removed") || hasLife != hasDigest {
				t.Errorf("has its digest: %t, its record: %t", hasDigest, hasLife)
			}
		})
	}
}

// A version that somebody needs again is served as before.
func TestRetireTakesBack(t *testing.T) {
	live := twelve(t)
	live.Status.StoredVersions = []string{"v1minor11patch0"}
	facts := RetireFacts{Ages: testAges}
	deprecated := Retire(live, facts, published.Add(90*day)).CRD
	unserved := Retire(deprecated, facts, published.Add(120*day)).CRD
	warning := deprecated.Spec.Versions[11].DeprecationWarning
	if warning == nil || *warning != "version v1minor0patch0 of Thing is deprecated and ends on 2026-05-01: use version v1minor11patch0" {
		t.Errorf("the warning is %v", warning)
	}
	facts.Used = []Use{{Digest: digest.FromString("1.0.0")}}
	for stage, retiring := range map[string]*apiextensionsv1.CustomResourceDefinition{"deprecated": deprecated, "not served": unserved} {
		if got := stageOf(retiring, "v1minor0patch0"); got != stage {
			t.Fatalf("got %s, want %s", got, stage)
		}
		back := Retire(retiring, facts, published.Add(121*day)).CRD
		if diff := cmp.Diff(live.Spec.Versions[11], back.Spec.Versions[11]); diff != "" {
			t.Errorf("%s: %s", stage, diff)
		}
		if again := Retire(back, RetireFacts{Ages: testAges}, published.Add(122*day)); stageOf(again.CRD, "v1minor0patch0") != "deprecated" {
			t.Errorf("%s: it does not begin anew", stage)
		}
	}
}

// Time that passed before a backup was restored does not count: nobody was warned.
func TestRetireAfterRestore(t *testing.T) {
	live := twelve(t)
	live.Status.StoredVersions = []string{"v1minor11patch0"}
	facts := RetireFacts{Ages: testAges}
	deprecated := Retire(live, facts, published.Add(90*day)).CRD
	deprecated.UID = types.UID("restored")
	got := Retire(deprecated, facts, published.Add(500*day))
	if stage := stageOf(got.CRD, "v1minor0patch0"); stage != "deprecated" || !got.Next.Equal(published.Add(530*day)) {
		t.Errorf("%s until %s", stage, got.Next)
	}
}

// Custom resources are not rewritten while another API server may not know the storage version.
func TestRetireAwaitsStorageVersion(t *testing.T) {
	facts := RetireFacts{Ages: testAges}
	live := Retire(twelve(t), facts, published.Add(90*day)).CRD
	at := published.Add(120 * day)
	got := Retire(importVersion(t, live, "1.12.0"), facts, at)
	if got.Rewrite || !got.Next.Equal(at.Add(time.Minute)) {
		t.Errorf("rewrite: %t, next: %s", got.Rewrite, got.Next)
	}
	if got = Retire(got.CRD, facts, at.Add(time.Minute)); !got.Rewrite {
		t.Error("not rewritten after the delay")
	}
}

// After 200 upgrades, one a week, a CRD has as many versions as are served at a time, and no more bytes than after 100.
func TestRetireKeepsBounds(t *testing.T) {
	var live *apiextensionsv1.CustomResourceDefinition
	var bytes, versions []int
	now, rewritten := published, 0
	for i := range 200 {
		version := fmt.Sprintf("%d.%d.0", 1+i/20, i%20)
		live = importVersion(t, live, version)
		for range 2 {
			now = now.Add(7 * day / 2)
			got := Retire(live, RetireFacts{Ages: testAges, Used: []Use{{Digest: digest.FromString(version)}}}, now)
			live = got.CRD
			if got.Rewrite {
				begun := BeginRewriting(live, got.Forget)
				Forgotten(live, begun.Forget)
				live.Status.StoredVersions, rewritten = begun.StoredVersions(live), rewritten+1
			}
			for _, stored := range live.Status.StoredVersions {
				if versionIndex(live, stored) < 0 {
					t.Fatalf("%s is stored and removed", stored)
				}
			}
		}
		size, err := live.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		bytes, versions = append(bytes, len(size)), append(versions, len(live.Spec.Versions))
	}
	t.Logf("versions: at most %d, bytes: at most %d, rewritten %d times", slices.Max(versions), slices.Max(bytes), rewritten)
	if most := slices.Max(versions); most > 23 {
		t.Errorf("%d versions", most)
	}
	if slices.Max(bytes[100:]) > slices.Max(bytes[:100])*11/10 {
		t.Errorf("it grew from %d to %d bytes", slices.Max(bytes[:100]), slices.Max(bytes[100:]))
	}
	if rewritten > 200 {
		t.Errorf("rewritten %d times", rewritten)
	}
	for name := range live.Annotations {
		if _, version, ok := strings.Cut(name, "zoscb.ibm.com/v"); ok && versionIndex(live, "v"+version) < 0 {
			t.Errorf("%s is left", name)
		}
	}
}

func TestRewriting(t *testing.T) {
	live := twelve(t)
	begun := BeginRewriting(live, []string{"v1minor0patch0"})
	begun.Done, begun.Total, begun.Continue = 50, 120, "token"
	begun.Record(live)
	if diff := cmp.Diff(begun, RewritingOf(live)); diff != "" {
		t.Error(diff)
	}
	if got := begun.String(); got != "50 of 120" {
		t.Errorf("got %s", got)
	}
	// What is imported meanwhile is newer than what is rewritten to.
	later := importVersion(t, live, "1.12.0")
	if diff := cmp.Diff([]string{"v1minor11patch0", "v1minor12patch0"}, RewritingOf(later).StoredVersions(later)); diff != "" {
		t.Error(diff)
	}
	restored := live.DeepCopy()
	restored.UID = "restored"
	if RewritingOf(restored) != nil {
		t.Error("the record of another CRD counts")
	}
	failed := *begun
	failed.Failed, failed.Problem = 2, "Thing a/b: no"
	failed.Fail(published)
	if got := failed.String(); got != "2 of 120 failed: Thing a/b: no" || failed.Continue != "" {
		t.Errorf("got %s", got)
	}
	if unlisted := (&Rewriting{Done: 50, Total: 120, Problem: "listing things: no"}); unlisted.String() != "50 of 120: listing things: no" {
		t.Errorf("got %s", unlisted.String())
	}
}
