package findings

import "go.yaml.in/yaml/v3"

// MaxProblems bounds what a hostile file can make a check collect, for each rule.
const MaxProblems = 500

// Reporter collects the problems of one reading, and where each field lies.
type Reporter struct {
	// Problems are those that were reported, in this order. Of each rule only the first MaxProblems are kept.
	Problems Problems

	count  map[string]int
	errors int
	places map[string]Value
	// nodesLeft is how many more YAML values this reading may hold.
	nodesLeft int
}

// NewReporter makes a Reporter that may read MaxNodes YAML values.
func NewReporter() *Reporter {
	return &Reporter{count: map[string]int{}, places: map[string]Value{}, nodesLeft: MaxNodes}
}

// Report records that a rule is broken at a place.
func (r *Reporter) Report(place Problem, rule Rule, format string, args ...any) {
	if rule.Severity == SeverityError {
		r.errors++
	}
	if r.Keeps(rule) {
		r.Problems = append(r.Problems, rule.At(place, format, args...))
	}
	r.count[rule.Name]++
}

// Keeps reports whether a further problem of a rule would be kept.
func (r *Reporter) Keeps(rule Rule) bool { return r.count[rule.Name] < MaxProblems }

// ReportFile records that a file as a whole breaks a rule.
func (r *Reporter) ReportFile(file string, rule Rule, format string, args ...any) {
	r.Report(Problem{File: file}, rule, format, args...)
}

// At finds a field that was read before, for reporting at it. A field that was not read has no line.
func (r *Reporter) At(file, path string) Value {
	if v, ok := r.places[file+"\x00"+path]; ok {
		return v
	}
	return Value{r: r, File: file, Path: path, at: &yaml.Node{}}
}
