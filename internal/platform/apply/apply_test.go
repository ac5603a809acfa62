package apply_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/test/apiserver"
)

// ours is the label of the objects that the tests may change.
const ours = "ours"

func isOurs(live client.Object) bool { return live.GetLabels()[ours] == "true" }

// rig is an Applier whose writes are counted. Its client calls before each write, after each write, and its reader reading before each read.
type rig struct {
	*apply.Applier
	server        *apiserver.Server
	namespace     string
	writes        apiserver.Writes
	before, after func(what client.Object) error
	reading       func(key client.ObjectKey) error
	reads         int
}

func newRig(t *testing.T) *rig {
	server := apiserver.Shared(t)
	nothing := func(client.Object) error { return nil }
	r := &rig{server: server, namespace: server.Namespace(t), before: nothing, after: nothing, reading: func(client.ObjectKey) error { return nil }}
	writer := interceptor.NewClient(server.NewClient(t, r.writes.Of(server.Config)), interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if len((&client.ApplyOptions{}).ApplyOptions(options).DryRun) > 0 {
				return c.Apply(ctx, object, options...)
			}
			if err := r.before(object.(client.Object)); err != nil {
				return err
			}
			return cmp.Or(c.Apply(ctx, object, options...), r.after(object.(client.Object)))
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := r.before(object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
	})
	reader := interceptor.NewClient(server.Client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			r.reads++
			return cmp.Or(r.reading(key), c.Get(ctx, key, object, options...))
		},
	})
	r.Applier = &apply.Applier{Client: writer, Reader: reader}
	return r
}

func (r *rig) config(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name, Labels: map[string]string{ours: "true"}},
		Data:       map[string]string{"key": value},
	}
}

// foreign is what config would be if somebody else had created it.
func (r *rig) foreign(name, value string) *corev1.ConfigMap {
	object := r.config(name, value)
	object.Labels = nil
	return object
}

func (r *rig) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := r.server.Client.Create(t.Context(), object, client.FieldOwner("somebody")); err != nil {
			t.Fatal(err)
		}
	}
}

// live reads an object anew, and returns it.
func (r *rig) live(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{}
	if err := r.server.Client.Get(t.Context(), client.ObjectKey{Namespace: r.namespace, Name: name}, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// expectUnchanged fails unless an object is as it was.
func (r *rig) expectUnchanged(t *testing.T, object *corev1.ConfigMap) {
	t.Helper()
	if diff := gocmp.Diff(object.ObjectMeta, r.live(t, object.Name).ObjectMeta); diff != "" {
		t.Errorf("%s was changed:\n%s", object.Name, diff)
	}
}

// apply expects a number of objects that are written, and that the API server got as many requests.
func (r *rig) apply(t *testing.T, want int, objects ...client.Object) error {
	t.Helper()
	written, err := r.Apply(t.Context(), objects, isOurs)
	if requests := r.writes.Take(); written != want || len(requests) != want {
		t.Errorf("%d objects were written by %v, want %d", written, requests, want)
	}
	return err
}

func TestApplyWritesOnlyWhatDiffers(t *testing.T) {
	r := newRig(t)
	apiserver.Must(t, r.apply(t, 2, r.config("a", "1"), r.config("b", "1")))
	apiserver.Must(t, r.apply(t, 0, r.config("a", "1"), r.config("b", "1")))
	apiserver.Must(t, r.apply(t, 1, r.config("a", "1"), r.config("b", "2")))
	if got := r.live(t, "b").Data["key"]; got != "2" {
		t.Errorf("got %s", got)
	}
}

// What users add survives, what they change of ours is put right, and what is not rendered any more goes.
func TestApplyHasAnOpinionOnItsFieldsOnly(t *testing.T) {
	r := newRig(t)
	object := r.config("a", "1")
	object.Data["former"] = "x"
	apiserver.Must(t, r.apply(t, 1, object))
	live := r.live(t, "a")
	live.Labels["team"], live.Data["key"], live.Data["theirs"] = "z", "changed", "y"
	apiserver.Must(t, r.server.Client.Update(t.Context(), live, client.FieldOwner("somebody")))
	apiserver.Must(t, r.apply(t, 1, r.config("a", "1")))
	live = r.live(t, "a")
	if diff := gocmp.Diff(map[string]string{"key": "1", "theirs": "y"}, live.Data); diff != "" || live.Labels["team"] != "z" {
		t.Errorf("labels %v, data:\n%s", live.Labels, diff)
	}
}

func TestForeignObjectStopsAll(t *testing.T) {
	r := newRig(t)
	r.create(t, r.foreign("b", "1"), r.foreign("c", "1"))
	b := r.live(t, "b")
	err := r.apply(t, 0, r.config("a", "1"), r.config("b", "1"), r.config("c", "1"))
	for _, name := range []string{"b", "c"} {
		if want := `ConfigMap "` + r.namespace + "/" + name + `" exists and was not created for this object: delete or rename it`; !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	var foreign *apply.ForeignObjectError
	if !errors.As(err, &foreign) {
		t.Errorf("got %T", err)
	}
	r.expectUnchanged(t, b)
}

// Server-side apply would merge into what somebody else has created since the dry run, without a conflict if it has the same values.
func TestObjectThatAppearsAfterTheDryRunIsNotAdopted(t *testing.T) {
	for name, value := range map[string]string{"with the same content": "1", "with another content": "2"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.before = func(what client.Object) error {
				if what.GetName() == "b" {
					r.create(t, r.foreign("b", value))
				}
				return nil
			}
			written, err := r.Apply(t.Context(), []client.Object{r.config("a", "1"), r.config("b", "1"), r.config("c", "1")}, isOurs)
			if !apierrors.IsConflict(err) || written != 1 {
				t.Errorf("%d were written, and then: %v", written, err)
			}
			live := r.live(t, "b")
			if managers := managersOf(live); !slices.Equal(managers, []string{"somebody"}) || live.Data["key"] != value || isOurs(live) {
				t.Errorf("it was adopted: managers %v, labels %v, data %v", managers, live.Labels, live.Data)
			}
			r.before = func(client.Object) error { return nil }
			var foreign *apply.ForeignObjectError
			if _, err := r.Apply(t.Context(), []client.Object{r.config("b", "1")}, isOurs); !errors.As(err, &foreign) {
				t.Errorf("the next attempt: %v", err)
			}
		})
	}
}

func managersOf(object client.Object) []string {
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, entry.Manager)
	}
	return managers
}

func TestObjectThatIsReplacedAfterTheDryRunIsNotAdopted(t *testing.T) {
	r := newRig(t)
	apiserver.Must(t, r.apply(t, 1, r.config("a", "1")))
	r.before = func(client.Object) error {
		apiserver.Must(t, r.server.Client.Delete(t.Context(), r.live(t, "a")))
		r.create(t, r.foreign("a", "1"))
		return nil
	}
	if _, err := r.Apply(t.Context(), []client.Object{r.config("a", "2")}, isOurs); !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	if live := r.live(t, "a"); isOurs(live) || live.Data["key"] != "1" {
		t.Errorf("it was adopted: %v %v", live.Labels, live.Data)
	}
}

func TestRefusedObjectStopsAll(t *testing.T) {
	r := newRig(t)
	invalid := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "invalid"}}
	absent := r.config("absent", "1")
	absent.Namespace = r.namespace + "-absent"
	err := r.apply(t, 0, r.config("a", "1"), invalid, absent)
	var refusal *apply.RefusedError
	if !errors.As(err, &refusal) || refusal.Kind.Kind != "Deployment" || !apierrors.IsInvalid(refusal) {
		t.Errorf("got %v", err)
	}
	if want := `applying ConfigMap "` + absent.Namespace + `/absent": namespaces`; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want also %s", err, want)
	}
}

// What was written before a failure counts, and the next attempt writes the rest.
func TestFailedWriteIsContinued(t *testing.T) {
	r := newRig(t)
	away := errors.New("the API server is away")
	r.before = func(what client.Object) error {
		if what.GetName() == "b" {
			return away
		}
		return nil
	}
	objects := []client.Object{r.config("a", "1"), r.config("b", "1"), r.config("c", "1")}
	if err := r.apply(t, 1, objects...); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	r.before = func(client.Object) error { return nil }
	apiserver.Must(t, r.apply(t, 2, objects...))
}

// The API server refuses a dry run of a RoleBinding to a Role that does not exist yet, unless the user may bind every Role.
func TestBindingIsCreatedAfterItsRole(t *testing.T) {
	r := newRig(t)
	meta := metav1.ObjectMeta{Namespace: r.namespace, Name: "manager"}
	r.create(t, &corev1.ServiceAccount{ObjectMeta: meta}, &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: []string{"create", "get", "patch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}},
	}}, &rbacv1.RoleBinding{
		ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: r.namespace, Name: meta.Name}},
	})
	r.Client = r.server.NewClient(t, r.writes.Of(r.server.AsServiceAccount(t, r.namespace, meta.Name)))
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "operator", Labels: map[string]string{ours: "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "somebody"}},
	}
	apiserver.Must(t, r.apply(t, 2, role, binding))
	apiserver.Must(t, r.apply(t, 0, role, binding))

	role.Name, role.Rules[0].Verbs = "more", []string{"delete"}
	var refusal *apply.RefusedError
	if err := r.apply(t, 0, role); !errors.As(err, &refusal) || !apierrors.IsForbidden(refusal) {
		t.Errorf("more than the manager has: %v", err)
	}
}

func (r *rig) refs(names ...string) []v2beta2.ObjectReference {
	objects := make([]client.Object, len(names))
	for i, name := range names {
		objects[i] = r.config(name, "1")
	}
	return apply.Inventory(objects)
}

func TestPruneDeletesInReverseOrderWhatIsOurs(t *testing.T) {
	r := newRig(t)
	apiserver.Must(t, r.apply(t, 2, r.config("a", "1"), r.config("c", "1")))
	r.create(t, r.foreign("b", "1"))
	b := r.live(t, "b")
	remaining, err := r.Prune(t.Context(), r.refs("a", "b", "c", "gone"), isOurs)
	if err != nil || len(remaining) > 0 {
		t.Errorf("%v remain: %v", remaining, err)
	}
	below := "DELETE /api/v1/namespaces/" + r.namespace + "/configmaps/"
	if diff := gocmp.Diff([]string{below + "c", below + "a"}, r.writes.Take()); diff != "" {
		t.Error(diff)
	}
	r.expectUnchanged(t, b)
}

func TestPruneKeepsWhatWasReplaced(t *testing.T) {
	r := newRig(t)
	apiserver.Must(t, r.apply(t, 1, r.config("a", "1")))
	r.before = func(client.Object) error {
		apiserver.Must(t, r.server.Client.Delete(t.Context(), r.live(t, "a")))
		r.create(t, r.foreign("a", "1"))
		return nil
	}
	remaining, err := r.Prune(t.Context(), r.refs("a"), isOurs)
	if err != nil || len(remaining) > 0 {
		t.Errorf("%v remain: %v", remaining, err)
	}
	if live := r.live(t, "a"); isOurs(live) {
		t.Error("the other object is gone")
	}
}

// A Secret must stay until the pods that use it have ended. No controller runs, so this Deployment never ends.
func TestPruneWaitsForPodsBeforeWhatTheyNeed(t *testing.T) {
	r := newRig(t)
	labels := map[string]string{ours: "true"}
	deployment := &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: "operator", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}},
		},
	}
	apiserver.Must(t, r.apply(t, 3, r.config("needed", "1"), deployment, r.config("later", "1")))
	refs := append(append(r.refs("needed"), apply.Inventory([]client.Object{deployment})...), r.refs("later")...)
	for range 2 {
		remaining, err := r.Prune(t.Context(), refs, isOurs)
		if diff := gocmp.Diff(refs[:2], remaining); diff != "" || err != nil {
			t.Errorf("%v remain: %v", remaining, err)
		}
	}
	if got := r.live(t, "needed"); got.DeletionTimestamp != nil {
		t.Error("what the pods need is deleted")
	}
	deletions := r.writes.Take()
	if want := "DELETE /apis/apps/v1/namespaces/" + r.namespace + "/deployments/operator"; len(deletions) != 2 || deletions[1] != want {
		t.Errorf("got %v", deletions)
	}
}
