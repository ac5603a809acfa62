package lint_test

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/test/rulecase"
)

// ruleCases are those of the rules that need a whole folder. The packages of the other rules have cases of their own.
var ruleCases = []struct {
	rule   string
	files  map[string]string
	broken bool
}{
	{"archive", map[string]string{`files/here.txt`: "x"}, false},
	{"archive", map[string]string{`files\here.txt`: "x"}, true},
	{"galaxy-build", map[string]string{"galaxy.yml": galaxyYAML}, false},
	{"galaxy-build", map[string]string{"galaxy.yml": strings.Replace(galaxyYAML, "readme: README.md\n", "", 1)}, true},
	{"crd-schema", map[string]string{"operator-config.yml": config + "    description: A thing\n"}, false},
	{"crd-schema", map[string]string{"operator-config.yml": config + "    description: " + strings.Repeat("<", 175<<10) + "\n"}, true},
	{"extension", map[string]string{"operator-config.yml": config + "    hideResource: false\n"}, false},
	{"extension", map[string]string{"operator-config.yml": config + "    supportsCheckMode: true\n"}, true},
	{"image-version", map[string]string{"requirements.yml": "- {name: operator_sdk.util, version: '>=0.4.0'}\n"}, false},
	{"image-version", map[string]string{"requirements.yml": "- {name: operator_sdk.util, version: 0.4.0}\n"}, true},
	{"oc-lint", map[string]string{lint.SettingsFile: "skip_list: [match-domain]\n"}, false},
	{"oc-lint", map[string]string{lint.SettingsFile: "skip_list: [matchdomain]\n"}, true},
	{"scenario", map[string]string{"extensions/collection-operator/thing.yaml": "resource:\n  kind: Thing\n  metadata: {name: one}\n"}, false},
	{"scenario", map[string]string{"extensions/collection-operator/thing.yaml": "resource:\n  kind: Thing\n  metadata: {name: one}\nidempotent: true\n"}, true},
}

// withoutExample are the rules that no collection is known to break: they would be faults of this program.
var withoutExample = []string{"example"}

func TestRuleCases(t *testing.T) {
	for _, c := range ruleCases {
		found := slices.ContainsFunc(checkFolder(t, folder(c.files)), func(p findings.Problem) bool { return p.Rule == c.rule })
		if found != c.broken {
			t.Errorf("%s is broken: %t, want %t by %v", c.rule, found, c.broken, c.files)
		}
	}
}

func TestRuleExamples(t *testing.T) {
	var cases []rulecase.Case
	for _, c := range ruleCases {
		rule := lint.Rules()[slices.IndexFunc(lint.Rules(), func(r findings.Rule) bool { return r.Name == c.rule })]
		cases = append(cases, rulecase.Case{Rule: rule, Files: c.files, Broken: c.broken, Problems: checkFolder(t, folder(c.files))})
	}
	rulecase.CheckGolden(t, *update, rulecase.Examples(config, cases))
}

const (
	examplesPage   = "../../../docs/spec/rules.md"
	examplesMarker = "<!-- All below is generated: go test ./internal/author/lint -update -->\n"
)

// Each rule has a section with an example that breaks it and one that keeps it, made of the cases that test it.
func TestRulesHavePages(t *testing.T) {
	examples := map[string]rulecase.Example{}
	for _, folder := range []string{".", "../../collection/model", "../playbook"} {
		for _, e := range rulecase.Read(t, path.Join(folder, rulecase.Golden)) {
			examples[e.Rule] = e
		}
	}
	content, err := os.ReadFile(examplesPage)
	if err != nil {
		t.Fatal(err)
	}
	intro, sections, found := strings.Cut(string(content), examplesMarker)
	if !found {
		t.Fatalf("%s has lost its marker", examplesPage)
	}
	var b strings.Builder
	for _, rule := range lint.Rules() {
		e := examples[rule.Name]
		if (e.Bad == nil || e.Good == nil || len(e.Findings) == 0) && !slices.Contains(withoutExample, rule.Name) {
			t.Errorf("rule %s has no case that breaks it, or none that keeps it", rule.Name)
		}
		ruleSection(&b, rule, e)
		delete(examples, rule.Name)
	}
	for name := range examples {
		t.Errorf("there are examples of %s, which is no rule", name)
	}
	if *update {
		if err := os.WriteFile(examplesPage, []byte(intro+examplesMarker+b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		sections = b.String()
	}
	if diff := cmp.Diff(b.String(), sections); diff != "" {
		t.Errorf("%s is out of date (-want +got):\n%s", examplesPage, diff)
	}
}

func ruleSection(b *strings.Builder, rule findings.Rule, e rulecase.Example) {
	fmt.Fprintf(b, "\n## `%s`\n\n%s\n\n%s; in a cluster: %s.", rule.Name, rule.Summary, capital(string(rule.Severity)), consequence(rule))
	if rule.Section != "" {
		fmt.Fprintf(b, " Operator Collection Specification: %s.", rule.Section)
	}
	b.WriteString("\n")
	if e.Bad == nil {
		return
	}
	b.WriteString("\nBad:\n")
	exampleFiles(b, e.Bad)
	fmt.Fprintf(b, "\n```text\n%s\n```\n\nGood:\n", strings.Join(e.Findings, "\n"))
	exampleFiles(b, e.Good)
}

func exampleFiles(b *strings.Builder, files []rulecase.File) {
	for _, f := range files {
		if f.Absent {
			fmt.Fprintf(b, "\nThere is no `%s`.\n", f.Name)
			continue
		}
		language := map[string]string{".yml": "yaml", ".yaml": "yaml", ".json": "json"}[path.Ext(f.Name)]
		if language == "" {
			language = "text"
		}
		fmt.Fprintf(b, "\n`%s`:\n\n```%s\n%s\n```\n", f.Name, language, f.Text)
	}
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
