package explain

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/Masterminds/semver/v3"
	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var update = flag.Bool("update", false, "rewrite golden files")

func TestReport(t *testing.T) {
	for name, folder := range map[string]string{
		"everything": "../render/testdata/collections/everything",
		"minimal":    "../render/testdata/collections/minimal",
		"region":     "../model/testdata/region",
		"users":      "../model/testdata/users",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := model.Load(os.DirFS(folder))
			if err != nil {
				t.Fatal(err)
			}
			c.Problems = nil // New rules must not change the report.
			got := Report(c, c.Group(name == "everything"))
			checkPage(t, got)
			golden := filepath.Join("testdata", name+".golden.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("the report differs from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// checkPage checks that a terminal shows every line as one line of at most Width columns.
func checkPage(t *testing.T, page string) {
	t.Helper()
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > Width {
			t.Errorf("line is longer than %d columns: %q", Width, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("line holds characters that cannot be printed: %q", line)
		}
		if strings.HasSuffix(line, " ") {
			t.Errorf("line ends with a blank: %q", line)
		}
	}
}

// Texts of a collection's author cannot control the terminal.
func TestReportOfHostileTexts(t *testing.T) {
	const erase, back = "\x1b[2J\x1b]0;title\x07", "text \u202e txet \u200b\r\b\x00\xff"
	long := strings.Repeat("w", 3*Width)
	c := &model.Collection{
		Domain: "acme", Name: "demo", Version: semver.MustParse("1.0.0"), DisplayName: erase, Provider: back, InventoryName: long,
		Galaxy: model.Galaxy{Namespace: "acme", Name: "demo", Version: erase, RequiresAnsible: back},
		Resources: []model.Resource{{
			Kind: "Region", DisplayName: back, Description: erase + "\n" + long, Playbook: "a\x1b.yml", Finalizer: long,
			Vars: []model.Var{{
				Name: strings.Repeat("n", 2*Width), DisplayName: erase, Description: back, Type: model.Object, Default: map[string]any{erase: back},
				Fields: []model.Var{{Name: "x", DisplayName: long, Type: model.String, Options: []string{erase, long}}},
			}},
		}},
		Roles: []rbacv1.PolicyRule{{APIGroups: []string{erase}, Resources: []string{back, long}, Verbs: []string{erase}}},
		Dependencies: model.Dependencies{
			Collections: []model.Requirement{{Name: erase, Version: back, Source: long, File: erase}},
			Python:      []model.PythonRequirements{{File: back, Requirements: []string{erase}}},
		},
	}
	got := Report(c, model.Group)
	checkPage(t, got)
	if !strings.Contains(got, `\x1b[2J`) {
		t.Errorf("the hostile text is not shown:\n%s", got)
	}
}

func TestProblemsAreListed(t *testing.T) {
	long := strings.Repeat("a long message ", 10)
	c := &model.Collection{Name: "things", Version: semver.MustParse("1.0.0"), Problems: findings.Problems{
		{File: "galaxy.yml", Line: 3, Column: 1, Rule: "type", Severity: findings.SeverityWarning, Message: long},
		{Path: "a", Rule: "kind-name", Severity: findings.SeverityInfo, Message: "is \x1b[31mred"},
	}}
	for range maxFindings {
		c.Problems = append(c.Problems, findings.Problem{File: "a.yml", Rule: "type", Severity: findings.SeverityInfo, Message: "m"})
	}
	_, got, _ := strings.Cut(Report(c, model.Group), "\nProblems\n")
	want := "\n  1 warning and 21 hints, as `kubectl collection lint` reports them without the author's .oc-lint:\n\n" +
		"    - galaxy.yml:3:1: warning type: a long message a long message a long message a long message a\n" +
		"      long message a long message a long message a long message a long message a long message\n" +
		"    - things:1:1: info kind-name: a: is \\x1b[31mred\n" +
		strings.Repeat("    - a.yml:1:1: info type: m\n", maxFindings-2) + "    - and 2 more\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPermission(t *testing.T) {
	list := func(items ...string) []string { return items }
	for _, test := range []struct {
		rule rbacv1.PolicyRule
		want string
		text string
	}{
		{
			rbacv1.PolicyRule{APIGroups: list(""), Resources: list("pods"), Verbs: list("get")},
			"get pods of API group core", `{apiGroups: [""], resources: [pods], verbs: [get]}`,
		},
		{
			rbacv1.PolicyRule{APIGroups: list("", "apps"), Resources: list("pods", "deployments/scale"), ResourceNames: list("a", "b", "1"), Verbs: list("get", "list", "watch")},
			"get, list and watch pods and deployments/scale named a, b and 1 of API group core and apps",
			`{apiGroups: ["", apps], resources: [pods, deployments/scale], resourceNames: [a, b, "1"], verbs: [get, list, watch]}`,
		},
		{
			rbacv1.PolicyRule{APIGroups: list("*"), Resources: list("*"), Verbs: list("*")},
			"do anything with all resources of all API groups", `{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}`,
		},
		{
			rbacv1.PolicyRule{NonResourceURLs: list("/version", "/healthz/*"), Verbs: list("get")},
			"get the API server's /version and /healthz/*", `{nonResourceURLs: [/version, "/healthz/*"], verbs: [get]}`,
		},
	} {
		if got := Permission(test.rule); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
		if got := ruleText(test.rule); got != test.text {
			t.Errorf("got %s, want %s", got, test.text)
		}
	}
}

func TestPage(t *testing.T) {
	p := &Page{}
	p.Title("Title")
	p.Row(2, 6, "key", strings.Repeat("word ", 30))
	p.Row(2, 6, "long key", "text")
	p.Row(2, 6, "empty", "")
	p.Row(2, 6, "", "")
	p.Text(4, strings.Repeat("x", Width))
	p.Title("Next")
	want := "Title\n\n" +
		"  key   " + strings.TrimSpace(strings.Repeat("word ", 18)) + "\n        " + strings.TrimSpace(strings.Repeat("word ", 12)) + "\n" +
		"  long key\n        text\n  empty\n" +
		"    " + strings.Repeat("x", Width-4) + "\n    xxxx\n" +
		"\nNext\n\n"
	if diff := cmp.Diff(want, p.String()); diff != "" {
		t.Errorf("the page differs (-want +got):\n%s", diff)
	}
}
