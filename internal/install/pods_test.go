package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection/render"
)

// A pod is looked at again when something has changed that a message says, and only then.
func TestPodChanged(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: strings.Repeat("x", 1<<20)}}
	}
	pod := func(restarts int32, state, last corev1.ContainerState) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", Annotations: map[string]string{"large": strings.Repeat("x", 1<<18)}},
			Spec:       corev1.PodSpec{NodeName: "node"},
			Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				Name: render.OperatorContainer, RestartCount: restarts, State: state, LastTerminationState: last,
			}}},
		}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	unscheduled := pod(0, running, corev1.ContainerState{})
	unscheduled.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}
	deleted := pod(0, running, corev1.ContainerState{})
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"it begins":     {pod(0, waiting("PodInitializing", ""), corev1.ContainerState{}), pod(0, running, corev1.ContainerState{}), false},
		"another delay": {pod(5, waiting("CrashLoopBackOff", "20s"), ended(1)), pod(6, waiting("CrashLoopBackOff", "40s"), ended(1)), false},
		"no image":      {pod(0, waiting("ContainerCreating", ""), corev1.ContainerState{}), pod(0, waiting("ErrImagePull", ""), corev1.ContainerState{}), true},
		"a pause before the next try to pull": {pod(0, waiting("ErrImagePull", "401"), corev1.ContainerState{}),
			pod(0, waiting("ImagePullBackOff", `Back-off pulling image "x:y": ErrImagePull: 401`), corev1.ContainerState{}), false},
		"a pause, before Kubernetes 1.32": {pod(0, waiting("ErrImagePull", "401"), corev1.ContainerState{}),
			pod(0, waiting("ImagePullBackOff", `Back-off pulling image "x:y"`), corev1.ContainerState{}), false},
		"another try to pull": {pod(0, waiting("ErrImagePull", "read udp 10.0.0.1:40000->10.0.0.2:53: timeout"), corev1.ContainerState{}),
			pod(0, waiting("ErrImagePull", "read udp 10.0.0.1:40001->10.0.0.2:53: timeout"), corev1.ContainerState{}), false},
		"another cause":        {pod(0, waiting("ErrImagePull", "401"), corev1.ContainerState{}), pod(0, waiting("ErrImagePull", "404"), corev1.ContainerState{}), true},
		"it ends":              {pod(0, running, corev1.ContainerState{}), pod(0, ended(1), corev1.ContainerState{}), true},
		"it is restarted":      {pod(1, ended(1), corev1.ContainerState{}), pod(2, running, ended(1)), true},
		"it cannot be placed":  {pod(0, running, corev1.ContainerState{}), unscheduled, true},
		"it is being deleted":  {pod(0, running, corev1.ContainerState{}), deleted, true},
		"nothing, transformed": {pod(2, ended(3), ended(1)), pod(2, ended(3), ended(1)), false},
	} {
		test.after.ResourceVersion = "2"
		KeepPod(test.before)
		KeepPod(test.after)
		KeepPod(test.after) // The cache may transform an object twice.
		if got := PodChanged(test.before, test.after); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
		if size := test.after.Size(); size > 20<<10 {
			t.Errorf("%s: %d bytes remain", name, size)
		}
	}
}

// A container that is restarted again and again is described in the same way while it runs for a moment.
func TestManyRestarts(t *testing.T) {
	failed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}
	for _, is := range []corev1.ContainerStatus{
		{Name: "a", RestartCount: manyRestarts, State: failed},
		{Name: "a", RestartCount: manyRestarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, LastTerminationState: failed},
		{Name: "a", RestartCount: manyRestarts, LastTerminationState: failed,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
	} {
		if got := describeContainer(is); len(got) != 1 || got[0] != "container a: CrashLoopBackOff" {
			t.Errorf("got %q", got)
		}
	}
	if got := describeContainer(corev1.ContainerStatus{Name: "a", RestartCount: manyRestarts, Ready: true, LastTerminationState: failed}); got != nil {
		t.Errorf("it is ready: got %q", got)
	}
}

func TestDeploymentChanged(t *testing.T) {
	deployment := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
			UID: "u", Generation: 1, Annotations: map[string]string{}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		}}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1}
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
		change(d)
		KeepDeployment(d)
		return d
	}
	before := deployment(func(*appsv1.Deployment) {})
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"another message":   {func(d *appsv1.Deployment) { d.Status.Conditions[0].Message = "x" }, false},
		"a revision":        {func(d *appsv1.Deployment) { d.Annotations["deployment.kubernetes.io/revision"] = "1" }, false},
		"an annotation":     {func(d *appsv1.Deployment) { d.Annotations["a"] = "b" }, true},
		"another spec":      {func(d *appsv1.Deployment) { d.Generation = 2 }, true},
		"not available":     {func(d *appsv1.Deployment) { d.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"pods are replaced": {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 0 }, true},
		"a pod is refused": {func(d *appsv1.Deployment) {
			d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"})
		}, true},
		"another one instead": {func(d *appsv1.Deployment) { d.UID = "v" }, true},
	} {
		if got := DeploymentChanged(before, deployment(test.change)); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// What the cache has of Deployments and pods says which configuration they have, also if it comes from a ClusterServiceVersion.
func TestHashesAreKept(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"of a Subscription":          {render.RuntimeHashAnnotation: "a", render.CatalogHashAnnotation: "b", "large": strings.Repeat("x", 1<<18)},
		"of a ClusterServiceVersion": {render.CatalogHashAnnotation: "b"},
		"none":                       nil,
	} {
		want := render.RuntimeHash(annotations)
		deployment, pod := &appsv1.Deployment{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
		deployment.Spec.Template.Annotations = annotations
		for range 2 { // The cache may transform an object twice.
			KeepDeployment(deployment)
			KeepPod(pod)
		}
		if got := render.RuntimeHash(deployment.Spec.Template.Annotations); got != want {
			t.Errorf("%s: the Deployment has %q, want %q", name, got, want)
		}
		if got := render.RuntimeHash(pod.Annotations); got != want || len(pod.Annotations["large"]) > 0 {
			t.Errorf("%s: the pod has %q, want %q", name, got, want)
		}
	}
}

func TestMissingDependencies(t *testing.T) {
	ended := func(message string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}
	}
	initially := func(message string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: render.UnpackContainer, State: ended("DependencyMissing: not me")}, {Name: render.DependenciesContainer, State: ended(message)}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, test := range map[string]struct {
		status corev1.PodStatus
		hash   string
		want   string
	}{
		"nothing ended yet": {status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: render.DependenciesContainer, State: running}}}},
		"all installed":     {status: corev1.PodStatus{InitContainerStatuses: initially("")}},
		"missing": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b\n\x1b[31mc.d\xff"), ContainerStatuses: []corev1.ContainerStatus{{Name: render.OperatorContainer, State: running}}},
			want:   "a.b c.d?",
		},
		"found by the only container": {
			status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: render.UnpackContainer, State: ended("DependencyMissing: a.b")}}},
			want:   "a.b",
		},
		"another problem later": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b"), ContainerStatuses: []corev1.ContainerStatus{
				{Name: render.OperatorContainer, State: running, LastTerminationState: ended("DependencyMissing: c.d")}}},
			want: "c.d",
		},
		"healed, then something else": {
			status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b"), ContainerStatuses: []corev1.ContainerStatus{
				{Name: render.OperatorContainer, State: running, LastTerminationState: ended("all dependencies are installed")}}},
		},
		"a pod of another template": {status: corev1.PodStatus{InitContainerStatuses: initially("DependencyMissing: a.b")}, hash: "old"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{}
			pod := corev1.Pod{Status: test.status}
			if test.hash != "" {
				pod.Annotations = map[string]string{render.RuntimeHashAnnotation: test.hash}
			}
			if got := missingDependencies(deployment, []corev1.Pod{pod}); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
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
		"no image": {
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "rpc error: code = NotFound desc = no such tag"}},
			[]string{`container c: ImagePullBackOff: the node cannot pull image "": no such tag; if the registry needs credentials, name a Secret with them in spec.runtime.imagePullSecrets`},
		},
		"no user": {
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "container has runAsNonRoot and image will run as root"}},
			[]string{"container c: CreateContainerConfigError: container has runAsNonRoot and image will run as root"},
		},
	} {
		kept := keepState("c", keepState("c", test.state)) // The cache may transform an object twice.
		if diff := cmp.Diff(test.want, describeContainer(corev1.ContainerStatus{Name: "c", State: kept})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}
