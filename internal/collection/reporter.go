package collection

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// maxProblems bounds what a hostile file can make Load collect, for each rule.
const maxProblems = 500

// reporter collects the problems of one load, and where each field lies.
type reporter struct {
	problems Problems
	// count is the number of problems by rule, errors that of severity error.
	count  map[string]int
	errors int
	places map[string]value
	// nodesLeft is how many more YAML values this load may read.
	nodesLeft int
}

func newReporter() *reporter {
	return &reporter{count: map[string]int{}, places: map[string]value{}, nodesLeft: maxNodes}
}

// report records that a rule is broken at a place. The rule's severity is that of the table of rules. Of each rule only
// the first maxProblems problems are kept.
func (r *reporter) report(place Problem, rule, format string, args ...any) {
	place.Rule, place.Severity = rule, ruleByName[rule].Severity
	if place.Severity == SeverityError {
		r.errors++
	}
	r.count[rule]++
	if r.count[rule] <= maxProblems {
		place.Message = fmt.Sprintf(format, args...)
		r.problems = append(r.problems, place)
	}
}

// remember keeps the place of a field of the operator-config.
func (r *reporter) remember(v value) {
	r.places[v.file+"\x00"+v.path] = v
}

// at finds a field that was read before, for reporting at it. A field that was not read has no line.
func (r *reporter) at(file, path string) value {
	if v, ok := r.places[file+"\x00"+path]; ok {
		return v
	}
	return value{r: r, file: file, path: path, at: &yaml.Node{}}
}
