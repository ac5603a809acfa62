package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"sigs.k8s.io/yaml"
)

const (
	chartFolder = "../../charts/collection-operator"
	// elsewhere is not the namespace of the manifests.
	elsewhere = "elsewhere"
)

// committed is the chart in the repository.
var committed = sync.OnceValues(func() (*chart.Chart, error) { return loader.Load(chartFolder) })

// selected are the values that select a component as it is in config/components.
var selected = map[string]string{
	"administrators-only":  `administratorsOnly: true`,
	"allowed-images":       `allowedImages: [registry.example.com/zos/, registry.example.com/collection-operator/]`,
	"ephemeral-storage":    `persistence: {enabled: false}`,
	"monitoring":           `monitoring: {enabled: true}`,
	"olm":                  `olm: {enabled: true}`,
	"operands":             `operands: {enabled: true}`,
	"require-verification": `requireVerification: true`,
	"selected-namespaces":  `namespaces: [zos]`,
	"single-manager":       `replicas: 1`,
}

// built are the manifests in the repository.
var built = sync.OnceValues(func() (source, error) {
	m, err := readManifests("../../config")
	if err != nil {
		return source{}, err
	}
	return readSource(m)
})

func sourceOf(t *testing.T) source {
	t.Helper()
	s, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// required are the images of the manifests.
func required(t *testing.T) string {
	t.Helper()
	s := sourceOf(t)
	value := func(object, path string) string {
		name, err := lookup(s.base, append([]string{object}, strings.Split(path, ".")...))
		if err != nil {
			t.Fatal(err)
		}
		i := parseImage(name.(string))
		return fmt.Sprintf("{repository: %q, tag: %q}", i.repository, i.tag)
	}
	return fmt.Sprintf("{image: %s, runtime: {image: %s}}", value(statefulSet, "spec.template.spec.containers.manager.image"), value(statefulSet, runtimeImagePath))
}

// parse joins values, the last of which has precedence.
func parse(t *testing.T, texts ...string) map[string]any {
	t.Helper()
	joined := map[string]any{}
	for _, text := range texts {
		var values map[string]any
		if err := yaml.Unmarshal([]byte(text), &values); err != nil {
			t.Fatal(err)
		}
		joined = chartutil.MergeTables(values, joined)
	}
	return joined
}

// render returns the objects that Helm installs, by kind, namespace and name.
func render(c *chart.Chart, values map[string]any) (map[string]any, error) {
	release := chartutil.ReleaseOptions{Name: "zos", Namespace: elsewhere, IsInstall: true, Revision: 1}
	all, err := chartutil.ToRenderValues(c, values, release, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	objects := map[string]any{}
	for name, text := range files {
		if strings.HasSuffix(name, "NOTES.txt") {
			continue
		}
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			var object map[string]any
			if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, document)
			}
			if object == nil {
				continue
			}
			id := identity(object)
			if objects[id] != nil {
				return nil, fmt.Errorf("%s is rendered twice", id)
			}
			objects[id] = object
		}
	}
	return objects, nil
}

func identity(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	ns, _ := metadata["namespace"].(string)
	return fmt.Sprintf("%v/%s/%v", object["kind"], ns, metadata["name"])
}

func mustRender(t *testing.T, values ...string) map[string]any {
	t.Helper()
	c, err := committed()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := render(c, parse(t, append([]string{required(t)}, values...)...))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// expected returns what kustomize builds with components, in the release's namespace.
func expected(t *testing.T, m manifests, folders []string) map[string]any {
	t.Helper()
	built, err := m.build(folders...)
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]any{}
	for id, object := range built {
		if strings.HasPrefix(id, "Namespace/") {
			continue
		}
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		var moved map[string]any
		if err := json.Unmarshal(bytes.ReplaceAll(text, []byte(namespace), []byte(elsewhere)), &moved); err != nil {
			t.Fatal(err)
		}
		objects[identity(moved)] = moved
	}
	settings := objects["ConfigMap/"+elsewhere+"/collection-operator-settings"].(map[string]any)
	if settings["data"] == nil {
		settings["data"] = map[string]any{}
	}
	if slices.Contains(folders, "selected-namespaces") {
		binding := maps.Clone(objects["RoleBinding/"+elsewhere+"/collection-operator-manager"].(map[string]any))
		binding["metadata"] = map[string]any{"name": "collection-operator-manager", "namespace": "zos"}
		objects[identity(binding)] = binding
		settings["data"].(map[string]any)["namespaces"] = "zos"
	}
	return objects
}

// takeAdditions removes what the chart adds to the manifests, and fails if it is missing.
func takeAdditions(t *testing.T, objects map[string]any) {
	t.Helper()
	remove := func(id, annotation string, path ...string) {
		annotations, err := lookup(objects, append([]string{id}, path...))
		if err != nil {
			t.Fatal(err)
		}
		if annotations.(map[string]any)[annotation] == nil {
			t.Errorf("%s has no annotation %s", id, annotation)
		}
		delete(annotations.(map[string]any), annotation)
	}
	for id := range objects {
		if strings.HasPrefix(id, "CustomResourceDefinition/") {
			remove(id, "helm.sh/resource-policy", "metadata", "annotations")
		}
	}
}

func sourceManifests(t *testing.T) manifests {
	t.Helper()
	m, err := readManifests("../../config")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDefaultIsWhatKustomizeBuilds(t *testing.T) {
	objects := mustRender(t)
	takeAdditions(t, objects)
	if diff := cmp.Diff(expected(t, sourceManifests(t), nil), objects); diff != "" {
		t.Errorf("config/default (-) and the chart (+) differ: run make generate\n%s", diff)
	}
}

// Each component, each two, and all together, without the CRDs, of which no component changes any.
func TestComponentsAreWhatKustomizeBuilds(t *testing.T) {
	m := sourceManifests(t)
	if err := m.files.WriteFile("/config/default/kustomization.yaml", []byte("resources: [../rbac, ../policy, ../manager]\n")); err != nil {
		t.Fatal(err)
	}
	folders, err := m.componentFolders()
	if err != nil {
		t.Fatal(err)
	}
	combinations := [][]string{folders}
	for i, one := range folders {
		combinations = append(combinations, []string{one})
		for _, other := range folders[i+1:] {
			combinations = append(combinations, []string{one, other})
		}
	}
	for _, combination := range combinations {
		t.Run(strings.Join(combination, "+"), func(t *testing.T) {
			values := []string{`crds: {install: false}`}
			for _, folder := range combination {
				if selected[folder] == "" {
					t.Fatalf("component %s has no values in this test", folder)
				}
				values = append(values, selected[folder])
			}
			objects := mustRender(t, values...)
			takeAdditions(t, objects)
			want := expected(t, m, combination)
			maps.DeleteFunc(want, func(id string, _ any) bool { return strings.HasPrefix(id, "CustomResourceDefinition/") })
			if diff := cmp.Diff(want, objects); diff != "" {
				t.Errorf("the components (-) and the chart (+) differ: run make generate\n%s", diff)
			}
		})
	}
}

var inCluster = regexp.MustCompile(`collection-operator-system|<no value>`)

func TestNamespaceOfTheRelease(t *testing.T) {
	var all []string
	for _, folder := range slices.Sorted(maps.Keys(selected)) {
		all = append(all, selected[folder])
	}
	text, err := yaml.Marshal(mustRender(t, all...))
	if err != nil {
		t.Fatal(err)
	}
	if found := inCluster.FindString(string(text)); found != "" {
		t.Errorf("the rendered objects contain %s", found)
	}
}
