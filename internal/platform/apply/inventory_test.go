package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

func ref(apiVersion, kind, namespace, name string) v2beta2.ObjectReference {
	return v2beta2.ObjectReference{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name}
}

var (
	account    = ref("v1", "ServiceAccount", "ns", "a")
	config     = ref("v1", "ConfigMap", "ns", "a")
	role       = ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a")
	deployment = ref("apps/v1", "Deployment", "ns", "a")
	elsewhere  = ref("apps/v1", "Deployment", "other", "a")
)

type refs = []v2beta2.ObjectReference

func TestInventory(t *testing.T) {
	objects := []client.Object{
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}},
	}
	if diff := cmp.Diff(refs{role, deployment}, Inventory(objects)); diff != "" {
		t.Error(diff)
	}
	if got := Inventory(nil); got == nil || len(got) != 0 {
		t.Errorf("an inventory of nothing is empty, not %v", got)
	}
}

func TestDifference(t *testing.T) {
	newer := deployment
	newer.APIVersion = "apps/v2"
	for name, test := range map[string]struct{ a, b, want refs }{
		"nothing":                       {nil, refs{account}, nil},
		"all":                           {refs{account, config}, nil, refs{account, config}},
		"keeps the order":               {refs{deployment, account, config}, refs{account}, refs{deployment, config}},
		"another namespace is another":  {refs{deployment}, refs{elsewhere}, refs{deployment}},
		"another version is not":        {refs{deployment}, refs{newer}, nil},
		"kinds of one name are several": {refs{account, config}, refs{config}, refs{account}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Difference(test.a, test.b)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestUnion(t *testing.T) {
	wanted, recorded := refs{account, deployment}, refs{deployment, config, role}
	once := Union(wanted, recorded)
	if diff := cmp.Diff(refs{account, deployment, config, role}, once); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(once, Union(wanted, once)); diff != "" {
		t.Errorf("a second time it changes:\n%s", diff)
	}
	if diff := cmp.Diff(refs{account, deployment}, wanted); diff != "" {
		t.Errorf("its argument changed:\n%s", diff)
	}
}

func TestName(t *testing.T) {
	for want, object := range map[string]client.Object{
		`ClusterRole "a"`:       named("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a"),
		`ServiceAccount "ns/a"`: named("v1", "ServiceAccount", "ns", "a"),
	} {
		if got := Name(object); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func named(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func TestEqual(t *testing.T) {
	base := func() *unstructured.Unstructured {
		u := named("v1", "ConfigMap", "ns", "a")
		u.SetResourceVersion("1")
		u.SetGeneration(1)
		u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "x"}})
		u.Object["data"] = map[string]any{"k": "v"}
		return u
	}
	for name, test := range map[string]struct {
		change func(*unstructured.Unstructured)
		want   bool
	}{
		"the server's bookkeeping": {func(u *unstructured.Unstructured) {
			u.SetResourceVersion("2")
			u.SetGeneration(2)
			u.SetManagedFields(nil)
		}, true},
		"data":           {func(u *unstructured.Unstructured) { u.Object["data"] = map[string]any{"k": "w"} }, false},
		"a label":        {func(u *unstructured.Unstructured) { u.SetLabels(map[string]string{"a": "b"}) }, false},
		"an owner":       {func(u *unstructured.Unstructured) { u.SetOwnerReferences([]metav1.OwnerReference{{Name: "x"}}) }, false},
		"another object": {func(u *unstructured.Unstructured) { u.SetUID("other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := base(), base()
			test.change(b)
			if got := equal(a, b); got != test.want {
				t.Errorf("got %v", got)
			}
			if diff := cmp.Diff(base(), a); diff != "" {
				t.Errorf("its argument changed:\n%s", diff)
			}
		})
	}
}

func TestIsBinding(t *testing.T) {
	for kind, want := range map[string]bool{"RoleBinding": true, "ClusterRoleBinding": true, "Role": false} {
		if got := isBinding(named(rbacv1.SchemeGroupVersion.String(), kind, "", "a")); got != want {
			t.Errorf("%s: got %v", kind, got)
		}
	}
	if isBinding(named(corev1.SchemeGroupVersion.String(), "RoleBinding", "", "a")) {
		t.Error("a kind of that name in another group is none")
	}
}
