package controller

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/status"
)

func labelled(labels map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
}

func ours(domain, name string) map[string]string {
	return map[string]string{"managed-by": "ibm-zos-cloud-broker", "operator-domain": domain, "operator-name": name}
}

// The joined names of a-b/c and a/b-c are the same, and they are two collections.
func TestKeyOfLabels(t *testing.T) {
	one, two := labelledID(labelled(ours("a-b", "c"))), labelledID(labelled(ours("a", "b-c")))
	if one == two || one != (collection.ID{Domain: "a-b", Name: "c"}) {
		t.Errorf("got %v and %v", one, two)
	}
	stranger := ours("a", "b")
	stranger["managed-by"] = "somebody"
	if got := labelledID(labelled(stranger)); got != (collection.ID{}) {
		t.Errorf("an object that is not ours has the key %v", got)
	}
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
		object.Annotations = map[string]string{annotationOwner: test.owner}
		if got := ownedBy(soc)(object); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestOwnerOfObject(t *testing.T) {
	object := labelled(nil)
	if got := ownerOfObject(t.Context(), object); got != nil {
		t.Errorf("got %v", got)
	}
	object.Annotations = map[string]string{annotationOwner: "ns/soc"}
	if got := ownerOfObject(t.Context(), object); len(got) != 1 || got[0].NamespacedName != (types.NamespacedName{Namespace: "ns", Name: "soc"}) {
		t.Errorf("got %v", got)
	}
}

func TestOlder(t *testing.T) {
	object := func(second int, uid string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), CreationTimestamp: metav1.Unix(int64(second), 0)}}
	}
	first, second, twin := object(1, "b"), object(2, "a"), object(1, "a")
	if !older(first, second) || older(second, first) {
		t.Error("the one created first is older")
	}
	if !older(twin, first) || older(first, twin) {
		t.Error("of two created in one second exactly one is older")
	}
}

func mapped(endpoints ...v2beta2.EndpointMapping) v2beta2.NamespaceMapping {
	return v2beta2.NamespaceMapping{Namespace: "ns", ZosEndpoints: &endpoints}
}

func TestEndpointsOfAMapping(t *testing.T) {
	all := v2beta2.NamespaceMapping{Namespace: "ns"}
	none := v2beta2.NamespaceMapping{Namespace: "ns", ZosEndpoints: &[]v2beta2.EndpointMapping{}}
	one := mapped(v2beta2.EndpointMapping{Name: "lpar1", CredentialName: "mine"})
	plain := mapped(v2beta2.EndpointMapping{Name: "lpar1"})
	endpoint := &v2beta2.ZosEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "lpar1"}, Spec: v2beta2.ZosEndpointSpec{CredentialName: "own"}}
	for name, test := range map[string]struct {
		mapping    v2beta2.NamespaceMapping
		allowed    bool
		credential string
		missing    int
	}{
		"absent means all":               {all, true, "own", 0},
		"empty means none":               {none, false, "own", 0},
		"named, with a credential":       {one, true, "mine", 0},
		"named":                          {plain, true, "own", 0},
		"another is named, and not made": {mapped(v2beta2.EndpointMapping{Name: "lpar2"}), false, "own", 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := allows(test.mapping, "lpar1"); got != test.allowed {
				t.Errorf("allowed: %v", got)
			}
			if got := credentialFor(test.mapping, endpoint); got != test.credential {
				t.Errorf("credential %q, want %q", got, test.credential)
			}
			missing := missingEndpoints(test.mapping, []v2beta2.ZosEndpoint{*endpoint})
			if len(missing) != test.missing {
				t.Fatalf("missing: %v", missing)
			}
			for _, err := range missing {
				if f := status.AsError(err); f.Reason != v2beta2.ReasonEndpointNotFound || f.Stalled || !strings.Contains(f.Error(), `"lpar2"`) {
					t.Errorf("got %+v", f)
				}
			}
		})
	}
}

func TestKnownHostKeys(t *testing.T) {
	endpoint := &v2beta2.ZosEndpoint{Spec: v2beta2.ZosEndpointSpec{Host: "lpar1"}}
	endpoint.Status.HostKeys, endpoint.Status.PinnedFor = []string{"pinned"}, "lpar1:22"
	if diff := cmp.Diff([]string{"pinned"}, knownHostKeys(endpoint)); diff != "" {
		t.Error(diff)
	}
	endpoint.Spec.Port = 2022
	if got := knownHostKeys(endpoint); got != nil {
		t.Errorf("a key pinned for another port is not known: %v", got)
	}
	endpoint.Spec.HostKeys = []string{"given"}
	if diff := cmp.Diff([]string{"given"}, knownHostKeys(endpoint)); diff != "" {
		t.Error(diff)
	}
}

func TestNotInstalled(t *testing.T) {
	soc := func(name string, generation, observed int64, err error) v2beta2.SubOperatorConfig {
		s := v2beta2.SubOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
		status.SetReady(&s.Status.Conditions, observed, err, "runs")
		return s
	}
	waits := status.Waiting(v2beta2.ReasonEndpointNotFound, time.Second, "no endpoint")
	for name, test := range map[string]struct {
		socs   []v2beta2.SubOperatorConfig
		reason string
		text   string
	}{
		"none":             {nil, v2beta2.ReasonNotInstalled, "create one"},
		"ready":            {[]v2beta2.SubOperatorConfig{soc("a", 1, 1, nil)}, "", ""},
		"of an older spec": {[]v2beta2.SubOperatorConfig{soc("a", 2, 1, nil)}, v2beta2.ReasonProgressing, `"a" is being installed`},
		"new":              {[]v2beta2.SubOperatorConfig{{}}, v2beta2.ReasonProgressing, "is being installed"},
		"one of two fails": {[]v2beta2.SubOperatorConfig{soc("a", 1, 1, nil), soc("b", 1, 1, waits)}, v2beta2.ReasonEndpointNotFound, `"b": no endpoint`},
	} {
		t.Run(name, func(t *testing.T) {
			f := status.AsError(notInstalled(test.socs))
			if f == nil {
				if test.reason != "" {
					t.Fatal("it says that all is well")
				}
				return
			}
			if f.Reason != test.reason || !strings.Contains(f.Error(), test.text) || f.Stalled {
				t.Errorf("got %s: %v, stalled %v", f.Reason, f, f.Stalled)
			}
		})
	}
}

func TestUntouchedDefault(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		meta metav1.ObjectMeta
		want bool
	}{
		"as it was made": {metav1.ObjectMeta{Generation: 1, Annotations: map[string]string{annotationDefault: "true"}}, true},
		"changed":        {metav1.ObjectMeta{Generation: 2, Annotations: map[string]string{annotationDefault: "true"}}, false},
		"a user's own":   {metav1.ObjectMeta{Generation: 1}, false},
		"on its way out": {metav1.ObjectMeta{Generation: 1, Annotations: map[string]string{annotationDefault: "true"}, DeletionTimestamp: &now}, false},
	} {
		if got := untouchedDefault(&v2beta2.SubOperatorConfig{ObjectMeta: test.meta}); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// What the archive is fetched from and verified with makes a new source; credentials and everything else do not.
func TestSourceHash(t *testing.T) {
	base := v2beta2.OperatorCollectionSpec{CollectionURL: "https://a", Digest: "sha256:x"}
	for name, test := range map[string]struct {
		change func(*v2beta2.OperatorCollectionSpec)
		same   bool
	}{
		"nothing":         {func(*v2beta2.OperatorCollectionSpec) {}, true},
		"credentials":     {func(s *v2beta2.OperatorCollectionSpec) { s.CredentialsSecret, s.CollectionURLToken = "a", "b" }, true},
		"deletion policy": {func(s *v2beta2.OperatorCollectionSpec) { s.DeletionPolicy = v2beta2.DeletionFinalize }, true},
		"URL":             {func(s *v2beta2.OperatorCollectionSpec) { s.CollectionURL = "https://b" }, false},
		"digest":          {func(s *v2beta2.OperatorCollectionSpec) { s.Digest = "" }, false},
		"signature":       {func(s *v2beta2.OperatorCollectionSpec) { s.SignatureSecret = "s" }, false},
		"no verification": {func(s *v2beta2.OperatorCollectionSpec) { s.SkipSignatureVerification = true }, false},
		"one field's text in another": {func(s *v2beta2.OperatorCollectionSpec) {
			s.CollectionURL, s.Digest = `https://a" "sha256:x`, ""
		}, false},
	} {
		changed := base
		test.change(&changed)
		if got := sourceHash(&base) == sourceHash(&changed); got != test.same {
			t.Errorf("%s: same is %v", name, got)
		}
	}
}

func TestAvailable(t *testing.T) {
	good := func() *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Generation: 2},
			Status: appsv1.DeploymentStatus{
				ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1,
				Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
			},
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"yes":                    {func(*appsv1.Deployment) {}, true},
		"of an older template":   {func(d *appsv1.Deployment) { d.Generation = 3 }, false},
		"old pod not gone":       {func(d *appsv1.Deployment) { d.Status.Replicas = 2 }, false},
		"new pod not made":       {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, false},
		"not Available":          {func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"nothing known about it": {func(d *appsv1.Deployment) { d.Status.Conditions = nil }, false},
	} {
		d := good()
		test.change(d)
		if got := available(d); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// Messages of container states hold names and delays that change with every restart: status must not flap with them.
func TestDescribeContainer(t *testing.T) {
	for name, test := range map[string]struct {
		state corev1.ContainerState
		want  []string
	}{
		"starting":   {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}, nil},
		"held up":    {corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 20s"}}, []string{"container c: CrashLoopBackOff"}},
		"failed":     {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Message: "at 12:00"}}, []string{"container c ended with exit code 3"}},
		"ended well": {corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, nil},
		"runs":       {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, nil},
	} {
		if diff := cmp.Diff(test.want, describeContainer(corev1.ContainerStatus{Name: "c", State: test.state})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
