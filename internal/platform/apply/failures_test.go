package apply_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// failures are what an API server may answer to any request, and whether that is about the object.
var failures = map[string]struct {
	err     error
	refused bool
}{
	"403":     {apierrors.NewForbidden(configMaps, "b", errors.New("no")), true},
	"409":     {apierrors.NewConflict(configMaps, "b", errors.New("no")), false},
	"timeout": {apierrors.NewServerTimeout(configMaps, "get", 1), false},
	"broken":  {context.DeadlineExceeded, false},
}

var configMaps = schema.GroupResource{Resource: "configmaps"}

// failing returns an error for the object b alone.
func failing(err error) func(client.Object) error {
	return func(what client.Object) error {
		if what.GetName() == "b" {
			return err
		}
		return nil
	}
}

func TestFailedReadStopsAll(t *testing.T) {
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			apiserver.Must(t, r.apply(t, 1, r.config("b", "1")))
			r.reading = func(key client.ObjectKey) error {
				if key.Name == "b" {
					return failure.err
				}
				return nil
			}
			err := r.apply(t, 0, r.config("a", "1"), r.config("b", "2"), r.config("c", "1"))
			if !errors.Is(err, failure.err) || !strings.Contains(err.Error(), `reading ConfigMap "`+r.namespace+`/b": `) {
				t.Errorf("got %v", err)
			}
			var refusal *apply.RefusedError
			if errors.As(err, &refusal) {
				t.Errorf("a read is not refused: %v", err)
			}
		})
	}
}

// What the API server says about an object is told apart from what another attempt may resolve.
func TestFailedWrite(t *testing.T) {
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.before = failing(failure.err)
			err := r.apply(t, 1, r.config("a", "1"), r.config("b", "1"), r.config("c", "1"))
			var refusal *apply.RefusedError
			if !errors.Is(err, failure.err) || errors.As(err, &refusal) != failure.refused || !strings.Contains(err.Error(), `ConfigMap "`+r.namespace+`/b"`) {
				t.Errorf("got %T: %v", err, err)
			}
			r.before = failing(nil)
			apiserver.Must(t, r.apply(t, 2, r.config("a", "1"), r.config("b", "1"), r.config("c", "1")))
		})
	}
}

// The namespace may be gone after the dry run, and the answer to a write may be lost.
func TestWriteThatIsLost(t *testing.T) {
	r := newRig(t)
	r.before = failing(apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, r.namespace))
	var refusal *apply.RefusedError
	if err := r.apply(t, 0, r.config("b", "1")); !apierrors.IsNotFound(err) || errors.As(err, &refusal) {
		t.Errorf("got %v", err)
	}

	r.before, r.after = failing(nil), failing(context.DeadlineExceeded)
	if written, err := r.Apply(t.Context(), []client.Object{r.config("b", "1")}, isOurs); !errors.Is(err, context.DeadlineExceeded) || written != 0 {
		t.Errorf("%d were written: %v", written, err)
	}
	r.after = failing(nil)
	r.writes.Take()
	apiserver.Must(t, r.apply(t, 0, r.config("b", "1")))
}

// The API server sets defaults, and others add fields: both come back in each dry run and are no difference.
func TestObjectThatComesBackDifferent(t *testing.T) {
	r := newRig(t)
	service := func(port int32) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "a", Labels: map[string]string{ours: "true"}},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: port}}},
		}
	}
	apiserver.Must(t, r.apply(t, 1, service(1)))
	apiserver.Must(t, r.apply(t, 0, service(1)))
	apiserver.Must(t, r.apply(t, 1, service(2)))
	live := &corev1.Service{}
	apiserver.Must(t, r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: "a"}, live))
	if live.Spec.ClusterIP == "" || len(live.Spec.Ports) != 1 || live.Spec.Ports[0].Port != 2 {
		t.Errorf("got %+v", live.Spec)
	}
}

// remember gives a rig a memory, and a cache that has an object as it was when the cache was last brought up to date.
func (r *rig) remember(t *testing.T) (update func()) {
	cached := map[client.ObjectKey]apply.State{}
	r.Memory = apply.NewMemory()
	r.Watched = func(_ schema.GroupVersionKind, key client.ObjectKey) (apply.State, bool, error) {
		state, ok := cached[key]
		return state, ok, nil
	}
	return func() {
		list := &corev1.ConfigMapList{}
		apiserver.Must(t, r.server.Client.List(t.Context(), list, client.InNamespace(r.namespace)))
		clear(cached)
		for i := range list.Items {
			cached[client.ObjectKeyFromObject(&list.Items[i])] = apply.LiveState(&list.Items[i], configMapKind)
		}
	}
}

var configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind()

// Nothing is read while the cache has what was written, and all while it has something else, or nothing.
func TestMemoryWithACacheThatIsBehind(t *testing.T) {
	r := newRig(t)
	update := r.remember(t)
	one, key := r.config("a", "1"), client.ObjectKey{Namespace: r.namespace, Name: "a"}
	expectReads := func(want int, state string) {
		t.Helper()
		if r.reads != want {
			t.Errorf("%s: %d reads, want %d", state, r.reads, want)
		}
		r.reads = 0
	}
	apiserver.Must(t, r.apply(t, 1, one))
	expectReads(0, "neither cache nor memory have it")
	if r.IsApplied(one) || !r.Memory.Differs(configMapKind, key, "") {
		t.Error("the cache does not have it yet")
	}
	apiserver.Must(t, r.apply(t, 0, one))
	expectReads(1, "the cache does not have it")
	update()
	apiserver.Must(t, r.apply(t, 0, one))
	expectReads(0, "the cache has it")
	if !r.IsApplied(one) || r.IsApplied(r.config("a", "2")) || r.Memory.Differs(configMapKind, key, apply.LiveState(r.live(t, "a"), configMapKind)) {
		t.Error("it is applied")
	}

	live := r.live(t, "a")
	live.Data["key"] = "changed"
	apiserver.Must(t, r.server.Client.Update(t.Context(), live, client.FieldOwner("somebody")))
	apiserver.Must(t, r.apply(t, 0, one)) // Until the cache has it.
	update()
	apiserver.Must(t, r.apply(t, 1, one))
	if got := r.live(t, "a").Data["key"]; got != "1" {
		t.Errorf("got %s", got)
	}
	apiserver.Must(t, r.server.Client.Delete(t.Context(), r.live(t, "a")))
	update()
	apiserver.Must(t, r.apply(t, 1, one))
}

// A cache that does not have an object yet is no proof that there is none.
func TestForeignObjectThatTheCacheLacks(t *testing.T) {
	r := newRig(t)
	r.remember(t)
	r.create(t, r.foreign("a", "1"))
	a := r.live(t, "a")
	var foreign *apply.ForeignObjectError
	if err := r.apply(t, 0, r.config("a", "1")); !errors.As(err, &foreign) {
		t.Errorf("got %v", err)
	}
	r.expectUnchanged(t, a)
	r.create(t, r.config("mine", "1"))
	apiserver.Must(t, r.apply(t, 1, r.config("mine", "2")))
}

// An object becomes foreign when somebody takes its labels away. The memory must not hide that.
func TestObjectThatIsNotOursAnyMore(t *testing.T) {
	r := newRig(t)
	update := r.remember(t)
	apiserver.Must(t, r.apply(t, 1, r.config("a", "1")))
	live := r.live(t, "a")
	live.Labels = nil
	apiserver.Must(t, r.server.Client.Update(t.Context(), live, client.FieldOwner("somebody")))
	update()
	var foreign *apply.ForeignObjectError
	if err := r.apply(t, 0, r.config("a", "1")); !errors.As(err, &foreign) {
		t.Errorf("got %v", err)
	}
}

func TestPruneContinuesAfterAFailure(t *testing.T) {
	for name, failure := range failures {
		t.Run(name, func(t *testing.T) {
			for _, verb := range []string{"reading", "deleting"} {
				r := newRig(t)
				apiserver.Must(t, r.apply(t, 3, r.config("a", "1"), r.config("b", "1"), r.config("c", "1")))
				if verb == "reading" {
					r.reading = func(key client.ObjectKey) error { return failing(failure.err)(r.config(key.Name, "")) }
				} else {
					r.before = failing(failure.err)
				}
				remaining, err := r.Prune(t.Context(), r.refs("a", "b", "c"), isOurs)
				if verb == "deleting" && apierrors.IsConflict(failure.err) { // Another object has its name.
					if err != nil || len(remaining) > 0 {
						t.Errorf("%v remain: %v", remaining, err)
					}
					continue
				}
				if diff := cmp.Diff(r.refs("b"), remaining); diff != "" || !errors.Is(err, failure.err) {
					t.Errorf("%s: %v, remaining: %s", verb, err, diff)
				}
				if !strings.Contains(fmt.Sprint(err), verb+` ConfigMap "`+r.namespace+`/b"`) {
					t.Errorf("got %v", err)
				}
				r.reading, r.before = func(client.ObjectKey) error { return nil }, failing(nil)
				if remaining, err := r.Prune(t.Context(), remaining, isOurs); err != nil || len(remaining) > 0 {
					t.Errorf("%v remain: %v", remaining, err)
				}
			}
		})
	}
}

// What others need stays, and an object that is being deleted is not deleted again.
func TestPruneWaits(t *testing.T) {
	r := newRig(t)
	held := r.config("held", "1")
	held.Finalizers = []string{"example.com/wait"}
	apiserver.Must(t, r.apply(t, 3, r.config("used", "1"), held, r.config("unknown", "1")))
	unknown := errors.New("cannot be asked")
	r.InUse = func(_ context.Context, live client.Object) (bool, error) {
		if live.GetName() == "unknown" {
			return false, unknown
		}
		return live.GetName() == "used", nil
	}
	r.writes.Take()
	for _, after := range []string{"first", "second"} {
		remaining, err := r.Prune(t.Context(), r.refs("used", "held", "unknown"), isOurs)
		want := r.refs("held", "unknown")
		if after == "first" {
			want = r.refs("unknown") // It was deleted: only a Deployment is waited for.
		}
		if diff := cmp.Diff(want, remaining); diff != "" || !errors.Is(err, unknown) {
			t.Errorf("%s: %v, remaining %s", after, err, diff)
		}
	}
	if got, want := r.writes.Take(), "DELETE /api/v1/namespaces/"+r.namespace+"/configmaps/held"; !slices.Equal(got, []string{want}) {
		t.Errorf("got %v", got)
	}
	if r.live(t, "used").DeletionTimestamp != nil {
		t.Error("an object in use was deleted")
	}
}

// What other controllers made for an object must be gone, too.
func TestPruneAftermath(t *testing.T) {
	r := newRig(t)
	apiserver.Must(t, r.apply(t, 2, r.config("a", "1"), r.config("b", "1")))
	failure, asked := errors.New("not yet"), []string{}
	gone := map[string]bool{"a": true}
	r.Aftermath = func(_ context.Context, ref v2beta2.ObjectReference) (bool, error) {
		asked = append(asked, ref.Name)
		if ref.Name == "c" {
			return false, failure
		}
		return gone[ref.Name], nil
	}
	remaining, err := r.Prune(t.Context(), r.refs("a", "b", "c"), isOurs)
	if diff := cmp.Diff(r.refs("b", "c"), remaining); diff != "" || !errors.Is(err, failure) || !slices.Equal(asked, []string{"c", "b", "a"}) {
		t.Errorf("asked %v: %v, remaining %s", asked, err, diff)
	}
}

// One of several API servers may not serve a kind yet: then it is not known whether there are objects.
func TestAbsenceIsConfirmed(t *testing.T) {
	r := newRig(t)
	ref := v2beta2.ObjectReference{APIVersion: v2beta2.GroupVersion.String(), Kind: "ZosEndpoint", Namespace: r.namespace, Name: "a"}
	noMatch := &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v2beta2.GroupVersion.Group, Kind: "ZosEndpoint"}}
	r.reading = func(key client.ObjectKey) error {
		if key.Name == "a" {
			return noMatch
		}
		return nil
	}
	remaining, err := r.Prune(t.Context(), []v2beta2.ObjectReference{ref}, isOurs)
	if len(remaining) != 1 || !errors.Is(err, apply.ErrNotServed) {
		t.Errorf("%v remain: %v", remaining, err)
	}
	ref.APIVersion, ref.Kind, noMatch.GroupKind = "none.example.com/v1", "None", schema.GroupKind{Group: "none.example.com", Kind: "None"}
	if remaining, err := r.Prune(t.Context(), []v2beta2.ObjectReference{ref}, isOurs); len(remaining) > 0 || err != nil {
		t.Errorf("a kind without a CRD: %v remain: %v", remaining, err)
	}

	noMatch.GroupKind = schema.GroupKind{Group: v2beta2.GroupVersion.Group, Kind: "ZosEndpoint"}
	away := errors.New("the API server is away")
	for name, test := range map[string]struct{ err, want error }{
		"no error":                   {nil, nil},
		"no object":                  {apierrors.NewNotFound(configMaps, "a"), nil},
		"another error":              {away, away},
		"a kind that is not served":  {noMatch, apply.ErrNotServed},
		"a kind that nobody defines": {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "none.example.com", Kind: "None"}}, nil},
	} {
		if err := apply.ConfirmAbsence(t.Context(), r.Reader, test.err); !errors.Is(err, test.want) || test.want == nil && err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
	r.reading = func(client.ObjectKey) error { return away }
	if err := apply.ConfirmAbsence(t.Context(), r.Reader, noMatch); !errors.Is(err, away) {
		t.Errorf("the CRD cannot be read: %v", err)
	}
}
