package localrun

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Result is what a run did.
type Result struct {
	// ID is that of the run, and Changed are the names of its tasks that have changed something for the endpoint. Touched is true if not all of
	// them were delegated, as those that write the status are.
	ID      string
	Changed []string
	Touched bool
	// Resource is the custom resource after the run, with the status that the cluster would have.
	Resource *unstructured.Unstructured
	Took     time.Duration
	// Check is true for a run in check mode, which has a Report.
	Check  bool
	Report runstatus.Report
	// Again is when ansible-operator would call again, or 0.
	Again time.Duration
	// Ran is false if the gate did not start the playbook. Its output says why.
	Ran bool
	// Writes are the calls by which the playbook changed objects.
	Writes []Write
	// CleanUp says why the folder of the run, which has the credential, could not be removed.
	CleanUp error
}

// Write is a call by which the playbook has changed an object.
type Write struct {
	// Verb is created, changed or deleted.
	Verb string
	// Status has the fields that the call gave a status, such as those of k8s_status, or is nil.
	Status map[string]any
	Object *unstructured.Unstructured
}

// shown leaves out Events, which playbooks seldom mean.
func shown(writes []kubeapi.Write) []Write {
	var out []Write
	for _, w := range writes {
		if w.Object.GetKind() == "Event" {
			continue
		}
		one := Write{Verb: w.Verb, Object: w.Object}
		if w.Status {
			one.Status = w.Fields
			if one.Status == nil {
				one.Status = map[string]any{}
			}
		}
		out = append(out, one)
	}
	return out
}

// Succeeded reports whether the playbook ended well, or could be checked.
func (r Result) Succeeded() bool {
	if r.Check {
		return r.Ran && r.drifted()["reason"] != runstatus.ReasonCheckFailed
	}
	return r.Ran && r.Outcome().Succeeded()
}

// drifted returns the condition with the result of a check, or nil.
func (r Result) drifted() map[string]any {
	conditions, _, _ := unstructured.NestedSlice(r.Resource.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == runstatus.ConditionDrifted {
			return c
		}
	}
	return nil
}

func statusOf(o *unstructured.Unstructured) map[string]any {
	status, _, _ := unstructured.NestedMap(o.Object, "status")
	return status
}

// maxName limits a printed name of an object, in bytes.
const maxName = 400

// maxSummary limits the summary of a run, in bytes.
const maxSummary = 1000

// Print writes result and status of a run for people. Texts of a playbook are made printable.
func (r Result) Print(w io.Writer) error {
	status := statusOf(r.Resource)
	outcome := r.Outcome()
	switch {
	case !r.Ran:
		fmt.Fprintln(w, "\nThe playbook was not run.")
	case r.Check:
		drifted := r.drifted()
		fmt.Fprintf(w, "\nChecked after %d s: %v: %s\n", int(r.Took.Seconds()), drifted["reason"], printable.Lines(fmt.Sprint(drifted["message"])))
	case outcome != "":
		fmt.Fprintf(w, "\n%s after %d s%s\n", outcome, int(r.Took.Seconds()), tasksOf(status))
	}
	if r.Again > 0 {
		fmt.Fprintf(w, "In a cluster, the next run or check of the resource would be in %s.\n", r.Again)
	}
	for _, write := range r.Writes {
		name := printable.Line(write.Object.GetKind()+" "+write.Object.GetName(), maxName)
		if write.Status == nil {
			fmt.Fprintf(w, "The playbook %s %s.\n", write.Verb, name)
			continue
		}
		fmt.Fprintf(w, "The playbook wrote to the status of %s:\n", name)
		if err := printYAML(w, write.Status); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "Status:")
	return printYAML(w, withoutHistory(status))
}

// tasksOf counts the tasks of the last run, after a colon, or is "" if there were none.
func tasksOf(status map[string]any) string {
	tasks, found, _ := unstructured.NestedMap(status, "lastRun", "tasks")
	if !found {
		return ""
	}
	var counts []string
	for _, name := range []string{"ok", "changed", "failed", "unreachable", "skipped"} {
		counts = append(counts, fmt.Sprintf("%s %v", name, tasks[name]))
	}
	return ": " + strings.Join(counts, ", ")
}

// Status is that of the resource.
func (r Result) Status() map[string]any { return statusOf(r.Resource) }

// Outcome is that of the last run.
func (r Result) Outcome() gate.Outcome {
	outcome, _, _ := unstructured.NestedString(r.Resource.Object, "status", "lastRun", "outcome")
	return gate.Outcome(outcome)
}

// Summary is outcome, tasks, and failure in one line, or what a check found.
func (r Result) Summary() string {
	if !r.Ran {
		text := "the playbook was not run"
		if why, _, _ := unstructured.NestedString(r.Resource.Object, "status", "waiting", "message"); why != "" {
			text += ": " + why
		}
		return printable.Line(text, maxSummary)
	}
	if r.Check {
		drifted := r.drifted()
		return printable.Line(fmt.Sprintf("%v: %v", drifted["reason"], drifted["message"]), maxSummary)
	}
	text := string(r.Outcome()) + tasksOf(r.Status())
	if failure, _, _ := unstructured.NestedString(r.Resource.Object, "status", "lastRun", "failure", "message"); failure != "" {
		text += ": " + failure
	}
	return printable.Line(text, maxSummary)
}

// DriftReason is the reason of the condition Drifted after a check, such as NoDrift.
func (r Result) DriftReason() string {
	reason, _ := r.drifted()["reason"].(string)
	return reason
}

// withoutHistory leaves out the history, which repeats lastRun.
func withoutHistory(status map[string]any) map[string]any {
	status = maps.Clone(status)
	delete(status, "history")
	return status
}

func printYAML(w io.Writer, value any) error {
	content, err := yaml.Marshal(value)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(w, indent(printable.Lines(string(content))))
	return err
}

func indent(text string) string {
	var out []byte
	atStart := true
	for _, c := range []byte(text) {
		if atStart && c != '\n' {
			out = append(out, ' ', ' ')
		}
		out = append(out, c)
		atStart = c == '\n'
	}
	return string(out)
}

// Written names the objects that the playbook created, changed or deleted, without writes of the status.
func (r Result) Written() []string {
	var names []string
	for _, w := range r.Writes {
		if w.Status == nil {
			names = append(names, w.Verb+" "+w.Object.GetKind()+" "+w.Object.GetName())
		}
	}
	return names
}

// WriteObjects writes the objects that the playbook created or changed, as they are at the end, into a folder: one file each. It
// returns the sorted names of the files.
func (r Result) WriteObjects(dir string) ([]string, error) {
	last := map[string]*unstructured.Unstructured{}
	for _, w := range r.Writes {
		if w.Object.GetUID() == r.Resource.GetUID() {
			continue
		}
		name := fileName(w.Object, r.Resource.GetNamespace())
		if last[name] = w.Object; w.Verb == "deleted" {
			delete(last, name)
		}
	}
	if len(last) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(last))
	for _, name := range names {
		object := last[name].DeepCopy()
		unstructured.RemoveNestedField(object.Object, "status")
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp"} {
			unstructured.RemoveNestedField(object.Object, "metadata", field)
		}
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, err
		}
		if err := replaceFile(dir, name, content); err != nil {
			return nil, err
		}
	}
	return names, nil
}

// fileName names the file of an object by kind and name, and by group and namespace if they are not the usual ones.
func fileName(o *unstructured.Unstructured, home string) string {
	name := strings.ToLower(o.GetKind())
	if group := o.GroupVersionKind().Group; group != "" {
		name += "." + group
	}
	if namespace := o.GetNamespace(); namespace != home && namespace != "" {
		name = namespace + "_" + name
	}
	return name + "-" + o.GetName() + ".yaml"
}

// replaceFile writes a file that only its owner can read, whatever was there before: a Secret may be in it.
func replaceFile(dir, name string, content []byte) error {
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
