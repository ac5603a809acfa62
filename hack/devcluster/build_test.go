package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

func TestComponentsHaveStamps(t *testing.T) {
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

func TestProgramsOfKubernetesHaveItsVersion(t *testing.T) {
	goMod := []byte("module x\n\nrequire k8s.io/kubernetes v1.36.3\n")
	if got := linkerFlags(goMod); !strings.Contains(got, "-X k8s.io/component-base/version.gitVersion=v1.36.3 -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36 ") {
		t.Errorf("the linker gets %q", got)
	}
	if got := linkerFlags([]byte("module x\n")); got != "-s -w" {
		t.Errorf("without Kubernetes the linker gets %q", got)
	}
}

func TestNamesOfBinaries(t *testing.T) {
	for c, want := range map[component]string{etcd: "server", coreDNS: "coredns", kubelet: "kubelet", olmComponents[1]: "catalog"} {
		if got := c.output(); got != want {
			t.Errorf("go names the binary of %s %q, want %q", c.pkg, got, want)
		}
	}
}
