package lint_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Every rule has a name of its own, and says enough about itself.
func TestRules(t *testing.T) {
	rules := lint.Rules()
	for i, rule := range rules {
		if i > 0 && rules[i-1].Name >= rule.Name {
			t.Errorf("rule %q is there twice, or not in order", rule.Name)
		}
		if !strings.HasSuffix(rule.Summary, ".") || strings.Contains(rule.Summary, "|") {
			t.Errorf("rule %q has the summary %q, want one sentence that fits into a table", rule.Name, rule.Summary)
		}
	}
}

const (
	rulesPage   = "../../../docs/spec/operator-config.md"
	rulesMarker = "<!-- The table is generated: go test ./internal/author/lint -update -->\n"
)

// The page of the specification ends with a table of all rules, and says at each key which of them check it.
func TestRulesAreDocumented(t *testing.T) {
	content, err := os.ReadFile(rulesPage)
	if err != nil {
		t.Fatal(err)
	}
	text, table, found := strings.Cut(string(content), rulesMarker)
	if !found {
		t.Fatalf("%s has lost its marker", rulesPage)
	}
	want := rulesAsTable()
	if *update {
		if err := os.WriteFile(rulesPage, []byte(text+rulesMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		table = want
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the table of rules is out of date (-want +got):\n%s", diff)
	}

	mentioned, known := map[string]bool{}, map[string]bool{}
	for _, match := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(text, -1) {
		mentioned[match[1]] = true
	}
	for _, rule := range lint.Rules() {
		known[rule.Name] = true
		if rule.Section != "" && !mentioned[rule.Name] {
			t.Errorf("%s has no key that rule %s checks", rulesPage, rule.Name)
		}
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), "|")
		for _, match := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[len(cells)-1], -1) {
			if !known[match[1]] {
				t.Errorf("%s says that a rule %q checks a key, which does not exist", rulesPage, match[1])
			}
		}
	}
}

func rulesAsTable() string {
	var b strings.Builder
	b.WriteString("\n| Rule | Severity | In a cluster | Section | Checks |\n|---|---|---|---|---|\n")
	for _, rule := range lint.Rules() {
		fmt.Fprintf(&b, "| [`%s`](rules.md#%s) | %s | %s | %s | %s |\n", rule.Name, rule.Name, rule.Severity, consequence(rule), rule.Section, rule.Summary)
	}
	return b.String()
}

// consequence says what a cluster does with a collection that breaks a rule.
func consequence(rule findings.Rule) string {
	checked := slices.Concat(findings.AllRules(), model.Rules(), crd.Rules()) // by the manager, which does not link lint
	switch {
	case rule.Refused:
		return "refused"
	case !slices.Contains(checked, rule):
		return "not checked"
	case rule.Severity == findings.SeverityInfo:
		return "installed"
	}
	return "installed with a warning"
}
