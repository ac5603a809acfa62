package install

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

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
		if got := Available(d); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestUntrustedManager(t *testing.T) {
	ended := corev1.ContainerStatus{
		Name:                 "unpack",
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "archive not trusted: fetch x\n: why"}},
	}
	for _, name := range []string{"unpack", "init-unpack"} {
		ended.Name = name
		if diff := cmp.Diff([]string{"fetch x : why"}, describeContainer(ended)); diff != "" {
			t.Error(diff)
		}
	}
	ended.Name = "operator"
	if diff := cmp.Diff([]string{"container operator: CrashLoopBackOff"}, describeContainer(ended)); diff != "" {
		t.Error(diff)
	}
}

// Messages of container states contain names and delays that change with every restart, and must not change status.
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
