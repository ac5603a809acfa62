// Package kubeapi is a small server of the Kubernetes API for one run without a cluster.
package kubeapi

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// MaxBody limits a request, as the API server does, in bytes.
const MaxBody = 3 << 20

// Server is a server on the loopback interface that answers the calls of the Kubernetes API that the gate and playbooks make. It keeps
// objects in memory, and records what playbooks wrote. It has no watches, no field selectors, no admission and no RBAC.
type Server struct {
	Kinds []Kind
	// URL is the address. Token is the first part of the path of each request.
	URL, Token string
	server     *http.Server

	mutex    sync.Mutex
	objects  map[string]*unstructured.Unstructured // By path.
	revision int
	writes   []Write
}

// Write is a call by which a playbook has changed an object.
type Write struct {
	Verb   string // created, changed or deleted.
	Status bool   // Only the status was written.
	Object *unstructured.Unstructured
	// Fields are the top-level fields that a change of the status names.
	Fields map[string]any
}

// Start starts a server. Requests need its token, because other users of the machine can connect, too. It is the first part of the
// path: clients send no other credentials without TLS.
func Start(kinds []Kind) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token) // It never fails.
	a := &Server{
		Kinds: kinds, Token: hex.EncodeToString(token), URL: "http://" + listener.Addr().String(),
		objects: map[string]*unstructured.Unstructured{},
	}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

// Close ends the server.
func (a *Server) Close() error { return a.server.Close() }

// Kubeconfig returns the kubeconfig of clients whose namespace is the given one.
func (a *Server) Kubeconfig(namespace string) ([]byte, error) {
	entry := func(name, field string, value map[string]any) []any {
		return []any{map[string]any{"name": name, field: value}}
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "local",
		"clusters": entry("local", "cluster", map[string]any{"server": a.URL + "/" + a.Token}),
		"users":    entry("local", "user", map[string]any{}),
		"contexts": entry("local", "context", map[string]any{"cluster": "local", "user": "local", "namespace": namespace}),
	})
}

// Put stores an object as if it had been there always.
func (a *Server) Put(k Kind, object *unstructured.Unstructured) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.store(k.Path(object.GetNamespace(), object.GetName()), object, nil)
}

// Get returns a copy of an object, or nil.
func (a *Server) Get(k Kind, namespace, name string) *unstructured.Unstructured {
	return a.At(k.Path(namespace, name))
}

// At returns a copy of the object at a path, or nil.
func (a *Server) At(path string) *unstructured.Unstructured {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if object := a.objects[path]; object != nil {
		return object.DeepCopy()
	}
	return nil
}

// Remove removes the object at a path.
func (a *Server) Remove(path string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.objects, path)
}

// Annotate sets an annotation of an object, if it exists.
func (a *Server) Annotate(key, annotation, value string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	before := a.objects[key]
	if before == nil {
		return
	}
	object := before.DeepCopy()
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotation] = value
	object.SetAnnotations(annotations)
	a.store(key, object, before)
}

// Taken returns what playbooks wrote since the last call.
func (a *Server) Taken() []Write {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	writes := a.writes
	a.writes = nil
	return writes
}

func (a *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path := "/" + rest
	if subtle.ConstantTimeCompare([]byte(given), []byte(a.Token)) != 1 {
		answer(w, http.StatusUnauthorized, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "the token of the run is missing"))
		return
	}
	if document := discovery(a.Kinds, path); document != nil {
		answer(w, http.StatusOK, document)
		return
	}
	t, ok := a.target(path)
	if !ok {
		answer(w, http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound, "", "the local run knows no resource at "+path))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err != nil {
		answer(w, http.StatusRequestEntityTooLarge, failure(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, t.name, err.Error()))
		return
	}
	t.ofPlaybook = !strings.HasPrefix(r.UserAgent(), "collection-operator-engine")
	t.query = r.URL.Query()
	code, document := a.serve(t, r.Method, r.Header.Get("Content-Type"), body)
	answer(w, code, document)
}

func (a *Server) target(path string) (target, bool) {
	for _, k := range a.Kinds {
		rest, ok := strings.CutPrefix(path, k.root()+"/")
		if !ok {
			continue
		}
		parts := strings.Split(rest, "/")
		t := target{kind: k}
		if len(parts) > 2 && parts[0] == "namespaces" && k.Namespaced {
			t.namespace, parts = parts[1], parts[2:]
		}
		if parts[0] != k.Plural || len(parts) > 3 {
			continue
		}
		if len(parts) > 1 {
			t.name = parts[1]
		}
		t.status = len(parts) == 3 && parts[2] == "status"
		if len(parts) < 3 || t.status {
			return t, true
		}
	}
	return target{}, false
}

// serve handles a request. Nothing remains of one with dryRun=All, which kubernetes.core sends in check mode.
func (a *Server) serve(t target, method, contentType string, body []byte) (int, any) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if slices.Contains(t.query["dryRun"], metav1.DryRunAll) {
		objects, revision, writes := maps.Clone(a.objects), a.revision, a.writes
		defer func() { a.objects, a.revision, a.writes = objects, revision, writes }()
	}
	return a.handle(t, method, contentType, body)
}

func (a *Server) handle(t target, method, contentType string, body []byte) (int, any) {
	present := a.objects[t.path()]
	switch {
	case method == http.MethodGet && t.name == "":
		return a.list(t)
	case method == http.MethodPost && t.name == "":
		return a.create(t, body)
	case present == nil && method == http.MethodPatch && contentType == string(types.ApplyYAMLPatchType):
		return a.create(t, body)
	case present == nil:
		return http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound, t.name, fmt.Sprintf("%s %q not found", t.kind.Plural, t.name))
	case method == http.MethodGet:
		return http.StatusOK, present
	case method == http.MethodDelete:
		delete(a.objects, t.path())
		a.note(t, "deleted", present, nil)
		return http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Status", "status": "Success"}
	case method == http.MethodPut, method == http.MethodPatch:
		return a.change(t, present, method, contentType, body)
	}
	return http.StatusMethodNotAllowed, failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, t.name, "the local run does not have "+method)
}

func (a *Server) list(t target) (int, any) {
	selector, err := t.selector()
	if err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "", err.Error())
	}
	prefix, items := t.kind.Path(t.namespace, ""), []any{}
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		o := a.objects[key]
		ofKind := o.GetKind() == t.kind.Kind && o.GroupVersionKind().GroupVersion() == t.kind.GroupVersion()
		if ofKind && selector.Matches(labels.Set(o.GetLabels())) && (strings.HasPrefix(key, prefix) || t.namespace == "") {
			items = append(items, o)
		}
	}
	return http.StatusOK, map[string]any{
		"apiVersion": t.kind.GroupVersion().String(), "kind": t.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.revision)}, "items": items,
	}
}

func (a *Server) create(t target, body []byte) (int, any) {
	object, err := Decode(body)
	if err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, t.name, err.Error())
	}
	if object.GetName() == "" && object.GetGenerateName() != "" {
		object.SetName(object.GetGenerateName() + string(uuid.NewUUID())[:5])
	}
	if t.name == "" {
		t.name = object.GetName()
	}
	if code, problem := t.complete(object); problem != nil {
		return code, problem
	}
	if a.objects[t.path()] != nil {
		return http.StatusConflict, failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, t.name, fmt.Sprintf("%s %q already exists", t.kind.Plural, t.name))
	}
	unstructured.RemoveNestedField(object.Object, "status")
	if problems := t.kind.Admit(object); len(problems) > 0 {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, t.name, problems.ToAggregate().Error())
	}
	a.store(t.path(), object, nil)
	a.note(t, "created", object, nil)
	return http.StatusCreated, object
}

// change replaces an object, or its status. A strategic merge patch and an apply are merge patches here: lists are replaced.
func (a *Server) change(t target, present *unstructured.Unstructured, method, contentType string, body []byte) (int, any) {
	wanted, err := patched(present, method, contentType, body)
	if err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, t.name, err.Error())
	}
	if code, problem := t.complete(wanted); problem != nil {
		return code, problem
	}
	if version := wanted.GetResourceVersion(); version != "" && version != present.GetResourceVersion() {
		return http.StatusConflict, failure(http.StatusConflict, metav1.StatusReasonConflict, t.name, "the object has been modified")
	}
	object := present.DeepCopy()
	if t.status {
		setOrRemove(object, wanted, "status")
	} else {
		status := object.Object["status"]
		object = wanted
		setField(object, "status", status)
		if problems := t.kind.Admit(object); len(problems) > 0 {
			return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, t.name, problems.ToAggregate().Error())
		}
	}
	if reflect.DeepEqual(object.Object, present.Object) {
		return http.StatusOK, present
	}
	a.store(t.path(), object, present)
	var fields map[string]any
	if t.status {
		given, _ := Decode(body)
		if given != nil {
			fields, _, _ = unstructured.NestedMap(given.Object, "status")
		}
	}
	a.note(t, "changed", object, fields)
	return http.StatusOK, object
}

// store sets what the API server sets. The caller has the mutex.
func (a *Server) store(key string, object, before *unstructured.Unstructured) {
	a.revision++
	object.SetResourceVersion(strconv.Itoa(a.revision))
	if before == nil {
		if object.GetUID() == "" {
			object.SetUID(uuid.NewUUID())
		}
		object.SetGeneration(1)
		object.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	} else {
		object.SetUID(before.GetUID())
		object.SetGeneration(before.GetGeneration())
		if !reflect.DeepEqual(object.Object["spec"], before.Object["spec"]) {
			object.SetGeneration(before.GetGeneration() + 1)
		}
	}
	a.objects[key] = object.DeepCopy()
}

func (a *Server) note(t target, verb string, object *unstructured.Unstructured, fields map[string]any) {
	if t.ofPlaybook {
		a.writes = append(a.writes, Write{Verb: verb, Status: t.status, Object: object.DeepCopy(), Fields: fields})
	}
}
