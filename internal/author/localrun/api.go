package localrun

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// maxBody limits a request, as the API server does, in bytes.
const maxBody = 3 << 20

// api is a server on the loopback interface that answers the calls of the Kubernetes API that the gate and playbooks make. It keeps
// objects in memory, and records what playbooks wrote. It has no watches, no field selectors, no admission and no RBAC.
type api struct {
	kinds  []kind
	token  string
	server *http.Server
	url    string

	mutex    sync.Mutex
	objects  map[string]*unstructured.Unstructured // By path.
	revision int
	writes   []write
}

// write is a call by which a playbook has changed an object.
type write struct {
	Verb   string // created, changed or deleted.
	Status bool   // Only the status was written.
	Object *unstructured.Unstructured
	// Fields are the top-level fields that a change of the status names.
	Fields map[string]any
}

// startAPI starts a server. Requests need its token, because other users of the machine can connect, too. It is the first part of the
// path: clients send no other credentials without TLS.
func startAPI(kinds []kind) (*api, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	token := make([]byte, 16)
	_, _ = rand.Read(token) // It never fails.
	a := &api{
		kinds: kinds, token: hex.EncodeToString(token), url: "http://" + listener.Addr().String(),
		objects: map[string]*unstructured.Unstructured{},
	}
	a.server = &http.Server{Handler: a, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = a.server.Serve(listener) }()
	return a, nil
}

func (a *api) kubeconfig(namespace string) ([]byte, error) {
	entry := func(name, field string, value map[string]any) []any {
		return []any{map[string]any{"name": name, field: value}}
	}
	return json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "local",
		"clusters": entry("local", "cluster", map[string]any{"server": a.url + "/" + a.token}),
		"users":    entry("local", "user", map[string]any{}),
		"contexts": entry("local", "context", map[string]any{"cluster": "local", "user": "local", "namespace": namespace}),
	})
}

// put stores an object as if it had been there always.
func (a *api) put(k kind, object *unstructured.Unstructured) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.store(k.path(object.GetNamespace(), object.GetName()), object, nil)
}

// get returns a copy of an object, or nil.
func (a *api) get(k kind, namespace, name string) *unstructured.Unstructured {
	return a.at(k.path(namespace, name))
}

// at returns a copy of the object at a path, or nil.
func (a *api) at(path string) *unstructured.Unstructured {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if object := a.objects[path]; object != nil {
		return object.DeepCopy()
	}
	return nil
}

// remove removes the object at a path.
func (a *api) remove(path string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.objects, path)
}

// annotate sets an annotation of an object, if it exists.
func (a *api) annotate(key, annotation, value string) {
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

// taken returns what playbooks wrote since the last call.
func (a *api) taken() []write {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	writes := a.writes
	a.writes = nil
	return writes
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	given, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	path := "/" + rest
	if subtle.ConstantTimeCompare([]byte(given), []byte(a.token)) != 1 {
		answer(w, http.StatusUnauthorized, failure(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "", "the token of the run is missing"))
		return
	}
	if document := a.discovery(path); document != nil {
		answer(w, http.StatusOK, document)
		return
	}
	t, ok := a.target(path)
	if !ok {
		answer(w, http.StatusNotFound, failure(http.StatusNotFound, metav1.StatusReasonNotFound, "", "the local run knows no resource at "+path))
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		answer(w, http.StatusRequestEntityTooLarge, failure(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, t.name, err.Error()))
		return
	}
	t.ofPlaybook = !strings.HasPrefix(r.UserAgent(), "collection-operator-engine")
	t.query = r.URL.Query()
	code, document := a.serve(t, r.Method, r.Header.Get("Content-Type"), body)
	answer(w, code, document)
}

// target is what a request is about. name is empty for all objects of a kind.
type target struct {
	kind            kind
	namespace, name string
	status          bool
	ofPlaybook      bool
	query           url.Values
}

func (t target) path() string { return t.kind.path(t.namespace, t.name) }

func (a *api) target(path string) (target, bool) {
	for _, k := range a.kinds {
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

func (a *api) handle(t target, method, contentType string, body []byte) (int, any) {
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

func (a *api) list(t target) (int, any) {
	selector, err := t.selector()
	if err != nil {
		return http.StatusBadRequest, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, "", err.Error())
	}
	prefix, items := t.kind.path(t.namespace, ""), []any{}
	for _, key := range slices.Sorted(maps.Keys(a.objects)) {
		o := a.objects[key]
		ofKind := o.GetKind() == t.kind.Kind && o.GroupVersionKind().GroupVersion() == t.kind.groupVersion()
		if ofKind && selector.Matches(labels.Set(o.GetLabels())) && (strings.HasPrefix(key, prefix) || t.namespace == "") {
			items = append(items, o)
		}
	}
	return http.StatusOK, map[string]any{
		"apiVersion": t.kind.groupVersion().String(), "kind": t.kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(a.revision)}, "items": items,
	}
}

func (a *api) create(t target, body []byte) (int, any) {
	object, err := decode(body)
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
	if problems := t.kind.admit(object); len(problems) > 0 {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, t.name, problems.ToAggregate().Error())
	}
	a.store(t.path(), object, nil)
	a.note(t, "created", object, nil)
	return http.StatusCreated, object
}

// change replaces an object, or its status. A strategic merge patch and an apply are merge patches here: lists are replaced.
func (a *api) change(t target, present *unstructured.Unstructured, method, contentType string, body []byte) (int, any) {
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
		if problems := t.kind.admit(object); len(problems) > 0 {
			return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, t.name, problems.ToAggregate().Error())
		}
	}
	if reflect.DeepEqual(object.Object, present.Object) {
		return http.StatusOK, present
	}
	a.store(t.path(), object, present)
	var fields map[string]any
	if t.status {
		given, _ := decode(body)
		if given != nil {
			fields, _, _ = unstructured.NestedMap(given.Object, "status")
		}
	}
	a.note(t, "changed", object, fields)
	return http.StatusOK, object
}

func patched(present *unstructured.Unstructured, method, contentType string, body []byte) (*unstructured.Unstructured, error) {
	if method == http.MethodPut {
		return decode(body)
	}
	before, err := json.Marshal(present)
	if err != nil {
		return nil, err
	}
	if contentType == string(types.JSONPatchType) {
		patch, err := jsonpatch.DecodePatch(body)
		if err != nil {
			return nil, err
		}
		after, err := patch.Apply(before)
		if err != nil {
			return nil, err
		}
		return decode(after)
	}
	after, err := jsonpatch.MergePatch(before, body)
	if err != nil {
		return nil, err
	}
	return decode(after)
}

// store sets what the API server sets. The caller has the mutex.
func (a *api) store(key string, object, before *unstructured.Unstructured) {
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

func (a *api) note(t target, verb string, object *unstructured.Unstructured, fields map[string]any) {
	if t.ofPlaybook {
		a.writes = append(a.writes, write{Verb: verb, Status: t.status, Object: object.DeepCopy(), Fields: fields})
	}
}

func setField(object *unstructured.Unstructured, field string, value any) {
	if value == nil {
		unstructured.RemoveNestedField(object.Object, field)
		return
	}
	object.Object[field] = value
}

func setOrRemove(object, from *unstructured.Unstructured, field string) {
	setField(object, field, from.Object[field])
}

// decode reads JSON, with integers as int64.
func decode(body []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(body, &object.Object); err != nil {
		return object, err
	}
	metadata, given := object.Object["metadata"]
	if _, isMap := metadata.(map[string]any); object.Object == nil || given && !isMap {
		return object, errors.New("this is not an object of Kubernetes")
	}
	return object, nil
}

func answer(w http.ResponseWriter, code int, document any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(document)
}

func failure(code int32, reason metav1.StatusReason, name, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: code, Reason: reason, Message: message, Details: &metav1.StatusDetails{Name: name},
	}
}
