// Package suite runs the scenarios of a collection without a cluster, and reports what was not as expected.
package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
)

// Options say what is run.
type Options struct {
	// Folder is that of the collection, for the names of files in messages.
	Folder    string
	Scenarios []scenario.Scenario
	// Run has collection, login, namespace, gate, Secrets, and the objects of other files, such as the ZosEndpoint. If it has an Output, that
	// gets the lines of all runs.
	Run localrun.Options
	// Report gets the steps as they end. It may be nil.
	Report func(scenario.Scenario, Step)
}

// Step is one step of a scenario.
type Step struct {
	// Name is that of the key of the scenario with which it is switched off, or creation, or [checkDrift], which belongs to check.
	Name string
	Took time.Duration
	// Skipped says why it was not done, or is "".
	Skipped string
	// Expected and Got say what was not as expected. They are empty if it was.
	Expected, Got string
	// Err says why it could not be done.
	Err error
	// Summary is the result of the run, and Output the end of its lines.
	Summary, Output string
}

// Passed reports whether all was as expected, or the step was skipped.
func (s Step) Passed() bool { return s.Expected == "" && s.Err == nil }

// Result is what a scenario gave.
type Result struct {
	Scenario scenario.Scenario
	Steps    []Step
}

// Run runs the scenarios one after another. The error says what is wrong with them or with the endpoint; then nothing was run. If the context
// ends, the current run is cancelled, and the results end with it.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if err := localrun.Requirements(); err != nil {
		return nil, err
	}
	if err := o.validate(ctx); err != nil {
		return nil, err
	}
	var results []Result
	for _, s := range o.Scenarios {
		if ctx.Err() != nil {
			break
		}
		t := &trial{Options: o, scenario: s}
		t.run(ctx)
		results = append(results, Result{Scenario: s, Steps: t.steps})
	}
	return results, nil //nolint:nilerr // The results end with the context.
}

// validate returns the problems of all scenarios, each once: those of the endpoint are often the same.
func (o Options) validate(ctx context.Context) error {
	var problems []error
	for _, s := range o.Scenarios {
		run, err := o.options(s)
		if err == nil {
			err = run.Validate(ctx)
		}
		if err != nil && !slices.ContainsFunc(problems, func(p error) bool { return p.Error() == err.Error() }) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// options are those of the runs of a scenario.
func (o Options) options(s scenario.Scenario) (localrun.Options, error) {
	run := o.Run
	file := filepath.Join(o.Folder, filepath.FromSlash(s.File))
	run.Kind, run.Objects = s.Kind, nil
	for _, node := range append([]*yaml.Node{s.Resource}, s.Objects...) {
		object, err := localrun.NewObject(file, node)
		if err != nil {
			return run, err
		}
		run.Objects = append(run.Objects, object)
	}
	// A run completes its objects: those that all scenarios have are copied.
	for _, object := range o.Run.Objects {
		object.Unstructured = object.DeepCopy()
		run.Objects = append(run.Objects, object)
	}
	return run, nil
}

// trial is a scenario that is being run.
type trial struct {
	Options
	scenario scenario.Scenario
	session  *localrun.Session
	output   *tail
	steps    []Step
	// created is the first run.
	created localrun.Result
}

// checkDrift is the step after the deletion that shows what a drift check is good for.
const checkDrift = "check drift"

// run does the steps of a scenario. What was created is deleted also if something else was not as expected.
func (t *trial) run(ctx context.Context) {
	s := t.scenario
	t.do(ctx, "unreachable", s.Unreachable, t.unreachable)
	created := t.do(ctx, "creation", true, t.create)
	defer t.close()
	if created {
		t.do(ctx, "idempotence", s.Idempotence, t.repeat)
		t.do(ctx, "check", s.Check, t.check)
	}
	if t.session != nil && t.do(ctx, "deletion", s.Deletion, t.remove) && created {
		t.do(ctx, checkDrift, s.Check, t.checkDeleted)
		t.do(ctx, "recreation", s.Recreation, t.recreate)
	}
}

func (t *trial) close() {
	if t.session == nil {
		return
	}
	if err := t.session.Close(); err != nil {
		t.add(Step{Name: "end", Err: err})
	}
}

// do does a step that the scenario has, and reports whether all was as expected.
func (t *trial) do(ctx context.Context, name string, has bool, step func(context.Context) (verdict, error)) bool {
	if !has || ctx.Err() != nil {
		return false
	}
	t.output = &tail{to: t.Run.Output}
	started := time.Now()
	v, err := step(ctx)
	s := Step{Name: name, Took: time.Since(started), Skipped: v.skipped, Expected: v.expected, Got: v.got, Err: err, Output: t.output.String()}
	if ctx.Err() != nil {
		s.Err = cmp.Or(err, errors.New("cancelled"))
	}
	if v.result.Resource != nil {
		s.Summary = v.result.Summary()
	}
	t.add(s)
	return s.Passed()
}

func (t *trial) add(s Step) {
	t.steps = append(t.steps, s)
	if t.Report != nil {
		t.Report(t.scenario, s)
	}
}

// start starts a session whose output is that of the step that is being done.
func (t *trial) start(ctx context.Context, change func(*localrun.Options)) (*localrun.Session, error) {
	options, err := t.options(t.scenario)
	if err != nil {
		return nil, err
	}
	options.Output = writerFunc(func(p []byte) (int, error) { return t.output.Write(p) })
	change(&options)
	return localrun.Start(ctx, options)
}

func (t *trial) unreachable(ctx context.Context) (v verdict, err error) {
	options, err := t.options(t.scenario)
	if err != nil {
		return v, err
	}
	if options.IsLocal() {
		return verdict{skipped: "the endpoint is this machine, which always answers"}, nil
	}
	session, err := t.start(ctx, func(o *localrun.Options) { o.Login.Unreachable = true })
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	result, err := session.Create(ctx)
	if err != nil {
		return v, err
	}
	return unreached(result), nil
}

func (t *trial) create(ctx context.Context) (v verdict, err error) {
	if t.session, err = t.start(ctx, func(*localrun.Options) {}); err != nil {
		return v, err
	}
	result, err := t.session.Create(ctx)
	if err != nil {
		return v, err
	}
	t.created = result
	return created(t.scenario, result), nil
}

func (t *trial) repeat(ctx context.Context) (v verdict, err error) {
	result, err := t.session.Rerun(ctx)
	if err != nil {
		return v, err
	}
	return repeated(result), nil
}

func (t *trial) check(ctx context.Context) (v verdict, err error) {
	result, err := t.session.Check(ctx)
	if err != nil {
		return v, err
	}
	if v = checked(result); !v.asExpected() {
		t.show(result)
	}
	return v, nil
}

// show adds the differences that a check found to the output.
func (t *trial) show(check localrun.Result) {
	if changes := check.Report.Changes; changes != nil && changes.Diff != "" {
		fmt.Fprintf(t.output, "%s\n", changes.Diff)
	}
}

// checkDeleted checks the deleted resource as if its playbook had run, twice: the first check must find a difference, and the second one the
// same. A module that ignores check mode has made it disappear. What such a module made is deleted again.
func (t *trial) checkDeleted(ctx context.Context) (v verdict, err error) {
	first, err := t.session.CheckNew(ctx)
	if err != nil {
		return v, err
	}
	if v = foundDeleted(t.created, first); v.asExpected() {
		second, err := t.session.CheckNew(ctx)
		if err != nil {
			return v, err
		}
		v = checkedAgain(first, second)
	}
	if v.asExpected() {
		return v, nil
	}
	return v, t.removeAgain(ctx)
}

// removeAgain deletes what a check that was not as expected may have made. The outcome does not matter.
func (t *trial) removeAgain(ctx context.Context) error {
	_, err := t.session.Delete(ctx)
	return err
}

func (t *trial) remove(ctx context.Context) (v verdict, err error) {
	result, err := t.session.Delete(ctx)
	if err != nil {
		return v, err
	}
	return deleted(result, t.session.Left()), nil
}

// recreate creates and deletes again.
func (t *trial) recreate(ctx context.Context) (v verdict, err error) {
	result, err := t.session.Create(ctx)
	if err != nil {
		return v, err
	}
	deletion, err := t.remove(ctx)
	if err != nil {
		return v, err
	}
	return recreated(t.scenario, changed(t.created), result, deletion), nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// maxOutput is how much of the output of a step is kept, in bytes.
const maxOutput = 64 << 10

// tail keeps the end of what is written, and hands all of it on.
type tail struct {
	to      io.Writer
	content []byte
	cut     bool
}

func (t *tail) Write(p []byte) (int, error) {
	if t.to != nil {
		_, _ = t.to.Write(p)
	}
	t.content = append(t.content, p...)
	if over := len(t.content) - maxOutput; over > 0 {
		t.content, t.cut = append([]byte(nil), t.content[over:]...), true
	}
	return len(p), nil
}

// String begins with a whole line.
func (t *tail) String() string {
	text := string(t.content)
	if t.cut {
		_, text, _ = strings.Cut(text, "\n")
		text = "...\n" + text
	}
	return text
}
