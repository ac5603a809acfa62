// Package rulecase turns the test cases of rules into the examples of the page of the rules.
package rulecase

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// Golden is the file below a package that holds the examples of its rules.
const Golden = "testdata/rule-examples.json"

// Case is a collection that keeps or breaks a rule.
type Case struct {
	Rule findings.Rule
	// Files are what the case lays over a sound collection. An empty one is taken away.
	Files map[string]string
	// Broken says that the case breaks the rule, Problems what is wrong with the collection.
	Broken   bool
	Problems findings.Problems
}

// Example is a case that breaks a rule, and one that keeps it.
type Example struct {
	Rule string `json:"rule"`
	Bad  []File `json:"bad"`
	// Findings are the lines that lint prints about the rule.
	Findings []string `json:"findings"`
	Good     []File   `json:"good"`
}

// File is a file of a case, or a part of it that matters. Absent says that there is no such file.
type File struct {
	Name   string `json:"name"`
	Text   string `json:"text,omitempty"`
	Absent bool   `json:"absent,omitempty"`
}

// Examples takes the first case that breaks each rule, and the first that keeps it. sound is the
// operator-config that cases extend: what they share with it is left out.
func Examples(sound string, cases []Case) []Example {
	byRule := map[string]*Example{}
	for _, c := range cases {
		files := excerpts(sound, c.Files)
		e := byRule[c.Rule.Name]
		if e == nil {
			e = &Example{Rule: c.Rule.Name}
			byRule[c.Rule.Name] = e
		}
		switch {
		case c.Broken && e.Bad == nil:
			e.Bad = files
			for _, p := range c.Problems {
				if p.Rule == c.Rule.Name {
					e.Findings = append(e.Findings, shortened(p.Finding("").String()))
				}
			}
		case !c.Broken && e.Good == nil:
			e.Good = files
		}
	}
	var examples []Example
	for _, e := range byRule {
		examples = append(examples, *e)
	}
	slices.SortFunc(examples, func(a, b Example) int { return strings.Compare(a.Rule, b.Rule) })
	return examples
}

// What an example may have of a file: lines, and characters of a line. The rest is left out.
const (
	maxLines = 30
	maxWidth = 200
)

// excerpts returns the files of a case by name.
func excerpts(sound string, files map[string]string) (out []File) {
	for name, text := range files {
		text = strings.ReplaceAll(text, "\r", "")
		if head, _, found := strings.Cut(sound, "resources:\n"); found && text != sound {
			if rest, extends := strings.CutPrefix(text, sound); extends && !strings.HasPrefix(rest, " ") {
				text = rest
			} else if rest, extends := strings.CutPrefix(text, head); extends {
				text = rest
			}
		}
		var lines []string
		for line := range strings.Lines(text) {
			if len(lines) == maxLines {
				lines = append(lines, "...")
				break
			}
			lines = append(lines, shortened(strings.TrimSuffix(line, "\n")))
		}
		out = append(out, File{Name: name, Text: strings.Join(lines, "\n"), Absent: text == ""})
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func shortened(line string) string {
	if len(line) > maxWidth {
		return strings.ToValidUTF8(line[:maxWidth], "") + "..."
	}
	return line
}

// CheckGolden compares the examples of a package with its file, which update writes.
func CheckGolden(t *testing.T, update bool, examples []Example) {
	t.Helper()
	content, err := json.MarshalIndent(examples, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	content = append(content, '\n')
	if update {
		if err := os.MkdirAll(filepath.Dir(Golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(Golden, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(Golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(content)); diff != "" {
		t.Errorf("%s is not made of these cases; make it, and then the page, with: go test . -update && go test ../lint -update\n%s", Golden, diff)
	}
}

// Read returns the examples in a file.
func Read(t *testing.T, file string) []Example {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var examples []Example
	if err := json.Unmarshal(content, &examples); err != nil {
		t.Fatal(err)
	}
	return examples
}
