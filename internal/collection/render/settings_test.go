package render

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
)

// readManifest reads the object in a file of config/manager.
func readManifest(t *testing.T, name string, into any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../../config/manager", name))
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
	var manager appsv1.StatefulSet
	readManifest(t, "manager.yaml", &manager)
	container := manager.Spec.Template.Spec.Containers[0]
	flags := map[string]string{}
	for _, arg := range container.Args {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	server := ArtifactServer{Namespace: manager.Namespace}
	for _, port := range container.Ports {
		switch port.Name {
		case "artifacts":
			server.Port = port.ContainerPort
		case "artifacts-http":
			server.HTTPPort = port.ContainerPort
		}
	}
	if manager.Spec.Template.Labels[v2beta2.ManagerLabel] != v2beta2.ManagerLabelValue {
		t.Errorf("the manager's pod cannot be found by its labels %v", manager.Spec.Template.Labels)
	}
	values := map[string]string{}
	for _, variable := range container.Env {
		values[variable.Name] = variable.Value
		if variable.ValueFrom != nil && variable.ValueFrom.ConfigMapKeyRef != nil {
			t.Errorf("variable %s comes from a ConfigMap: the next pod does not start when somebody removes the key", variable.Name)
		}
	}
	for _, name := range []string{"POD_NAMESPACE", "POD_NAME"} {
		if _, isSet := values[name]; !isSet {
			t.Errorf("nothing sets the manager's variable %s", name)
		}
	}
	want := Settings{
		RuntimeImage:   values["RUNTIME_IMAGE"],
		Architectures:  strings.Split(values["RUNTIME_ARCHITECTURES"], ","),
		ArtifactServer: server,
	}
	if err := want.SetArtifactURL(strings.Replace(flags["--artifact-url"], "$(POD_NAMESPACE)", manager.Namespace, 1)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, DefaultSettings()); diff != "" {
		t.Errorf("the defaults differ from config/manager (-config +got):\n%s", diff)
	}
}

func TestSetArtifactURL(t *testing.T) {
	for text, want := range map[string][2]string{
		"http://archives":           {"http://archives", ""},
		"https://archives/":         {"http://archives", "https://archives"},
		"https://archives:8443/sub": {"http://archives/sub", "https://archives:8443/sub"},
		"https://[2001:db8::1]:443": {"http://[2001:db8::1]", "https://[2001:db8::1]:443"},
	} {
		s := Settings{ArtifactServer: ArtifactServer{HTTPPort: 8090}}
		if err := s.SetArtifactURL(text); err != nil || s.ArtifactURL != want[0] || s.ArtifactTLSURL != want[1] {
			t.Errorf("%s: got %q, %q, %v", text, s.ArtifactURL, s.ArtifactTLSURL, err)
		}
		s.ArtifactServer.HTTPPort = 0
		if err := s.SetArtifactURL(text); err != nil || s.ArtifactURL != strings.TrimSuffix(text, "/") {
			t.Errorf("%s without HTTP: got %q, %v", text, s.ArtifactURL, err)
		}
	}
	for _, text := range []string{"", "ftp://x", "x", "https://", "http://a b"} {
		if (&Settings{}).SetArtifactURL(text) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// Where a new pod finds its archive and whom it trusts must not replace a pod that runs.
func TestAuthoritiesDoNotReplacePods(t *testing.T) {
	data := map[string]string{KeyDigest: "sha256:1", KeyArtifactURL: "http://archives"}
	before := runtimeHash(data, nil)
	data[KeyArtifactTLSURL], data[KeyArtifactAuthorities] = "https://archives", "certificates"
	if runtimeHash(data, nil) != before {
		t.Error("the hash changed")
	}
	data[KeyDigest] = "sha256:2"
	if runtimeHash(data, nil) == before {
		t.Error("the hash did not change with the archive")
	}
}
