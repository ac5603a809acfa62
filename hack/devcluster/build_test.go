package main

import (
	"os"
	"path/filepath"
	"regexp"
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
	for _, c := range slices.Concat(controlPlaneComponents, nodeComponents, olmComponents) {
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

// The product and the cluster share Kubernetes' libraries and others: where the versions are equal, a package is compiled once for both.
func TestTheClusterHasTheVersionsOfTheProduct(t *testing.T) {
	p, err := findProject()
	if err != nil {
		t.Fatal(err)
	}
	product, cluster := moduleVersions(t, filepath.Join(p.root, "go.mod")), moduleVersions(t, p.source(clusterFolder, "go.mod"))
	if len(product) < 50 || len(cluster) < 50 {
		t.Fatalf("read %d and %d modules", len(product), len(cluster))
	}
	for module, version := range cluster {
		if want, shared := product[module]; shared && version != want {
			t.Errorf("%s is %s in %s and %s in the product's go.mod", module, version, clusterFolder, want)
		}
	}
}

// moduleVersions returns the versions of a go.mod's modules, after replacements.
func moduleVersions(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, match := range requireLine.FindAllSubmatch(content, -1) {
		versions[string(match[1])] = string(match[2])
	}
	for _, match := range regexp.MustCompile(`(?m)^\s*(\S+) => \S+ (v\S+)$`).FindAllSubmatch(content, -1) {
		versions[string(match[1])] = string(match[2])
	}
	return versions
}

func TestTail(t *testing.T) {
	for text, want := range map[string]string{"a\nb\nc\n": "b\nc", "a": "a", "": ""} {
		if got := tail(text, 2); got != want {
			t.Errorf("tail(%q) = %q, want %q", text, got, want)
		}
	}
}
