package findings

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule is one thing that is checked. A package that checks something has its rules in a list of type [Rules].
type Rule struct {
	// Name is short and stable: "kind-name".
	Name     string
	Severity Severity
	// Refused says that the cluster refuses a collection that breaks the rule: it cannot be rendered, or would do harm.
	// A collection that breaks only other rules is installed.
	Refused bool
	// Section is that of the Operator Collection Specification which the rule comes from, "" for a rule of ours.
	Section string
	// Summary says in one sentence what is checked.
	Summary string
}

// At is the problem that the rule is broken at a place: a Problem that has File, Line, Column and Path.
func (r Rule) At(place Problem, format string, args ...any) Problem {
	place.Rule, place.Severity, place.Refused, place.Message = r.Name, r.Severity, r.Refused, fmt.Sprintf(format, args...)
	return place
}

// Rules are the rules of one package, or of several.
type Rules []Rule

// Refused adds a rule whose breach is an error because of which the cluster refuses the collection.
func (rs *Rules) Refused(name, section, summary string) Rule {
	return rs.add(Rule{Name: name, Severity: SeverityError, Refused: true, Section: section, Summary: summary})
}

// Error adds a rule whose breach is an error.
func (rs *Rules) Error(name, section, summary string) Rule {
	return rs.add(Rule{Name: name, Severity: SeverityError, Section: section, Summary: summary})
}

// Warning adds a rule whose breach is a warning.
func (rs *Rules) Warning(name, section, summary string) Rule {
	return rs.add(Rule{Name: name, Severity: SeverityWarning, Section: section, Summary: summary})
}

// Info adds a rule whose breach is a hint.
func (rs *Rules) Info(name, section, summary string) Rule {
	return rs.add(Rule{Name: name, Severity: SeverityInfo, Section: section, Summary: summary})
}

func (rs *Rules) add(rule Rule) Rule {
	*rs = append(*rs, rule)
	return rule
}

// Sorted returns the rules sorted by name.
func (rs Rules) Sorted() Rules {
	return slices.SortedFunc(slices.Values(rs), func(a, b Rule) int { return cmp.Compare(a.Name, b.Name) })
}

// Sections of the Operator Collection Specification.
const (
	SectionRoot       = "OperatorHub Integration"
	SectionIcon       = "Icon Object"
	SectionResources  = "Operator Resources"
	SectionVariables  = "Resource Variables"
	SectionFields     = "Object Variables"
	SectionProvided   = "Provided Variables"
	SectionPermission = "Operator ClusterRoles Permission, Operator Roles Permission"
)

var rules Rules

// The rules about reading YAML.
var (
	ruleYAML         = rules.Refused("yaml", "", "A YAML file can be read, holds one document and is not too large.")
	ruleDuplicateKey = rules.Refused("duplicate-key", "", "No key is given twice in a mapping.")
	ruleType         = rules.Refused("type", "", "A value has the type its key asks for: text, boolean, list or mapping.")
	ruleUnknownKey   = rules.Warning("unknown-key", "", "Every key is one that something reads.")
	// RuleRequired is also about values that only their readers know to be required.
	RuleRequired = rules.Refused("required", SectionRoot, "The keys are there without which nothing can be made: domain, name, version, resources; kind and playbook of a resource; name and type of a variable.")
)

// AllRules returns the rules about reading YAML, which a [Reporter] checks.
func AllRules() Rules { return rules }
