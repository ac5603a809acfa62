package main

import (
	"os"
	"slices"
	"testing"
)

func TestRequiredVersion(t *testing.T) {
	goMod := []byte("module x\n\nrequire k8s.io/kubernetes v1.36.3\n\nrequire (\n\tk8s.io/api v0.36.3 // indirect\n)\n\nreplace k8s.io/api => k8s.io/api v0.0.1\n")
	for module, want := range map[string]string{"k8s.io/kubernetes": "v1.36.3", "k8s.io/api": "v0.36.3", "k8s.io/missing": ""} {
		got, err := requiredVersion(goMod, module)
		if got != want || (err != nil) != (want == "") {
			t.Errorf("requiredVersion(%s) = %q, %v", module, got, err)
		}
	}
}

func TestComponentsHaveStampsAndVersions(t *testing.T) {
	p, err := findProject()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range slices.Concat(controlPlaneComponents, nodeComponents, oldestComponents, olmComponents) {
		if _, err := os.Stat(p.source(c.folder, "go.mod")); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if _, err := c.stamp(p); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if c.version == "" {
			continue
		}
		if _, err := c.versionFlags(p); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestTail(t *testing.T) {
	for text, want := range map[string]string{"a\nb\nc\n": "b\nc", "a": "a", "": ""} {
		if got := tail(text, 2); got != want {
			t.Errorf("tail(%q) = %q, want %q", text, got, want)
		}
	}
}
