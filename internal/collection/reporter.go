package collection

import "go.yaml.in/yaml/v3"

// maxProblems bounds what a hostile file can make Load collect, for each severity.
const maxProblems = 500

// reporter collects the problems of one load, and where each field lies.
type reporter struct {
	problems Problems
	count    map[Severity]int
	places   map[string]value
	// nodesLeft is how many more YAML values this load may read.
	nodesLeft int
}

func newReporter() *reporter {
	return &reporter{count: map[Severity]int{}, places: map[string]value{}, nodesLeft: maxNodes}
}

// add records a problem. Of each severity only the first maxProblems are kept.
func (r *reporter) add(p Problem) {
	r.count[p.Severity]++
	if r.count[p.Severity] <= maxProblems {
		r.problems = append(r.problems, p)
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

// failed says whether an error was reported.
func (r *reporter) failed() bool { return r.count[SeverityError] > 0 }
