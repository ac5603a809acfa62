package localrun

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/author/localrun/kubeapi"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/podclient"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// watch is what ansible-operator reads of an entry in watches.yaml for a run.
type watch struct {
	Kind      string         `json:"kind"`
	Playbook  string         `json:"playbook"`
	Vars      map[string]any `json:"vars"`
	Finalizer *struct {
		Vars map[string]any `json:"vars"`
	} `json:"finalizer"`
}

// watchOf returns the entry of a kind.
func watchOf(watches []byte, kind string) (watch, error) {
	var all []watch
	if err := yaml.Unmarshal(watches, &all); err != nil {
		return watch{}, fmt.Errorf("%s: %w", render.KeyWatches, err)
	}
	for _, w := range all {
		if w.Kind == kind {
			return w, nil
		}
	}
	return watch{}, fmt.Errorf("%s has no kind %s", render.KeyWatches, kind)
}

// extraVars returns what ansible-operator v1.34.1 writes for a resource with snakeCaseParameters off and markUnsafe on: the fields of the
// spec, ansible_operator_meta, the two object variables, the variables of the watch, and on a delete those of the finalizer. Later ones
// override earlier ones.
func (w watch) extraVars(resource *unstructured.Unstructured, event gate.Event) map[string]any {
	spec, _, _ := unstructured.NestedMap(resource.Object, "spec")
	vars := map[string]any{}
	for name, value := range spec {
		vars[name] = gate.MarkUnsafe(value)
	}
	vars["ansible_operator_meta"] = map[string]any{"name": resource.GetName(), "namespace": resource.GetNamespace()}
	gvk := resource.GroupVersionKind()
	object := gate.ObjectVariable(gvk.Group, gvk.Kind)
	vars[object] = resource.Object
	vars[object+"_spec"] = gate.MarkUnsafe(spec)
	for name, value := range w.Vars {
		vars[name] = value
	}
	if event == gate.EventDelete && w.Finalizer != nil {
		for name, value := range w.Finalizer.Vars {
			vars[name] = value
		}
	}
	return vars
}

// With these variables the gate knows the folder of the session, and the pipe that is closed when the program that started it has ended.
const (
	folderVariable = "ZOSCB_LOCAL_FOLDER"
	parentVariable = "ZOSCB_LOCAL_PARENT_FD"
)

// runDir is the folder of ansible-operator for a resource.
func (r *run) runDir() string {
	return filepath.Join("tmp/ansible-operator/runner", r.kind.Group, r.kind.Version, r.Kind, r.Namespace, r.resource.GetName())
}

// call starts the gate as ansible-operator does, and returns when it would do so again, or 0.
func (r *run) call(ctx context.Context) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, errCancelled
	}
	live := r.api.Get(r.kind, r.Namespace, r.resource.GetName())
	w, err := watchOf([]byte(r.folder.local(r.config.Data[render.KeyWatches])), r.Kind)
	if err != nil {
		return 0, err
	}
	socket := r.folder.path("event.sock")
	answers, err := receive(socket)
	if err != nil {
		return 0, err
	}
	defer answers.close()
	dir := r.runDir()
	kubeconfig := r.folder.path("kubeconfig")
	for name, value := range map[string]any{
		"env/extravars": w.extraVars(live, r.Event),
		"env/settings":  map[string]string{"runner_http_url": socket, "runner_http_path": "/events/"},
		"env/envvars":   map[string]string{"K8S_AUTH_KUBECONFIG": kubeconfig, "KUBECONFIG": kubeconfig},
	} {
		content, err := json.Marshal(value)
		if err != nil {
			return 0, err
		}
		if err := r.folder.write(filepath.Join(dir, name), content, 0o600); err != nil {
			return 0, err
		}
	}
	inventory, err := os.ReadFile(r.folder.path("opt/ansible/engine/inventory"))
	if err != nil {
		return 0, err
	}
	if err := r.folder.write(filepath.Join(dir, "inventory/hosts"), inventory, 0o600); err != nil {
		return 0, err
	}
	if err := r.startGate(ctx, w.Playbook, kubeconfig); err != nil {
		return 0, err
	}
	return answers.again()
}

func (r *run) startGate(ctx context.Context, playbook, kubeconfig string) error {
	env, err := r.folder.environment()
	if err != nil {
		return err
	}
	program, err := exec.LookPath("ansible-runner")
	if err != nil {
		return err
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	alive, end, err := os.Pipe()
	if err != nil {
		_ = writer.Close()
		return err
	}
	defer func() { _ = end.Close() }() // The gate has ended by then.
	r.id = strconv.FormatInt(time.Now().UnixNano(), 10)
	ident := r.id
	command := exec.Command(r.Gate) //nolint:gosec // This program itself.
	command.Args = []string{"ansible-runner", "run", r.folder.path(r.runDir()), "--rotate-artifacts", "20", "-p", playbook, "-i", ident}
	env = append(env, "ZOSCB_ANSIBLE_RUNNER="+program, "ZOSCB_OUTPUT_FD=3", podclient.KubeconfigVariable+"="+kubeconfig,
		"KUBECONFIG="+kubeconfig, "K8S_AUTH_KUBECONFIG="+kubeconfig, "WATCH_NAMESPACE="+r.Namespace,
		parentVariable+"=4", folderVariable+"="+string(r.folder))
	command.Env = env
	command.Dir = string(r.folder)
	detach(command)
	command.ExtraFiles = []*os.File{writer, alive}
	command.Stderr, command.WaitDelay = r.Output, waitDelay
	err = command.Start()
	_, _ = writer.Close(), alive.Close()
	if err != nil {
		return err
	}
	// The gate ends the run as in a cluster: the playbook is told to end, and the status says that it was cancelled.
	defer context.AfterFunc(ctx, func() { r.annotate(gate.AnnotationCancel, ident) })()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		copyLines(r.Output, reader)
	}()
	err = command.Wait()
	<-copied
	if errors.Is(err, exec.ErrWaitDelay) { // A shared connection of ssh still had the output.
		return nil
	}
	return err
}

// copyLines writes the lines of a run without what the gate adds for the pod's log.
func copyLines(to io.Writer, from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line struct {
			Line string `json:"line"`
		}
		if err := json.Unmarshal(scanner.Bytes(), &line); err == nil {
			_, _ = fmt.Fprintln(to, line.Line)
		}
	}
}

// receiver is the socket on which ansible-operator waits for an answer.
type receiver struct {
	server *http.Server
	mutex  sync.Mutex
	event  *event
}

type event struct {
	Event string `json:"event"`
	Data  struct {
		Result struct {
			Period string `json:"period"`
		} `json:"res"`
	} `json:"event_data"`
}

func receive(socket string) (*receiver, error) {
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	r := &receiver{}
	r.server = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var e event
		if err := json.NewDecoder(io.LimitReader(request.Body, kubeapi.MaxBody)).Decode(&e); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mutex.Lock()
		r.event = &e
		r.mutex.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *receiver) close() { _ = r.server.Close() }

func (r *receiver) again() (time.Duration, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.event == nil {
		return 0, errors.New("the gate did not answer")
	}
	if r.event.Event == "playbook_on_stats" {
		return 0, nil
	}
	return time.ParseDuration(r.event.Data.Result.Period)
}

// pretendSuccess makes the resource look like one whose playbook was successful, because only such resources are checked.
func (r *run) pretendSuccess() {
	live := r.api.Get(r.kind, r.Namespace, r.resource.GetName())
	generation := int64(1)
	now := time.Now().UTC().Format(time.RFC3339)
	live.Object["status"] = map[string]any{
		"phase": string(runstatus.PhaseSucceeded), "observedGeneration": generation,
		"conditions": []any{
			map[string]any{"type": runstatus.ConditionReady, "status": string(metav1.ConditionTrue), "reason": string(runstatus.PhaseSucceeded), "observedGeneration": generation, "lastTransitionTime": now},
			map[string]any{"type": runstatus.ConditionSuccessful, "status": string(metav1.ConditionTrue), "reason": "Successful", "lastTransitionTime": now},
		},
	}
	r.api.Put(r.kind, live)
}

// annotate sets an annotation of the resource that asks the gate for something.
func (r *run) annotate(annotation, value string) {
	r.api.Annotate(r.kind.Path(r.Namespace, r.resource.GetName()), annotation, value)
}

// reconcile does what ansible-operator and the gate do for one event.
func (r *run) reconcile(ctx context.Context) (Result, error) {
	started := time.Now()
	again, err := r.call(ctx)
	if err != nil {
		return Result{}, err
	}
	live := r.api.Get(r.kind, r.Namespace, r.resource.GetName())
	if live == nil {
		return Result{}, fmt.Errorf("the playbook deleted its own resource %s %s", r.Kind, r.resource.GetName())
	}
	return Result{Resource: live, Took: time.Since(started), Again: again, Writes: shown(r.api.Taken())}, nil
}
