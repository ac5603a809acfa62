package deliver

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// withHistory is an OperatorCollection with versions, the newest first. One with ! was never installed, and the digest of a version has
// its number.
func withHistory(versions ...string) *v2beta2.OperatorCollection {
	oc := &v2beta2.OperatorCollection{}
	for i, version := range versions {
		version, failed := strings.CutPrefix(version, "!")
		entry := v2beta2.InstalledVersion{
			Version: version, Digest: "sha256:" + strings.Repeat(version[:1], 64), Outcome: v2beta2.VersionInstalled, By: "argocd",
			Time: metav1.NewTime(time.Date(2026, 11, 22, 10-i, 0, 0, 0, time.UTC)),
		}
		if failed {
			entry.Outcome = v2beta2.VersionReplaced
		}
		oc.Status.History = append(oc.Status.History, entry)
	}
	return oc
}

func TestVersionToReturnTo(t *testing.T) {
	blocked := withHistory("2.0.0", "1.0.0")
	blocked.Status.Conditions = []metav1.Condition{{Type: v2beta2.ConditionUpgradeBlocked, Status: metav1.ConditionTrue}}
	refused := withHistory("2.0.0", "1.0.0")
	refused.Status.Conditions = []metav1.Condition{
		{Type: v2beta2.ConditionImported, Status: metav1.ConditionFalse}, {Type: v2beta2.ConditionStalled, Status: metav1.ConditionTrue},
	}
	moved := withHistory("2.0.0", "2.0.0", "1.0.0")
	moved.Status.History[1].Digest = "sha256:" + strings.Repeat("9", 64)
	for name, test := range map[string]struct {
		oc   *v2beta2.OperatorCollection
		to   string
		want int
		err  string
	}{
		"the version before":                    {withHistory("2.0.0", "1.0.0"), "", 1, ""},
		"not one that was never installed":      {withHistory("3.0.0", "!2.0.0", "1.0.0"), "", 2, ""},
		"also if the present one never was":     {withHistory("!2.0.0", "1.0.0"), "", 1, ""},
		"not the one that was just left":        {withHistory("2.0.0", "3.0.0", "2.0.0", "1.0.0"), "", 3, ""},
		"the installed one if another is held":  {blocked, "", 0, ""},
		"the installed one if another is wrong": {refused, "", 0, ""},
		"a version":                             {withHistory("3.0.0", "2.0.0", "1.0.0"), "1.0.0", 2, ""},
		"a version, forward":                    {withHistory("1.0.0", "2.0.0", "1.0.0"), "2.0.0", 1, ""},
		"a digest":                              {withHistory("3.0.0", "2.0.0", "1.0.0"), "sha256:" + strings.Repeat("2", 64), 1, ""},
		"other content of the present version":  {moved, "2.0.0", 1, ""},
		"the present version":                   {withHistory("2.0.0", "1.0.0"), "2.0.0", 0, ""},
		"nothing":                               {withHistory(), "", 0, "status.history is empty"},
		"nothing before":                        {withHistory("2.0.0", "3.0.0", "2.0.0"), "", 0, "no version before 2.0.0 that was installed: choose one with --to"},
		"an unknown version":                    {withHistory("2.0.0", "1.0.0", "2.0.0"), "0.9.0", 0, `no version "0.9.0", but 2.0.0, 1.0.0`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := versionToReturnTo(test.oc, test.to)
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, %v", got, err)
				}
			case err != nil || got != &test.oc.Status.History[test.want]:
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestPrintHistory(t *testing.T) {
	oc := withHistory("2.0.0", "!10.0.0")
	oc.Status.History[1].By = "a\x1b[31mb"
	var out bytes.Buffer
	if err := printHistory(&out, oc); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(&out, announcement(oc, &oc.Status.History[1]))
	oc.Spec.SignatureSecret = "proof"
	fmt.Fprint(&out, announcement(oc, &oc.Status.History[0]))
	clitest.Golden(t, "rollback.txt", out.String())
}

func TestReverted(t *testing.T) {
	p := &upgradeProgress{Progress: kube.Progress{Out: &bytes.Buffer{}}, digest: "sha256:a", generation: 3}
	object := func(generation int64, digest string) *v2beta2.OperatorCollection {
		return &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Generation: generation}, Spec: v2beta2.OperatorCollectionSpec{Digest: digest}}
	}
	for _, ours := range []*v2beta2.OperatorCollection{nil, object(2, "sha256:b"), object(3, "sha256:a"), object(4, "sha256:a")} {
		if p.isReverted(ours) {
			t.Errorf("%v is taken for reverted", ours)
		}
	}
	if !p.isReverted(object(4, "sha256:b")) {
		t.Error("a reverted digest is not noticed")
	}
}
