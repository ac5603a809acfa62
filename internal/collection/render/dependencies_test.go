package render

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func deploymentOf(t *testing.T, objects []Object) corev1.PodSpec {
	t.Helper()
	for _, object := range objects {
		if d, ok := object.(*appsv1.Deployment); ok {
			return d.Spec.Template.Spec
		}
	}
	t.Fatal("there is no Deployment")
	return corev1.PodSpec{}
}

func TestDependenciesContainerOnlyWhereItHasWork(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*model.Collection)
		want   int
	}{
		"nothing":          {func(*model.Collection) {}, 1},
		"requires_ansible": {func(c *model.Collection) { c.Galaxy.RequiresAnsible = ">=2.14" }, 1},
		"a collection": {func(c *model.Collection) {
			c.Dependencies.Collections = []model.Requirement{{Name: "a.b", Type: model.FromGalaxy, Version: "*"}}
		}, 2},
		"a Python package": {func(c *model.Collection) {
			c.Dependencies.Python = []model.PythonRequirements{{File: "requirements.txt", Requirements: []string{"a"}}}
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := loadCollection(t, "minimal")
			c.Galaxy.RequiresAnsible = ""
			test.change(c)
			objects := install(t, c, testOptions(model.Group))
			if pod := deploymentOf(t, objects); len(pod.InitContainers) != test.want {
				t.Errorf("got %d init containers, want %d", len(pod.InitContainers), test.want)
			}
			checks := slices.Contains(deploymentOf(t, objects).InitContainers[0].Env, corev1.EnvVar{Name: CheckDependenciesVariable, Value: "true"})
			if checks != (name == "requires_ansible") {
				t.Errorf("container unpack checks dependencies: %v", checks)
			}
			for _, object := range objects {
				if config, ok := object.(*corev1.ConfigMap); ok && (config.Data[KeyDependencies] != "") != (name != "nothing") {
					t.Errorf("key %s is %q", KeyDependencies, config.Data[KeyDependencies])
				}
			}
		})
	}
}

func TestDependencyCredentialsAreMountedAndNowhereElse(t *testing.T) {
	c := loadCollection(t, "everything")
	o := testOptions(model.Group)
	o.Dependencies = DependencySettings{
		GalaxyURL: "https://hub.example", PipIndexURL: "https://pip.example/simple",
		Credentials: map[string][]byte{KeyGalaxyToken: []byte("t0p-s3cret")},
	}
	objects := install(t, c, o)
	if got := kinds(objects); !slices.Contains(got, "Secret") || slices.Index(got, "Secret") > slices.Index(got, "Deployment") {
		t.Fatalf("got %v, want a Secret before the Deployment", got)
	}
	for _, object := range objects {
		switch object := object.(type) {
		case *corev1.Secret:
			if object.Name != DependenciesSecretName(c) || string(object.Data[KeyGalaxyToken]) != "t0p-s3cret" {
				t.Errorf("unexpected Secret %v", object)
			}
		case *corev1.ConfigMap:
			if text := object.Data[KeyDependencies]; strings.Contains(text, "s3cret") || !strings.Contains(text, `"galaxyURL": "https://hub.example"`) {
				t.Errorf("unexpected plan %s", text)
			}
		}
	}
	pod := deploymentOf(t, objects)
	for _, container := range []corev1.Container{pod.InitContainers[1], pod.Containers[0]} {
		if !slices.ContainsFunc(container.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == dependencySecretDir && m.ReadOnly }) {
			t.Errorf("container %s does not mount the credentials", container.Name)
		}
	}
	if slices.ContainsFunc(pod.InitContainers[0].VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == dependencySecretDir }) {
		t.Error("container unpack mounts the credentials")
	}
}
