// Package scenario is the format of the scenarios with which an author tests a collection: a custom resource, and what has to be true of
// its runs. It reads them; [github.com/collection-operator/collection-operator/internal/author/scenario/suite] runs them.
package scenario

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Dir is the folder of a collection with its scenarios, one in each YAML file. Ansible leaves the folder extensions of a collection to
// other programs.
const Dir = "extensions/collection-operator"

// Bounds on the scenarios of a collection.
const (
	maxFileBytes = 256 << 10
	maxFiles     = 200
)

// Scenario is a custom resource, and what has to be true of its runs.
type Scenario struct {
	// File is the path from the collection's root. Name is that of the file without its extension.
	File, Name  string
	Description string
	// Kind of the resource, which the collection has.
	Kind string
	// Resource is the custom resource, and Objects are others that its playbook reads. Nodes have lines of the file, and no aliases.
	Resource *yaml.Node
	Objects  []*yaml.Node
	// Outcome is that of the first run.
	Outcome gate.Outcome
	// Status has the fields that the status must have after the first run, or is nil.
	Status map[string]any
	// Idempotence says that a second run changes nothing, and Check that a drift check after it works and finds nothing, and that one after
	// the deletion finds a difference and changes nothing.
	Idempotence, Check bool
	// Deletion says that the finalizer playbook works and leaves no object behind. Recreation says that a run after the deletion changes as
	// many tasks as the first one did, and that what it made is deleted again.
	Deletion, Recreation bool
	// Unreachable says that a run fails if the endpoint does not answer.
	Unreachable bool
}

var rules findings.Rules

var ruleScenario = rules.Error("scenario", "", "A scenario in extensions/collection-operator can be read, has only keys that exist, and fits the collection. Clusters do not read it.")

// Rules returns the rules that [Read] checks.
func Rules() findings.Rules { return rules }

// Keep says which files of an archive [Read] reads. It is for [archive.Read].
func Keep(name string, size int64) bool { return isScenario(name) && size <= maxFileBytes }

func isScenario(name string) bool {
	return path.Dir(name) == Dir && slices.Contains([]string{".yaml", ".yml"}, path.Ext(name)) && !strings.HasPrefix(path.Base(name), ".")
}

// Read returns the scenarios of the collection whose root is fsys, sorted by file, and all that is wrong with them. One that has a problem is
// left out. The collection is nil if it cannot be loaded: then nothing is compared with it. The error means that fsys could not be read.
func Read(fsys fs.FS, c *model.Collection) ([]Scenario, findings.Problems, error) {
	entries, err := fs.ReadDir(fsys, Dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the scenarios: %w", err)
	}
	r := findings.NewReporter()
	var scenarios []Scenario
	count := 0
	for _, entry := range entries {
		name := path.Join(Dir, entry.Name())
		if !isScenario(name) || entry.IsDir() {
			continue
		}
		if count++; count > maxFiles {
			r.ReportFile(name, ruleScenario, "there are more than %d scenarios; this one and all that follow are not read", maxFiles)
			break
		}
		content, err := readFile(fsys, name)
		switch {
		case errors.Is(err, archive.ErrNotKept) || len(content) > maxFileBytes:
			r.ReportFile(name, ruleScenario, "is larger than %d KiB", maxFileBytes>>10)
			continue
		case err != nil:
			return nil, nil, fmt.Errorf("read the scenarios: %w", err)
		}
		if s, ok := parse(r, name, content, c); ok {
			scenarios = append(scenarios, s)
		}
	}
	for i, p := range r.Problems {
		r.Problems[i] = ruleScenario.At(p, "%s", p.Message) // Rules about YAML are about files that clusters read.
	}
	r.Problems.Sort()
	return scenarios, r.Problems, nil
}

func readFile(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFileBytes+1))
}

// parse reads one scenario. ok is false if there is a problem, which is reported.
func parse(r *findings.Reporter, file string, content []byte, c *model.Collection) (Scenario, bool) {
	before := len(r.Problems)
	s := Scenario{File: file, Name: strings.TrimSuffix(path.Base(file), path.Ext(file))}
	doc, ok := r.ParseDocument(file, bytes.TrimPrefix(content, []byte("\ufeff")))
	if !ok {
		return s, false
	}
	root, ok := doc.Mapping()
	if !ok {
		return s, false
	}
	root.RefuseUnknown(ruleScenario, keys(rootKeys)...)
	s.Description = root.Get("description").Text()
	s.readResource(root.Get("resource"))
	for _, object := range root.Get("objects").List() {
		if object.Node == nil || object.Node.Kind != yaml.MappingNode {
			object.Report(ruleScenario, "must be an object of Kubernetes, not %s", object.What())
			continue
		}
		s.Objects = append(s.Objects, resolved(object.Node))
	}
	s.readExpectation(root.Get("expect"))
	s.readSteps(root, s.declared(root.Get("resource"), c))
	return s, len(r.Problems) == before
}

// readResource reads kind and resource.
func (s *Scenario) readResource(v findings.Value) {
	if !v.Present() {
		v.Report(ruleScenario, "is required: the custom resource to run")
		return
	}
	resource, ok := v.Mapping()
	if !ok {
		return
	}
	s.Kind = resource.Get("kind").RequiredText()
	s.Resource = resolved(v.Node)
}

// declared returns what the collection says about the kind of the resource.
func (s *Scenario) declared(v findings.Value, c *model.Collection) model.Resource {
	if c == nil || s.Kind == "" {
		return model.Resource{}
	}
	declared, ok := c.Resource(s.Kind)
	if !ok {
		resource, _ := v.Mapping()
		var kinds []string
		for _, r := range c.Resources {
			kinds = append(kinds, r.Kind)
		}
		resource.Get("kind").Report(ruleScenario, "the collection has no kind %s: it has %s", findings.Quote(s.Kind), strings.Join(kinds, ", "))
	}
	return declared
}

// outcomes are what a scenario may expect of the first run.
var outcomes = []gate.Outcome{gate.OutcomeSucceeded, gate.OutcomeRequeued, gate.OutcomeFailed}

func (s *Scenario) readExpectation(v findings.Value) {
	s.Outcome = gate.OutcomeSucceeded
	if !v.Present() {
		return
	}
	expect, ok := v.Mapping()
	if !ok {
		return
	}
	expect.RefuseUnknown(ruleScenario, keys(expectKeys)...)
	outcome := expect.Get("outcome")
	s.Outcome = gate.Outcome(cmp.Or(outcome.Text(), string(gate.OutcomeSucceeded)))
	if !slices.Contains(outcomes, s.Outcome) {
		outcome.Report(ruleScenario, "%s is not an outcome: use Succeeded, Requeued or Failed", findings.Quote(string(s.Outcome)))
	}
	status := expect.Get("status")
	if !status.Present() {
		return
	}
	before := status.Errors()
	if _, ok := status.Mapping(); !ok || status.Errors() > before {
		return
	}
	var err error
	if s.Status, err = values(resolved(status.Node)); err != nil {
		status.Report(ruleScenario, "cannot be read: %v", err)
	}
}

// readSteps reads what is tried besides the first run. What cannot be is off unless it is asked for, which is a problem then.
func (s *Scenario) readSteps(root findings.Mapping, declared model.Resource) {
	succeeds := s.Outcome == gate.OutcomeSucceeded
	finalizer := declared.Finalizer != ""
	known := declared.Kind != ""
	step := func(key string, standard, possible bool, need string) bool {
		v := root.Get(key)
		if !v.Present() {
			return standard && possible
		}
		asked := v.Boolean()
		if asked && known && !possible {
			v.Report(ruleScenario, "%s", need)
		}
		return asked
	}
	s.Idempotence = step("idempotence", true, succeeds, "needs outcome: Succeeded")
	s.Check = step("check", true, succeeds && declared.SupportsCheckMode, "needs outcome: Succeeded, and supportsCheckMode of the kind")
	s.Deletion = step("deletion", true, finalizer, "needs a finalizer of the kind")
	s.Recreation = step("recreation", true, succeeds && s.Deletion, "needs outcome: Succeeded, and deletion")
	s.Unreachable = step("unreachable", succeeds, true, "")
}

// resolved returns a copy of a node in which aliases are replaced by what they stand for.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	out := *n
	out.Anchor, out.Content = "", make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		out.Content[i] = resolved(child)
	}
	return &out
}

// values returns a mapping with the types that objects of Kubernetes have.
func values(n *yaml.Node) (map[string]any, error) {
	text, err := yaml.Marshal(n)
	if err != nil {
		return nil, err
	}
	content, err := sigsyaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	return out, json.Unmarshal(content, &out)
}
