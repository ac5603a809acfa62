package manager

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
)

func TestProfilingAddress(t *testing.T) {
	for address, valid := range map[string]bool{
		"": true, "127.0.0.1:6060": true, "[::1]:0": true,
		":6060": false, "0.0.0.0:6060": false, "localhost:6060": false, "10.0.0.1:6060": false, "127.0.0.1": false,
	} {
		if err := checkProfiling(address); (err == nil) != valid {
			t.Errorf("%q: got %v", address, err)
		}
	}
}

func TestRuntimeDefaults(t *testing.T) {
	settings := render.Settings{RuntimeImage: "image:1"}
	defaults := runtimeDefaults{text: "priorityClassName: important\nimagePullSecrets: [{name: registry}]\n"}
	if err := defaults.apply(&settings); err != nil {
		t.Fatal(err)
	}
	want := v2beta2.RuntimeSpec{Image: "image:1", PriorityClassName: "important", ImagePullSecrets: []v2beta2.RuntimeObject{{Name: "registry"}}}
	if diff := cmp.Diff(want, settings.Options("ns", "group", "", "/path").Runtime); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"image: x":                                     "image is set by --runtime-image",
		"volumes: [{name: a, hostPath: {}}]":           "hostPath",
		"volumeMounts: [{name: a, mountPath: /mnt/a}]": "which is not in runtime.volumes",
		"[": "--runtime-defaults: ",
		"volumes: [{name: a, secret: {secretName: s, optional: true}}]":                    "cannot be optional",
		"{volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /usr}]}": "would hide a directory",
		"podLabels: {operator-name: x}":                                                    "by which operators are found",
		"maxRetries: 101":                                                                  "spec.runtime.maxRetries",
	} {
		if err := (&runtimeDefaults{text: text}).apply(&settings); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
