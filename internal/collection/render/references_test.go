package render

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// everyRuntime sets every field that a pod takes over as it is.
func everyRuntime() v2beta2.RuntimeSpec {
	return v2beta2.RuntimeSpec{
		EnvFrom: []v2beta2.RuntimeEnvSource{
			{Prefix: "APP_", ConfigMapRef: &v2beta2.RuntimeObject{Name: "settings"}}, {SecretRef: &v2beta2.RuntimeObject{Name: "proxy"}},
		},
		ImagePullSecrets: []v2beta2.RuntimeObject{{Name: "registry"}},
		Volumes: []v2beta2.RuntimeVolume{
			{Name: "wheels", PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "wheels"}},
			{Name: "krb5", ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "krb5"}}},
			{Name: "keytab", Secret: &corev1.SecretVolumeSource{SecretName: "keytab"}},
			{Name: "scratch", EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
		VolumeMounts:              []v2beta2.RuntimeVolumeMount{{Name: "wheels", MountPath: "/mnt/wheels", SubPath: "python", ReadOnly: true}},
		ServiceAccountAnnotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"},
		PodAnnotations:            map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
		PodLabels:                 map[string]string{"team": "mainframe"},
		PriorityClassName:         "important",
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "mainframe"}},
		}},
	}
}

func fromSecret(name string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
}

func fromConfigMap(name string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
}

func envOf(sources ...*corev1.EnvVarSource) []corev1.EnvVar {
	variables := make([]corev1.EnvVar, len(sources))
	for i, source := range sources {
		variables[i] = corev1.EnvVar{Name: "V" + strconv.Itoa(i), ValueFrom: source}
	}
	return variables
}

func TestReferencesThatAContainerHas(t *testing.T) {
	container := &corev1.Container{Env: envOf(nil, fromSecret("token"))}
	otherKey := fromSecret("token")
	otherKey.SecretKeyRef.Key = "password"
	token := Reference{"env", "Secret", "token"}
	for name, test := range map[string]struct {
		ref    Reference
		wanted []*corev1.EnvVarSource
		want   bool
	}{
		"the same":           {token, []*corev1.EnvVarSource{fromSecret("token"), nil, fromConfigMap("limits")}, true},
		"another key":        {token, []*corev1.EnvVarSource{otherKey}, false},
		"one more key":       {token, []*corev1.EnvVarSource{fromSecret("token"), otherKey}, false},
		"another Secret":     {Reference{"env", "Secret", "other"}, []*corev1.EnvVarSource{fromSecret("other")}, false},
		"of another kind":    {Reference{"env", "ConfigMap", "token"}, []*corev1.EnvVarSource{fromConfigMap("token")}, false},
		"with other objects": {token, []*corev1.EnvVarSource{fromSecret("token"), fromSecret("other")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if test.ref.IsReadBy(container, envOf(test.wanted...)) != test.want {
				t.Errorf("want %v", test.want)
			}
		})
	}
}

func TestReferences(t *testing.T) {
	runtime := everyRuntime()
	runtime.EnvFrom = append(runtime.EnvFrom, v2beta2.RuntimeEnvSource{Prefix: "AGAIN_", SecretRef: &v2beta2.RuntimeObject{Name: "proxy"}})
	runtime.Env = envOf(nil, &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}, fromSecret("token"), fromConfigMap("limits"), fromSecret("token"))
	if diff := cmp.Diff([]Reference{
		{"env", "ConfigMap", "limits"}, {"env", "Secret", "token"}, {"envFrom", "ConfigMap", "settings"}, {"envFrom", "Secret", "proxy"}, {"imagePullSecrets", "Secret", "registry"},
		{"volumes", "ConfigMap", "krb5"}, {"volumes", "PersistentVolumeClaim", "wheels"}, {"volumes", "Secret", "keytab"},
	}, References(&runtime)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The labels of the operator, its default container and its own mounts stay as they are, whatever is set.
func TestPodSettingsReachTheDeployment(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	plain := find[*appsv1.Deployment](t, install(t, c, o)).Spec.Template
	every := everyRuntime()
	every.Image = o.Runtime.Image
	every.PodLabels[LabelDomain], every.PodAnnotations[defaultContainer] = "other", "other"
	o.Runtime = every
	objects := install(t, c, o)
	pod := find[*appsv1.Deployment](t, objects).Spec.Template
	want := plain.DeepCopy()
	want.Labels["team"] = "mainframe"
	want.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false"
	want.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	want.Spec.PriorityClassName, want.Spec.TopologySpreadConstraints = "important", every.TopologySpreadConstraints
	want.Spec.Volumes = append(want.Spec.Volumes, userVolumes(every)...)
	want.Spec.Containers[0].VolumeMounts = append(want.Spec.Containers[0].VolumeMounts, userMounts(every)...)
	want.Spec.Containers[0].EnvFrom = envFrom(every)
	if diff := cmp.Diff(*want, pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(every.ServiceAccountAnnotations, find[*corev1.ServiceAccount](t, objects).Annotations); diff != "" {
		t.Errorf("annotations of the ServiceAccount (-want +got):\n%s", diff)
	}
}

func TestDependenciesGetVariablesAndVolumes(t *testing.T) {
	c, o := loadCollection(t, "everything"), testOptions(model.Group)
	every := everyRuntime()
	every.Image = o.Runtime.Image
	o.Runtime = every
	pod := find[*appsv1.Deployment](t, install(t, c, o)).Spec.Template.Spec
	i := slices.IndexFunc(pod.InitContainers, func(c corev1.Container) bool { return c.Name == DependenciesContainer })
	if i < 0 {
		t.Fatal("no container for dependencies")
	}
	if diff := cmp.Diff(envFrom(every), pod.InitContainers[i].EnvFrom); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	mounts := pod.InitContainers[i].VolumeMounts
	if diff := cmp.Diff(userMounts(every), mounts[len(mounts)-1:]); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestMountsNeedTheirVolumes(t *testing.T) {
	c, o := testCollection("1.0.0"), testOptions(model.Group)
	o.Runtime.VolumeMounts = []v2beta2.RuntimeVolumeMount{{Name: "content", MountPath: "/mnt/content"}}
	const want = `/mnt/content mounts volume "content", which is not in runtime.volumes`
	if _, err := Installation(c, o); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
	if _, err := Subscribed(c, o, testSubscription(o)); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("with the Operator Lifecycle Manager: error %v", err)
	}
}

func TestMergePodSettings(t *testing.T) {
	base := everyRuntime()
	override := v2beta2.RuntimeSpec{
		EnvFrom:                   []v2beta2.RuntimeEnvSource{{SecretRef: &v2beta2.RuntimeObject{Name: "proxy"}}, {SecretRef: &v2beta2.RuntimeObject{Name: "more"}}},
		ImagePullSecrets:          []v2beta2.RuntimeObject{{Name: "registry"}, {Name: "other"}},
		Volumes:                   []v2beta2.RuntimeVolume{{Name: "wheels", EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		VolumeMounts:              []v2beta2.RuntimeVolumeMount{{Name: "scratch", MountPath: "/mnt/wheels"}},
		ServiceAccountAnnotations: map[string]string{"a": "1"},
		PodAnnotations:            map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"},
		PodLabels:                 map[string]string{"stage": "prod"},
		PriorityClassName:         "other",
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{},
	}
	before := base.DeepCopy()
	want := v2beta2.RuntimeSpec{
		EnvFrom:                   []v2beta2.RuntimeEnvSource{base.EnvFrom[0], override.EnvFrom[0], override.EnvFrom[1]},
		ImagePullSecrets:          []v2beta2.RuntimeObject{{Name: "registry"}, {Name: "other"}},
		Volumes:                   append(slices.Clone(base.Volumes[1:]), override.Volumes[0]),
		VolumeMounts:              override.VolumeMounts,
		ServiceAccountAnnotations: map[string]string{"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x", "a": "1"},
		PodAnnotations:            override.PodAnnotations,
		PodLabels:                 map[string]string{"team": "mainframe", "stage": "prod"},
		PriorityClassName:         "other",
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{},
	}
	if diff := cmp.Diff(want, MergeRuntime(&base, &override)); diff != "" {
		t.Errorf("merged (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, &base); diff != "" {
		t.Errorf("the argument was changed:\n%s", diff)
	}
}
