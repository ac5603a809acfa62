package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/test/rulecase"
)

// clause is one MUST, SHALL, SHOULD or MAY of the Operator Collection Specification, in our words.
type clause struct {
	section, key, word, says string
	// rules are those of kubectl collection lint that check it.
	rules []string
	// behaviour is what the manager, the operator or the API server does.
	behaviour string
	// tests are folders with the name of a test or spec in them. Each rule also has cases that keep and break it: TestRuleCases.
	tests []string
}

const (
	collectionRules = "internal/collection/model: TestRuleCases"
	playbookRules   = "internal/author/playbook: TestRuleCases"
)

// clauses are in the order of the specification.
var clauses = []clause{
	{"Root", "domain", "MUST", "is a DNS subdomain (RFC 1123)", []string{"identity"}, "refused otherwise, also above 63 characters", []string{collectionRules}},
	{"Root", "domain", "SHOULD", "is Galaxy's namespace", []string{"match-domain"}, "imported with a warning otherwise; `-` and `_` count as the same", []string{collectionRules}},
	{"Root", "domain", "MAY", "is another value in forks", []string{"match-domain"}, "imported; the identity of a collection is its domain and name", []string{collectionRules, "internal/collection/crd: TestPlan"}},
	{"Root", "name", "MUST", "is a DNS subdomain (RFC 1123)", []string{"identity"}, "refused otherwise, also above 63 characters", []string{collectionRules}},
	{"Root", "name", "SHOULD", "is Galaxy's name", []string{"match-name"}, "imported with a warning otherwise", []string{collectionRules}},
	{"Root", "name", "MAY", "is another value in forks", []string{"match-name"}, "imported", []string{collectionRules, "internal/collection/crd: TestPlan"}},
	{"Root", "version", "SHOULD", "is Galaxy's version", []string{"match-version"}, "imported with a warning otherwise", []string{collectionRules}},
	{"Root", "description", "MUST", "has a new line after each header", []string{"description-heading"}, "shown as it is", []string{collectionRules}},
	{"Operator Resources", "resources", "MUST", "has at least one resource", []string{"required"}, "refused otherwise", []string{collectionRules}},
	{"Operator Resources", "version, kind", "MUST", "are unique in the cluster together", []string{"kind-unique"}, "`KindClash` names the other collection and `apiGroup: PerCollection`; `VersionConflict` for other content in the same version", []string{"internal/collection/crd: TestPlan", "internal/collection/crd: TestMergeConflicts"}},
	{"Operator Resources", "group, version, kind", "MUST", "are unique", []string{"kind-unique"}, "as above; with `apiGroup: PerCollection` the group is the collection's own", []string{"internal/collection/crd: TestPlan"}},
	{"Operator Resources", "kind", "MUST", "is in Pascal case", []string{"kind-name", "kind-case"}, "a small first letter is imported with a warning, what Kubernetes does not allow is refused", []string{collectionRules}},
	{"Operator Resources", "playbook", "MUST", "is a path relative to the archive's root", []string{"playbook-path", "missing-playbook"}, "refused otherwise", []string{collectionRules}},
	{"Operator Resources", "playbook", "MUST", "has `hosts: all`", []string{"hosts-all", "hosts-group", "hosts-template"}, "`all` is the endpoint of the resource; plays for `localhost` alone run in the pod; a playbook in which no host ran has failed", []string{playbookRules, "internal/run/engine: TestAuthorPlaybookRunsOnTheEndpoint", "internal/run/engine: TestNoHostRan"}},
	{"Operator Resources", "finalizer", "MAY", "is a playbook that runs when a resource is deleted", []string{"finalizer-path", "missing-finalizer"}, "the resource is gone when it succeeded", []string{"internal/collection/render: TestWatches", "internal/run/runner: keeps the finalizer while a delete play fails or asks to run again"}},
	{"Operator Resources", "finalizer", "MAY", "is the same playbook as `playbook`", []string{"finalizer-path"}, "it runs with `k8s_cr_event: delete`", []string{collectionRules, "internal/collection/render: TestWatches"}},
	{"Operator Resources", "finalizer", "MAY", "is left out: resources on z/OS stay behind", nil, "the resource is gone at once; `explain` says so", []string{"internal/collection/render: TestWatches"}},
	{"Operator Resources", "vars", "SHOULD", "are provided to the playbook", nil, "fields of the resource's spec, given as extra variables", []string{"internal/collection/render: TestRunVariables"}},
	{"Resource Variables", "vars", "SHALL", "override other defaults by Ansible's precedence", nil, "extra variables have the highest precedence", []string{"internal/run/engine: TestAuthorPlaybookRunsOnTheEndpoint"}},
	{"Resource Variables", "vars", "SHALL", "are passed as extra variables", nil, "**Deviation**: a variable that is optional, has no default and is not set is not passed, booleans included. There is no value to pass, and a made-up one would override the defaults of roles. API versions that were published with `default: false` for every boolean keep it", []string{"internal/collection/render: TestCRDDefaults", "internal/collection/crd: TestMergeKeepsTheFalseOfPublishedBooleans"}},
	{"Resource Variables", "vars", "MAY", "leave default variables to the collection", []string{"undeclared-var"}, "defaults of roles apply where nothing is set", []string{playbookRules}},
	{"Resource Variables", "vars", "SHOULD", "declare only what users may override", []string{"reserved-var", "ansible-keyword"}, "names that steer the run are refused; which others are of use to users is for the author to judge", []string{collectionRules}},
	{"Resource Variables", "vars", "MAY", "be overridden by users when the playbook runs", nil, "by the fields of the spec; a field that is not declared is removed by the API server, and reported", []string{"internal/collection/render: TestRunVariables"}},
	{"Resource Variables", "vars", "MAY", "leave out variables that no user needs to set", []string{"undeclared-var"}, "playbooks and roles set them", []string{playbookRules}},
	{"Resource Variables", "name", "SHALL", "is passed as extra variable of this name", []string{"var-name", "var-unique"}, "never converted", []string{"internal/collection/render: TestWatches", "internal/collection/render: TestRunVariables"}},
	{"Resource Variables", "name", "MUST", "is a variable that the playbook or its roles use", []string{"unused-var", "unseen-var"}, "an error of `lint`; a warning where the playbook leads to what cannot be read. The manager reads no playbooks", []string{playbookRules}},
	{"Resource Variables", "displayName", "SHALL", "is visible in the console", []string{"display-name"}, "title of the field and of its descriptor; the name without one", []string{"internal/collection/render: TestDescriptorsFollowTheSchema"}},
	{"Resource Variables", "required", "MUST", "is set where users must give a value", nil, "the API server refuses resources without it, booleans included, and forms offer no value for these", []string{"internal/collection/render: TestCRDValidation", "internal/collection/render: TestFormExample"}},
	{"Resource Variables", "description", "SHALL", "is visible in the console", nil, "description of the field and of its descriptor", []string{"internal/collection/render: TestDescriptorsFollowTheSchema"}},
	{"Resource Variables", "description", "MUST", "tells users what the variable is for", nil, "shown as it is: whether it does is for people to judge", nil},
	{"Resource Variables", "objectVariables", "SHOULD", "are the variables in an object", []string{"object-variables", "object-variables-unused", "optional-object"}, "fields of the object; an object without them is refused", []string{collectionRules, "internal/collection/render: TestCRDDefaults"}},
	{"Object Variables", "name", "SHALL", "is passed to the playbook", []string{"var-name", "var-unique"}, "as a field of the object's variable, which Ansible passes as a whole", []string{"internal/collection/render: TestRunVariables"}},
	{"Object Variables", "name", "MUST", "is a variable that the playbook or its roles use", []string{"unseen-var"}, "a warning of `lint`: the object may be used as a whole", []string{playbookRules}},
	{"Object Variables", "displayName", "SHALL", "is visible in the console", []string{"display-name"}, "as above", []string{"internal/collection/render: TestDescriptorsFollowTheSchema"}},
	{"Object Variables", "required", "MUST", "is set where users must give a value", nil, "as above, where the object is given", []string{"internal/collection/render: TestCRDDefaults"}},
	{"Object Variables", "description", "SHALL", "is visible in the console", nil, "as above", []string{"internal/collection/render: TestDescriptorsFollowTheSchema"}},
	{"Object Variables", "description", "MUST", "tells users what the variable is for", nil, "as above: for people to judge", nil},
	{"Provided Variables", "playbooks", "MAY", "run elsewhere, too", nil, "`k8s_managed` and the other provided variables tell where", []string{"internal/collection/render: TestWatches"}},
	{"Provided Variables", "tasks", "MAY", "be for one place only", nil, "as above", []string{"internal/collection/render: TestWatches"}},
}

// occurrences are how often the specification has each word, without the sentence that defines them. MAY NOT is no word of
// RFC 2119: its sentence is one clause.
var occurrences = map[string]int{"MUST": 15, "SHALL": 8, "SHOULD": 6, "MAY": 10}

func TestConformanceHasEveryClause(t *testing.T) {
	found := map[string]int{}
	for _, c := range clauses {
		found[c.word]++
	}
	if diff := cmp.Diff(occurrences, found); diff != "" {
		t.Errorf("clauses by word (-specification +table):\n%s", diff)
	}
}

// judged is the behaviour of a clause that no program can check.
const judged = "for people to judge"

// sentence names a clause in the comment of each test that proves it.
func (c clause) sentence() string {
	return fmt.Sprintf("// Specification: %s, %s %s: %s", c.section, c.key, c.word, c.says)
}

// What the table says of rules and tests is there. A clause that a rule proves has a rule with a case that keeps it and one that breaks it;
// any other test names the clause in its comment.
func TestConformanceIsProven(t *testing.T) {
	rules := lint.Rules()
	for _, c := range clauses {
		for _, name := range c.rules {
			if !slices.ContainsFunc(rules, func(r findings.Rule) bool { return r.Name == name }) {
				t.Errorf("%s: there is no rule %s", c.sentence(), name)
			}
		}
		if len(c.tests) == 0 && !strings.HasSuffix(c.behaviour, judged) {
			t.Errorf("%s: no test", c.sentence())
		}
		for _, test := range c.tests {
			if folder, byRules := strings.CutSuffix(test, ": TestRuleCases"); byRules {
				c.expectCases(t, folder)
			} else if !strings.Contains(commentOf(t, test), c.sentence()+"\n") {
				t.Errorf("there is no test %q with the comment %q", test, c.sentence())
			}
		}
	}
}

// expectCases wants each rule of a clause that a package checks to have a case that breaks it and one that keeps it, and one rule at least.
func (c clause) expectCases(t *testing.T, folder string) {
	t.Helper()
	proven := 0
	for _, e := range rulecase.Read(t, filepath.Join("../../..", folder, rulecase.Golden)) {
		if slices.Contains(c.rules, e.Rule) && e.Bad != nil && e.Good != nil {
			proven++
		}
	}
	if proven == 0 {
		t.Errorf("%s: no rule of %s has cases", c.sentence(), folder)
	}
}

// No test names a clause that the table does not have, or that the table proves otherwise.
func TestConformanceNamesNoOtherClauses(t *testing.T) {
	known := map[string]int{}
	for _, c := range clauses {
		for _, test := range c.tests {
			if !strings.HasSuffix(test, ": TestRuleCases") {
				known[c.sentence()]++
			}
		}
	}
	for _, pattern := range []string{"../../*/*_test.go", "../../*/*/*_test.go", "../../../test/integration/*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(content)) {
				if line = strings.TrimSpace(line); strings.HasPrefix(line, "// Specification: ") {
					known[line]--
				}
			}
		}
	}
	for sentence, left := range known {
		if left != 0 {
			t.Errorf("%q is named %d times more often in the table than in tests", sentence, left)
		}
	}
}

// commentOf returns the comment before a test, or before a spec with a text, in the files of a folder; "" if there is none.
func commentOf(t *testing.T, test string) string {
	t.Helper()
	folder, name, _ := strings.Cut(test, ": ")
	files, err := filepath.Glob(filepath.Join("../../..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		comment := ""
		for line := range strings.Lines(string(content)) {
			switch line = strings.TrimSpace(line); {
			case strings.HasPrefix(line, "//"):
				comment += line + "\n"
			case strings.HasPrefix(line, "func "+name+"("), strings.HasPrefix(line, `It("`+name+`"`):
				return comment
			default:
				comment = ""
			}
		}
	}
	return ""
}

const (
	conformancePage   = "../../../docs/spec/conformance.md"
	conformanceMarker = "<!-- The table is generated: go test ./internal/author/lint -update -->\n"
)

func TestConformanceIsDocumented(t *testing.T) {
	content, err := os.ReadFile(conformancePage)
	if err != nil {
		t.Fatal(err)
	}
	text, table, found := strings.Cut(string(content), conformanceMarker)
	if !found {
		t.Fatalf("%s has lost its marker", conformancePage)
	}
	want := conformanceTable()
	if *update {
		if err := os.WriteFile(conformancePage, []byte(text+conformanceMarker+want), 0o644); err != nil {
			t.Fatal(err)
		}
		table = want
	}
	if diff := cmp.Diff(want, table); diff != "" {
		t.Errorf("the table is out of date (-want +got):\n%s", diff)
	}
}

func conformanceTable() string {
	var b strings.Builder
	section := ""
	for _, c := range clauses {
		if c.section != section {
			section = c.section
			fmt.Fprintf(&b, "\n## %s\n\n| Key | Word | The specification | Rules | Behaviour | Tests |\n|---|---|---|---|---|---|\n", strings.Replace(section, "Root", findings.SectionRoot, 1))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", strings.ReplaceAll(c.key, ", ", "`, `"), c.word, c.says, quoted(c.rules), c.behaviour, strings.Join(c.tests, "; "))
	}
	return b.String()
}

func quoted(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "`" + strings.Join(names, "`, `") + "`"
}
