package scenario

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// users has a kind with all that scenarios can try, and one with nothing.
var users = &model.Collection{Resources: []model.Resource{
	{Kind: "User", Finalizer: "playbooks/remove.yml", SupportsCheckMode: true}, {Kind: "Report"},
}}

const hello = Dir + "/hello.yaml"

func readOne(t *testing.T, content string) ([]Scenario, []string) {
	t.Helper()
	scenarios, problems, err := Read(fstest.MapFS{hello: {Data: []byte(content)}}, users)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range problems {
		if p.Rule != ruleScenario.Name || p.Refused {
			t.Errorf("%v is a problem of rule %s, refused %t", p, p.Rule, p.Refused)
		}
		lines = append(lines, strings.TrimPrefix(p.String(), hello+":"))
	}
	return scenarios, lines
}

func TestStandardSteps(t *testing.T) {
	for _, tt := range []struct {
		name, content string
		want          Scenario
	}{
		{"of a kind with everything", "resource: {kind: User}", Scenario{
			Kind: "User", Outcome: gate.OutcomeSucceeded, Idempotence: true, Check: true, Deletion: true, Recreation: true, Unreachable: true,
		}},
		{"of a kind with nothing", "resource: {kind: Report}", Scenario{
			Kind: "Report", Outcome: gate.OutcomeSucceeded, Idempotence: true, Unreachable: true,
		}},
		{"of a failure", "resource: {kind: User}\nexpect: {outcome: Failed}", Scenario{Kind: "User", Outcome: gate.OutcomeFailed, Deletion: true}},
		{"without deletion", "resource: {kind: User}\ndeletion: no", Scenario{
			Kind: "User", Outcome: gate.OutcomeSucceeded, Idempotence: true, Check: true, Unreachable: true,
		}},
		{"of which most are off", "resource: {kind: User}\nidempotence: false\ncheck: false\nrecreation: false\nunreachable: false", Scenario{
			Kind: "User", Outcome: gate.OutcomeSucceeded, Deletion: true,
		}},
		{"with a status", "description: D\nresource: {kind: Report}\nexpect: {status: {region: {size: 2}, zones: [a]}}", Scenario{
			Description: "D", Kind: "Report", Outcome: gate.OutcomeSucceeded, Idempotence: true, Unreachable: true,
			Status: map[string]any{"region": map[string]any{"size": int64(2)}, "zones": []any{"a"}},
		}},
	} {
		scenarios, problems := readOne(t, tt.content)
		tt.want.File, tt.want.Name = hello, "hello"
		if diff := cmp.Diff([]Scenario{tt.want}, scenarios, cmpopts.IgnoreFields(Scenario{}, "Resource", "Objects")); diff != "" || problems != nil {
			t.Errorf("%s: problems %q, %s", tt.name, problems, diff)
		}
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	for _, tt := range []struct{ content, want string }{
		{"", "1:1: must be a mapping of keys to values, not null"},
		{"a: [", `1:1: cannot be read as YAML: did not find expected node content`},
		{"resource: {kind: User}\n---\nresource: {kind: User}", "2:1: cannot be read as YAML: the file holds more than one document (---); keep the first only"},
		{"{}", "1:1: resource: is required: the custom resource to run"},
		{"resource: {kind: Usr}", `1:18: resource.kind: the collection has no kind "Usr": it has User, Report`},
		{
			"resource:\n  spec: {}\nidempotent: yes\nexpect:\n  outcome: Good\n  stats: {}\nobjects: [a]\nunreachable: often",
			"2:3: resource.kind: is required\n" +
				"3:13: idempotent: unknown key; did you mean idempotence?\n" +
				"5:12: expect.outcome: \"Good\" is not an outcome: use Succeeded, Requeued or Failed\n" +
				"6:10: expect.stats: unknown key; did you mean status?\n" +
				"7:11: objects[0]: must be an object of Kubernetes, not \"a\"\n" +
				"8:14: unreachable: must be true or false, not \"often\"",
		},
		{"resource: {kind: User}\nresource: {kind: User}", `2:1: key "resource" is given twice, first in line 1; keep one`},
		{"resource: {kind: Report}\ncheck: true\ndeletion: true", "2:8: check: needs outcome: Succeeded, and supportsCheckMode of the kind\n3:11: deletion: needs a finalizer of the kind"},
		{"resource: {kind: User}\nexpect: {outcome: Requeued}\nidempotence: true", "3:14: idempotence: needs outcome: Succeeded"},
		{"resource: {kind: User}\ndeletion: false\nrecreation: true", "3:13: recreation: needs outcome: Succeeded, and deletion"},
		{"resource: {kind: User}\nexpect: {status: {a: 1, a: 2}}", `2:25: expect.status: key "a" is given twice, first in line 2; keep one`},
	} {
		scenarios, problems := readOne(t, tt.content)
		if got := strings.Join(problems, "\n"); got != tt.want || scenarios != nil {
			t.Errorf("%s\ngives %d scenarios and\n%s\nwant\n%s", tt.content, len(scenarios), got, tt.want)
		}
	}
}

// Nodes keep their lines, and have no aliases.
func TestResourceKeepsItsLines(t *testing.T) {
	scenarios, problems := readOne(t, "objects:\n  - &secret {kind: Secret}\nresource:\n  kind: User\n  spec:\n    secret: *secret\n")
	if problems != nil {
		t.Fatal(problems)
	}
	s := scenarios[0]
	if s.Resource.Line != 4 || len(s.Objects) != 1 || s.Objects[0].Line != 2 {
		t.Errorf("the resource is in line %d, the objects are %v", s.Resource.Line, s.Objects)
	}
	text, err := yaml.Marshal(s.Resource)
	if err != nil || bytes.ContainsAny(text, "&*") {
		t.Errorf("%v: %s", err, text)
	}
}

func TestOnlyScenariosAreRead(t *testing.T) {
	one := &fstest.MapFile{Data: []byte("resource: {kind: User}")}
	scenarios, problems, err := Read(fstest.MapFS{
		hello: one, Dir + "/b.yml": one, Dir + "/README.md": one, Dir + "/.swap.yaml": one, Dir + "/files/x.yaml": one, "extensions/x.yaml": one,
		Dir + "/large.yaml": {Data: bytes.Repeat([]byte("#\n"), maxFileBytes)},
	}, users)
	if err != nil || len(scenarios) != 2 || scenarios[0].Name != "b" || scenarios[1].Name != "hello" {
		t.Errorf("got %v, %v", scenarios, err)
	}
	if len(problems) != 1 || problems[0].String() != Dir+"/large.yaml: is larger than 256 KiB" {
		t.Errorf("problems %v", problems)
	}
	for name, want := range map[string]bool{hello: true, Dir + "/x/y.yaml": false, "hello.yaml": false} {
		if Keep(name, 1) != want || Keep(name, maxFileBytes+1) {
			t.Errorf("Keep(%s) is wrong", name)
		}
	}
}

// The schema refuses what reading refuses, as far as it does not depend on the collection.
func TestSchemaAgrees(t *testing.T) {
	raw, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("scenario.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("scenario.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{
		"resource: {kind: User}", "resource: {kind: User}\nobjects: [{kind: Secret}]\nexpect: {outcome: Failed, status: {a: 1}}\ncheck: no\ndescription:",
		"{}", "resource: {}", "resource: x", "resource: {kind: User}\nidempotent: true", "resource: {kind: User}\nexpect: {outcome: Good}",
		"resource: {kind: User}\nexpect: {status: []}", "resource: {kind: User}\nunreachable: often", "resource: {kind: User}\nobjects: [a]",
		"resource: {kind: User}\ndescription: []", "resource: {kind: User}\nexpect: {x: 1}",
	} {
		_, problems, err := Read(fstest.MapFS{hello: {Data: []byte(content)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		asJSON, err := sigsyaml.YAMLToJSON([]byte(content))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		if refused := schema.Validate(value); (refused != nil) != (len(problems) > 0) {
			t.Errorf("%s\nthe schema says %v, reading says %v", content, refused, problems)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("resource: {kind: User, spec: &a {b: 1}}\nobjects: [*a]\nexpect: {status: {<<: *a}}\ncheck: no\n"))
	f.Add([]byte("resource:\n  kind: User\nexpect:\n  outcome: Failed\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		scenarios, problems, err := Read(fstest.MapFS{hello: {Data: content}}, users)
		if err != nil || len(scenarios) == 1 == (len(problems) > 0) {
			t.Errorf("%d scenarios, problems %v, error %v", len(scenarios), problems, err)
		}
	})
}
