package collection

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sources returns the package's files without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// ruleConstants returns the value of every constant that names a rule.
func ruleConstants(t *testing.T) map[string]string {
	t.Helper()
	constants := map[string]string{}
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range spec.Names {
				if name.Obj == nil || name.Obj.Kind != ast.Con || !strings.HasPrefix(strings.ToLower(name.Name), "rule") || len(spec.Values) <= i {
					continue
				}
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if !ok {
					t.Errorf("constant %s is no literal", name.Name)
					continue
				}
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				constants[name.Name] = value
			}
			return true
		})
	}
	return constants
}

// Every rule has one constant and one place in the table, and says enough about itself.
func TestRules(t *testing.T) {
	named := map[string]int{}
	for _, value := range ruleConstants(t) {
		named[value]++
	}
	seen := map[string]bool{}
	for i, rule := range Rules() {
		switch {
		case seen[rule.Name]:
			t.Errorf("rule %q is in the table twice", rule.Name)
		case named[rule.Name] != 1:
			t.Errorf("rule %q has %d constants, want one", rule.Name, named[rule.Name])
		case i > 0 && Rules()[i-1].Name > rule.Name:
			t.Errorf("rule %q is not in order", rule.Name)
		}
		seen[rule.Name] = true
		switch rule.Severity {
		case SeverityError, SeverityWarning, SeverityInfo:
		default:
			t.Errorf("rule %q has severity %q", rule.Name, rule.Severity)
		}
		if rule.Refused && rule.Severity != SeverityError {
			t.Errorf("rule %q refuses, and is no error", rule.Name)
		}
		if !strings.HasSuffix(rule.Summary, ".") || strings.Contains(rule.Summary, "|") {
			t.Errorf("rule %q has the summary %q, want one sentence that fits into a table", rule.Name, rule.Summary)
		}
	}
	for name, value := range ruleConstants(t) {
		if !seen[value] {
			t.Errorf("%s = %q is not in the table", name, value)
		}
	}
}

// A rule is named by its constant where it is reported: a name in quotes could be one that is not in the table.
func TestRulesAreReportedByConstant(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range Rules() {
		names[rule.Name] = true
	}
	calls := 0
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			selector, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || selector.Sel.Name != "report" && selector.Sel.Name != "reportFile" {
				return true
			}
			calls++
			named := false
			for _, argument := range call.Args {
				if name := identifierOf(argument); strings.HasPrefix(name, "rule") || strings.HasSuffix(name, ".rule") {
					named = true
				}
			}
			if !named {
				t.Errorf("%s of %s is called without the constant of a rule", selector.Sel.Name, identifierOf(selector.X))
			}
			return true
		})
	}
	if calls < len(names)/2 {
		t.Errorf("found %d reports only; does this test still look at the right calls?", calls)
	}
}

func identifierOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return identifierOf(e.X) + "." + e.Sel.Name
	}
	return ""
}

const (
	rulesPage   = "../../docs/spec/operator-config.md"
	rulesMarker = "<!-- The table is generated: go test ./internal/collection -update -->\n"
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

	mentioned := map[string]bool{}
	for _, match := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(text, -1) {
		mentioned[match[1]] = true
	}
	for _, rule := range Rules() {
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
			if _, known := ruleByName[match[1]]; !known {
				t.Errorf("%s says that a rule %q checks a key, which does not exist", rulesPage, match[1])
			}
		}
	}
}

func rulesAsTable() string {
	var b strings.Builder
	b.WriteString("\n| Rule | Severity | In a cluster | Section | Checks |\n|---|---|---|---|---|\n")
	for _, rule := range Rules() {
		consequence := "installed with a warning"
		switch {
		case rule.Refused:
			consequence = "refused"
		case rule.Severity == SeverityInfo:
			consequence = "installed"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", rule.Name, rule.Severity, consequence, rule.Section, rule.Summary)
	}
	return b.String()
}
