package localrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// Run runs the playbook once. If the context ends, the run is cancelled, which takes some seconds. The error says why it could not be run; a playbook that failed is a Result.
func Run(ctx context.Context, o Options) (result Result, err error) {
	s, err := Start(ctx, o)
	if err != nil {
		return Result{}, err
	}
	defer func() {
		if result.CleanUp = s.Close(); err != nil {
			err, result.CleanUp = errors.Join(err, result.CleanUp), nil
		}
	}()
	switch {
	case o.Check:
		return s.CheckNew(ctx)
	case o.Event == gate.EventDelete:
		return s.Delete(ctx)
	}
	return s.Create(ctx)
}

// Session is a place like an operator's pod in which events of one resource run one after another. Objects in Kubernetes remain until it is
// closed.
type Session struct {
	run *run
	// created are the paths of the objects that playbooks have created and not deleted.
	created map[string]bool
}

// Start prepares a session: it validates the input, and installs the collection and its dependencies. Event and Check of the options do
// not matter. The error says what is wrong with the input, or with this machine.
func Start(ctx context.Context, o Options) (*Session, error) {
	if err := Requirements(); err != nil {
		return nil, err
	}
	o.Output = &output{to: o.Output}
	s := &Session{run: &run{Options: o}, created: map[string]bool{}}
	err := s.run.prepare(ctx)
	if err == nil {
		err = s.run.install(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Requirements returns an error if a program that a run needs is missing on this machine.
func Requirements() error {
	var missing []string
	for _, program := range []string{"ansible-playbook", "ansible-runner", "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("not found on PATH: %s. A run needs ansible-core 2.14 or newer, ansible-runner 2.3 or newer and OpenSSH 8.4 or newer: "+
		"pip install ansible-core ansible-runner kubernetes; on Debian: apt-get install ansible-core python3-ansible-runner openssh-client",
		strings.Join(missing, ", "))
}

// Close ends the session. The error says why its folder, which has the credential, could not be removed.
func (s *Session) Close() error { return s.run.end() }

// Create runs the playbook for a resource that is new.
func (s *Session) Create(ctx context.Context) (Result, error) {
	s.run.renew(gate.EventCreate)
	return s.event(ctx)
}

// Rerun runs the playbook again for the resource that Create left, as kubectl collection rerun does.
func (s *Session) Rerun(ctx context.Context) (Result, error) {
	s.run.annotate(gate.AnnotationRequestedAt, now())
	return s.event(ctx)
}

// Delete runs the finalizer playbook for the resource that Create left, or for a new one if there is none. If it was successful, the
// resource is gone.
func (s *Session) Delete(ctx context.Context) (Result, error) {
	r := s.run
	r.Event = gate.EventDelete
	live := r.api.Get(r.kind, r.Namespace, r.resource.GetName())
	if live == nil {
		r.renew(gate.EventDelete)
	} else {
		markDeleted(live)
		r.api.Put(r.kind, live)
	}
	result, err := s.event(ctx)
	if err == nil && result.Succeeded() && result.Again == 0 {
		r.api.Remove(r.kind.Path(r.Namespace, r.resource.GetName()))
	}
	return result, err
}

// Check runs the playbook in check mode for the resource that Create left, as a drift check does.
func (s *Session) Check(ctx context.Context) (Result, error) {
	s.run.annotate(gate.AnnotationCheckRequestedAt, now())
	result, err := s.run.reconcile(ctx)
	if err == nil {
		drift, _, _ := unstructured.NestedMap(result.Resource.Object, "status", "drift")
		result.Check, result.Ran = true, drift != nil
		result.Report, err = s.run.report()
	}
	return result, err
}

// CheckNew is Check for a resource that is new, as if its playbook had run.
func (s *Session) CheckNew(ctx context.Context) (Result, error) {
	started := time.Now()
	s.run.renew(gate.EventCreate)
	s.run.pretendSuccess()
	if _, err := s.run.call(ctx); err != nil { // The gate adopts the resource without a run.
		return Result{}, err
	}
	result, err := s.Check(ctx)
	result.Took = time.Since(started)
	return result, err
}

// maxReport is more than the report of a run ever has, in bytes.
const maxReport = 1 << 20

// report returns what the last run of the gate reported, which is empty if there was none.
func (r *run) report() (report runstatus.Report, err error) {
	file, err := os.Open(r.folder.path(filepath.Join(r.runDir(), "report.json")))
	if errors.Is(err, fs.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return report, err
	}
	defer func() { _ = file.Close() }()
	return report, json.NewDecoder(io.LimitReader(file, maxReport)).Decode(&report)
}

// event runs the playbook for the present event.
func (s *Session) event(ctx context.Context) (Result, error) {
	result, err := s.run.reconcile(ctx)
	if err != nil {
		return result, err
	}
	last := runstatus.LastRun(statusOf(result.Resource))
	result.Ran = last != nil && last.ID == s.run.id
	result.ID = s.run.id
	result.Changed, result.Touched = s.run.changedTasks()
	s.remember(result.Writes)
	return result, nil
}

// changedTasks returns the names of the tasks of the last run that have changed something for the endpoint, and whether any of them was not
// delegated to another host.
func (r *run) changedTasks() (out []string, touched bool) {
	endpoint, _, _ := unstructured.NestedString(r.resource.Object, "spec", render.EndpointField)
	files, _ := filepath.Glob(r.folder.path(filepath.Join(r.runDir(), "artifacts", r.id, "job_events", "*.json")))
	names := map[int]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var e struct {
			Event   string `json:"event"`
			Counter int    `json:"counter"`
			Data    struct {
				Task   string `json:"task"`
				Host   string `json:"host"`
				Result struct {
					Changed   bool           `json:"changed"`
					Delegated map[string]any `json:"_ansible_delegated_vars"`
				} `json:"res"`
			} `json:"event_data"`
		}
		if json.Unmarshal(content, &e) == nil && e.Event == "runner_on_ok" && e.Data.Result.Changed && e.Data.Host == endpoint {
			names[e.Counter] = e.Data.Task
			touched = touched || len(e.Data.Result.Delegated) == 0
		}
	}
	for _, counter := range slices.Sorted(maps.Keys(names)) {
		out = append(out, names[counter])
	}
	return out, touched
}

// remember keeps account of the objects that playbooks have created.
func (s *Session) remember(writes []Write) {
	for _, w := range writes {
		k, known := kubeapi.FindKind(s.run.api.Kinds, w.Object.GroupVersionKind())
		if !known || w.Object.GetUID() == s.run.resource.GetUID() {
			continue
		}
		path := k.Path(w.Object.GetNamespace(), w.Object.GetName())
		switch w.Verb {
		case "created":
			s.created[path] = true
		case "deleted":
			delete(s.created, path)
		}
	}
}

// Left returns the objects, as KIND NAME, that playbooks have created and not deleted. Those that a cluster deletes with
// their owners are not among them.
func (s *Session) Left() []string {
	var left []string
	for path := range s.created {
		if object := s.run.api.At(path); object != nil && len(object.GetOwnerReferences()) == 0 {
			left = append(left, object.GetKind()+" "+object.GetName())
		}
	}
	slices.SortFunc(left, strings.Compare)
	return left
}

// renew stores the resource as a new one.
func (r *run) renew(event gate.Event) {
	r.Event = event
	resource := r.resource.Unstructured
	resource.SetUID("")
	resource.SetDeletionTimestamp(nil)
	resource.SetFinalizers(nil)
	if declared, _ := r.Source.Collection.Resource(r.Kind); declared.Finalizer != "" {
		resource.SetFinalizers([]string{render.Finalizer})
	}
	if event == gate.EventDelete {
		markDeleted(resource)
	}
	r.api.Put(r.kind, resource)
}

func markDeleted(o *unstructured.Unstructured) {
	at := metav1.Now().Rfc3339Copy()
	o.SetDeletionTimestamp(&at)
}

func now() string { return time.Now().UTC().Format(time.RFC3339Nano) }

// output is where the lines of a run go. Several goroutines write to it. If it is closed, as by head, the run goes on: otherwise
// the gate would be killed, and leave the playbook alone.
type output struct {
	mutex sync.Mutex
	to    io.Writer
}

func (o *output) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	_, _ = o.to.Write(p)
	return len(p), nil
}
