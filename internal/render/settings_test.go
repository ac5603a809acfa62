package render

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// readManifest reads the object in a file of config/manager.
func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../config/manager", name))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(content, []byte("\n---\n")) {
		t.Fatalf("%s holds several objects", name)
	}
	if err := yaml.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultSettingsAreThoseOfTheManifests(t *testing.T) {
	var values corev1.ConfigMap
	var manager appsv1.StatefulSet
	readManifest(t, "settings.yaml", &values)
	readManifest(t, "manager.yaml", &manager)
	container := manager.Spec.Template.Spec.Containers[0]
	flags := map[string]string{}
	for _, arg := range container.Args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	server := ArtifactServer{Namespace: manager.Namespace}
	for _, port := range container.Ports {
		if port.Name == "artifacts" {
			server.Port = port.ContainerPort
		}
	}
	if manager.Spec.Template.Labels[ManagerLabel] != ManagerLabelValue {
		t.Errorf("the manager's pod cannot be found by its labels %v", manager.Spec.Template.Labels)
	}
	for _, name := range []string{"POD_NAMESPACE", "POD_NAME"} {
		if !slices.ContainsFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == name }) {
			t.Errorf("nothing sets the manager's variable %s", name)
		}
	}
	want := Settings{
		RuntimeImage:   values.Data["runtimeImage"],
		Architectures:  strings.Split(values.Data["runtimeArchitectures"], ","),
		ArtifactURL:    strings.Replace(flags["--artifact-url"], "$(POD_NAMESPACE)", manager.Namespace, 1),
		ArtifactServer: server,
		Dependencies:   DependencySettings{GalaxyURL: values.Data["galaxyURL"], PipIndexURL: values.Data["pipIndexURL"]},
	}
	if diff := cmp.Diff(want, DefaultSettings()); diff != "" {
		t.Errorf("the defaults differ from config/manager (-config +got):\n%s", diff)
	}
}
