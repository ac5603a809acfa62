package suite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// verdict is what a step found.
type verdict struct {
	result        localrun.Result
	expected, got string
	skipped       string
}

func (v verdict) asExpected() bool { return v.expected == "" }

// unreached evaluates a run whose endpoint is not there.
func unreached(r localrun.Result) verdict {
	v := verdict{result: r}
	if r.Outcome() != gate.OutcomeUnreachable {
		v.expected, v.got = "a run without the endpoint is Unreachable", r.Summary()
	}
	return v
}

// created evaluates the first run.
func created(s scenario.Scenario, r localrun.Result) verdict {
	v := verdict{result: r}
	if !r.Ran || r.Outcome() != s.Outcome {
		v.expected, v.got = fmt.Sprintf("outcome %s", s.Outcome), r.Summary()
		return v
	}
	if missing := compare(s.Status, r.Status(), "status"); len(missing) > 0 {
		v.expected, v.got = expectations(missing)
	} else if !r.Touched && s.Deletion && s.Recreation {
		v.expected = "the first run changes something; set recreation: false for a playbook that does not"
		v.got = r.Summary() + ": an earlier run may have left something on the endpoint"
	}
	return v
}

// repeated evaluates a second run.
func repeated(r localrun.Result) verdict {
	v, written := verdict{result: r}, r.Written()
	if r.Outcome() != gate.OutcomeSucceeded || changed(r) > 0 || len(written) > 0 {
		v.expected, v.got = "a second run succeeds and changes nothing", r.Summary()+list("; changed: ", r.Changed)
		if len(written) > 0 {
			v.got += "; in Kubernetes: " + strings.Join(written, ", ")
		}
	}
	return v
}

// checked evaluates a drift check.
func checked(r localrun.Result) verdict {
	v := verdict{result: r}
	switch reason := r.DriftReason(); {
	case r.Ran && reason == runstatus.ReasonUnchecked && r.Report.Checked == 0:
		v.skipped = "none of the tasks can be checked"
	case r.Ran && (reason == runstatus.ReasonNoDrift || reason == runstatus.ReasonUnchecked):
	default:
		v.expected, v.got = "a drift check finds nothing", r.Summary()
	}
	return v
}

// foundDeleted evaluates a drift check of what was created and then deleted.
func foundDeleted(created, check localrun.Result) verdict {
	v := verdict{result: check}
	if check.DriftReason() != runstatus.ReasonDrifted {
		v.expected = "a drift check finds what was deleted; if it cannot, the kind must not have supportsCheckMode"
		v.got = check.Summary() + list("; the creation changed: ", created.Changed)
	}
	return v
}

// checkedAgain evaluates a second drift check after one that has found differences.
func checkedAgain(first, second localrun.Result) verdict {
	v := verdict{result: first}
	was, is := first.Report.Changes, second.Report.Changes
	if is != nil && is.Tasks == was.Tasks && slices.Equal(is.Names, was.Names) {
		return v
	}
	done := was.Names
	if is != nil {
		done = slices.DeleteFunc(slices.Clone(was.Names), func(name string) bool { return slices.Contains(is.Names, name) })
	}
	v.expected, v.got = "a drift check changes nothing: a second one finds the same", second.Summary()+list("; the first one changed: ", done)
	return v
}

// deleted evaluates a deletion, after which objects are left in Kubernetes.
func deleted(r localrun.Result, left []string) verdict {
	v := verdict{result: r}
	switch {
	case !r.Succeeded() || r.Again > 0:
		v.expected, v.got = "the deletion succeeds", r.Summary()
	case len(left) > 0:
		v.expected, v.got = "no object of the playbook remains", strings.Join(left, ", ")
	}
	return v
}

// recreated evaluates a run after the deletion, and the deletion after it. The first run changed as many tasks as first says.
func recreated(s scenario.Scenario, first int, r localrun.Result, deletion verdict) verdict {
	v := verdict{result: r}
	switch {
	case r.Outcome() != s.Outcome:
		v.expected, v.got = fmt.Sprintf("a run after the deletion has the outcome %s", s.Outcome), r.Summary()
	case changed(r) != first:
		v.expected = fmt.Sprintf("a run after the deletion changes as many tasks as the first one: %d", first)
		v.got = r.Summary() + list("; changed: ", r.Changed)
	default:
		v.expected, v.got = deletion.expected, deletion.got
	}
	return v
}

// changed is the number of tasks that have changed the endpoint.
func changed(r localrun.Result) int {
	lastRun, _ := r.Status()["lastRun"].(map[string]any)
	counts, _ := lastRun["tasks"].(map[string]any)
	n, _ := counts["changed"].(int64)
	return int(n)
}

// list is a list of tasks after some words, or "" if there are none.
func list(words string, tasks []string) string {
	if len(tasks) == 0 {
		return ""
	}
	return words + strings.Join(tasks, ", ")
}
