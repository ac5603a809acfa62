package main

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// The part of SARIF 2.1.0 that findings need.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name            string      `json:"name"`
		SemanticVersion string      `json:"semanticVersion,omitempty"`
		InformationURI  string      `json:"informationUri"`
		Rules           []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string          `json:"id"`
		ShortDescription sarifText       `json:"shortDescription"`
		FullDescription  sarifText       `json:"fullDescription"`
		Help             sarifText       `json:"help"`
		HelpURI          string          `json:"helpUri"`
		Default          sarifLevel      `json:"defaultConfiguration"`
		Properties       sarifProperties `json:"properties"`
	}
	sarifLevel struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifProperties struct {
		Tags []string `json:"tags"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn,omitempty"`
	}
)

// sarifLevels are the severities in the words of SARIF.
var sarifLevels = map[findings.Severity]string{
	findings.SeverityError: "error", findings.SeverityWarning: "warning", findings.SeverityInfo: "note",
}

const (
	projectURL = "https://github.com/collection-operator/collection-operator"
	// rulesPage has a section with the name of each rule.
	rulesPage = projectURL + "/blob/main/docs/spec/rules.md"
)

// writeSARIF prints the findings for code scanning. It wants addresses that are relative to the repository's root: run
// lint there.
func writeSARIF(w io.Writer, path string, problems findings.Problems) error {
	rules := lint.Rules()
	folder := folderOf(path)
	results := make([]sarifResult, len(problems))
	for i, p := range problems {
		f := p.Finding(path)
		physical := sarifPhysical{Artifact: sarifArtifact{URI: sarifURI(folder, f.File)}}
		if p.Line > 0 {
			physical.Region = &sarifRegion{StartLine: p.Line, StartColumn: p.Column}
		}
		results[i] = sarifResult{
			RuleID:    p.Rule,
			RuleIndex: slices.IndexFunc(rules, func(r findings.Rule) bool { return r.Name == p.Rule }),
			Level:     sarifLevels[p.Severity],
			Message:   sarifText{f.Message},
			Locations: []sarifLocation{{physical}},
		}
	}
	driver := sarifDriver{Name: toolName, SemanticVersion: moduleVersion(), InformationURI: projectURL, Rules: sarifRules(rules)}
	return encodeJSON(w, sarifLog{
		Schema:  "https://json.schemastore.org/sarif-2.1.0.json",
		Version: "2.1.0",
		Runs:    []sarifRun{{Tool: sarifTool{driver}, Results: results}},
	})
}

func sarifRules(rules []findings.Rule) []sarifRule {
	out := make([]sarifRule, len(rules))
	for i, r := range rules {
		help := r.Summary
		if r.Section != "" {
			help += " (Operator Collection Specification: " + r.Section + ".)"
		}
		if r.Refused {
			help += " A cluster refuses a collection that breaks this rule."
		}
		out[i] = sarifRule{
			ID: r.Name, ShortDescription: sarifText{r.Summary}, FullDescription: sarifText{r.Summary}, Help: sarifText{help},
			HelpURI: rulesPage + "#" + r.Name,
			Default: sarifLevel{sarifLevels[r.Severity]}, Properties: sarifProperties{Tags: []string{"operator-collection"}},
		}
	}
	return out
}

// folderOf is the folder that was checked, relative to the one the command runs in; "" for an archive, and for a folder
// elsewhere.
func folderOf(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return ""
	}
	here, errHere := filepath.Abs(".")
	there, errThere := filepath.Abs(path)
	folder, err := filepath.Rel(here, there)
	if errHere != nil || errThere != nil || err != nil || !filepath.IsLocal(folder) {
		return ""
	}
	return folder
}

// sarifURI is a relative reference, whatever the name of the file is.
func sarifURI(folder, file string) string {
	name := filepath.ToSlash(filepath.Join(folder, filepath.Clean("/"+file)))
	return (&url.URL{Path: strings.TrimPrefix(name, "/")}).EscapedPath()
}
