package install

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// installedIn returns a SubOperatorConfig with an operator in namespace a and a partial one in namespace b.
func installedIn() *v2beta2.SubOperatorConfig {
	return &v2beta2.SubOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "soc", Labels: ours("labelled", "things")},
		Status: v2beta2.SubOperatorConfigStatus{
			Installations: []v2beta2.InstallationStatus{{Namespace: "a", Install: v2beta2.InstallOLM, Ready: true}},
			Inventory: []v2beta2.ObjectReference{
				{Kind: "Secret", Namespace: "a", Name: "x"},
				{Kind: "ClusterRole", Name: "zoscb:a:it-things-operator"},
				{Kind: "Deployment", Namespace: "b", Name: "x"},
				{Kind: "ClusterRole", Name: "zoscb:b:it-things-operator"},
			},
		},
	}
}

// The installation in a namespace is read from status alone: no other object may exist.
func TestWhatIsInstalledIsFoundFromStatus(t *testing.T) {
	soc := installedIn()
	if diff := cmp.Diff([]string{"a", "b"}, Namespaces(soc)); diff != "" {
		t.Error(diff)
	}
	for namespace, test := range map[string]struct {
		parts  []v2beta2.ObjectReference
		method v2beta2.InstallMethod
	}{
		"a": {soc.Status.Inventory[:2], v2beta2.InstallOLM},
		"b": {soc.Status.Inventory[2:], v2beta2.InstallDirect},
		"c": {nil, ""},
	} {
		if got := parts(soc, namespace); !slices.Equal(got, test.parts) {
			t.Errorf("%s: got %v", namespace, got)
		}
		if got := RecordedMethod(soc, namespace); got != test.method {
			t.Errorf("%s: got %q", namespace, got)
		}
	}
	if Recorded(soc, "a") == nil || Recorded(soc, "b") != nil {
		t.Error("only namespace a has an installation")
	}
}

// Users may change labels, so the recorded collection takes precedence.
func TestRecordedCollection(t *testing.T) {
	soc := installedIn()
	if got := RecordedCollection(soc); got != (model.ID{Domain: "labelled", Name: "things"}) {
		t.Errorf("before it is recorded: %v", got)
	}
	soc.Status.Collection = &v2beta2.CollectionReference{Domain: "it", Name: "things"}
	if got := RecordedCollection(soc); got != (model.ID{Domain: "it", Name: "things"}) {
		t.Errorf("once it is recorded: %v", got)
	}
	labelledOnly := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Labels: soc.Labels}}
	if got := RecordedCollection(labelledOnly); got != (model.ID{}) {
		t.Errorf("with nothing but labels: %v", got)
	}
	if got := RecordedCollection(&v2beta2.SubOperatorConfig{}); got != (model.ID{}) {
		t.Errorf("without anything: %v", got)
	}
}

func TestContains(t *testing.T) {
	soc := &v2beta2.SubOperatorConfig{Status: v2beta2.SubOperatorConfigStatus{Inventory: []v2beta2.ObjectReference{
		{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "ns", Name: "a"},
	}}}
	deployment := schema.GroupKind{Group: "apps", Kind: "Deployment"}
	for name, test := range map[string]struct {
		kind            schema.GroupKind
		namespace, name string
		want            bool
	}{
		"in the inventory":  {deployment, "ns", "a", true},
		"another namespace": {deployment, "other", "a", false},
		"another name":      {deployment, "ns", "b", false},
		"another kind":      {schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "ns", "a", false},
		"another group":     {schema.GroupKind{Group: "example.com", Kind: "Deployment"}, "ns", "a", false},
	} {
		if got := Contains(soc, test.kind, client.ObjectKey{Namespace: test.namespace, Name: test.name}); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestListOfInstallations(t *testing.T) {
	list := []v2beta2.InstallationStatus{{Namespace: "b"}, {Namespace: "d"}}
	got := WithInstallation(list, v2beta2.InstallationStatus{Namespace: "c"})
	got = WithInstallation(got, v2beta2.InstallationStatus{Namespace: "b", Ready: true})
	want := []v2beta2.InstallationStatus{{Namespace: "b", Ready: true}, {Namespace: "c"}, {Namespace: "d"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[1:], WithoutInstallation(got, "b")); diff != "" {
		t.Error(diff)
	}
	if len(list) != 2 || list[0].Ready {
		t.Errorf("the argument has changed: %v", list)
	}
}

// A failed request does not change the state of the running operator.
func TestAFailureIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		ready   bool
		message string
	}{
		"with a reason":    {status.Waiting("R", time.Second, "for it"), false, "for it"},
		"without a reason": {errors.New("connection refused"), true, ""},
	} {
		result := Result{Status: &v2beta2.InstallationStatus{Ready: true}}
		result.fail(test.err)
		if !errors.Is(result.Err, test.err) || result.Status.Ready != test.ready || result.Status.Message != test.message {
			t.Errorf("%s: got %+v", name, result.Status)
		}
	}
	result := Result{}
	result.fail(errors.New("x"))
	if result.Status != nil {
		t.Error("nothing is installed, and something is reported")
	}
}

func labelled(labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func ours(domain, name string) map[string]string {
	return map[string]string{"managed-by": "ibm-zos-cloud-broker", "operator-domain": domain, "operator-name": name}
}

func TestOwnedBy(t *testing.T) {
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "soc"}}
	for name, test := range map[string]struct {
		labels map[string]string
		owner  string
		want   bool
	}{
		"made for it":            {ours("a", "b"), "ns/soc", true},
		"made for another":       {ours("a", "b"), "ns/other", false},
		"made in another place":  {ours("a", "b"), "other/soc", false},
		"labelled by a stranger": {ours("a", "b"), "", false},
		"without our labels":     {nil, "ns/soc", false},
	} {
		object := labelled(test.labels)
		object.Annotations = map[string]string{AnnotationOwner: test.owner}
		if got := OwnedBy(soc)(object); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWhatReplacedInstallationsLeave(t *testing.T) {
	soc := &v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "zos", Name: "soc"}}
	ours := render.IdentityLabels(model.ID{Domain: "acme", Name: "things"})
	for name, test := range map[string]struct {
		labels      map[string]string
		annotations map[string]string
		owned, left bool
	}{
		"its own":                            {ours, map[string]string{AnnotationOwner: "zos/soc"}, true, false},
		"its own, without our labels":        {nil, map[string]string{AnnotationOwner: "zos/soc"}, false, false},
		"of another one":                     {ours, map[string]string{AnnotationOwner: "zos/other"}, false, false},
		"of nobody":                          {ours, nil, false, false},
		"left by another one":                {ours, map[string]string{AnnotationOwner: "zos/other", annotationLeft: "true"}, true, true},
		"left by itself":                     {ours, map[string]string{AnnotationOwner: "zos/soc", annotationLeft: "true"}, true, true},
		"left by one of another namespace":   {ours, map[string]string{AnnotationOwner: "others/soc", annotationLeft: "true"}, false, false},
		"left by nobody":                     {ours, map[string]string{annotationLeft: "true"}, false, false},
		"left, but not by one of our labels": {nil, map[string]string{AnnotationOwner: "zos/other", annotationLeft: "true"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			live := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "s", Labels: test.labels, Annotations: test.annotations}}
			if got := OwnedBy(soc)(live); got != test.owned {
				t.Errorf("owned: %t", got)
			}
			if got := isLeftTo(soc, live); got != test.left {
				t.Errorf("left: %t", got)
			}
		})
	}
}
