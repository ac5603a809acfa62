package suite

import (
	"fmt"
	"strings"

	"github.com/collection-operator/collection-operator/internal/gate"
	"github.com/collection-operator/collection-operator/internal/localrun"
	"github.com/collection-operator/collection-operator/internal/runstatus"
	"github.com/collection-operator/collection-operator/internal/scenario"
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
		v.expected, v.got = "a second run succeeds and changes nothing", r.Summary()+tasks(r)
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
	case r.Ran && reason == runstatus.ReasonNoDrift:
	case r.Ran && reason == runstatus.ReasonUnchecked:
		v.skipped = "there are tasks that Ansible cannot check"
	default:
		v.expected, v.got = "a drift check finds nothing", r.Summary()
	}
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
		v.got = r.Summary() + tasks(r)
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

// tasks names the tasks that have changed the endpoint.
func tasks(r localrun.Result) string {
	if len(r.Changed) == 0 {
		return ""
	}
	return "; changed: " + strings.Join(r.Changed, ", ")
}
