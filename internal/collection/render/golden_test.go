package render

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

var update = flag.Bool("update", false, "rewrite testdata/golden")

var testRecordKey = bytes.Repeat([]byte{7}, gate.RecordKeyBytes)

const testDigest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func loadCollection(t *testing.T, name string) *model.Collection {
	t.Helper()
	c, err := model.Load(os.DirFS(filepath.Join("testdata", "collections", name)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func testOptions(group string) InstallationOptions {
	return InstallationOptions{
		Namespace:      "zos",
		Group:          group,
		Digest:         testDigest,
		ArtifactURL:    "http://artifacts.example.svc:8080/" + testDigest,
		ArtifactServer: ArtifactServer{Namespace: "managers", Port: 8090},
		Runtime:        v2beta2.RuntimeSpec{Image: "registry.example/runtime:1"},
		Architectures:  []string{"s390x", "amd64"},
	}
}

// TestGolden compares every object that is rendered for the collections under testdata with the files under
// testdata/golden, and finds files that nothing renders any more.
func TestGolden(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join("testdata", "collections"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			c := loadCollection(t, folder.Name())
			options := testOptions(c.Group(folder.Name() == "everything"))
			if folder.Name() == "everything" {
				every := everyRuntime()
				every.NetworkPolicy = testPolicy()
				options.Runtime = MergeRuntime(&options.Runtime, &every)
				options.TrustedAuthorities, options.Environment = "PEM of a site's authority\n", "HTTPS_PROXY=http://proxy.example:3128\n"
			}
			got := renderAll(t, c, options)
			if again := renderAll(t, c, options); !maps.Equal(got, again) {
				t.Errorf("rendered twice, with a difference:\n%s", cmp.Diff(got, again))
			}
			golden := filepath.Join("testdata", "golden", folder.Name())
			if *update {
				writeGolden(t, golden, got)
			}
			if diff := cmp.Diff(readGolden(t, golden), got); diff != "" {
				t.Errorf("rendered objects differ from %s (-want +got); -update rewrites it:\n%s", golden, diff)
			}
		})
	}
	var orphans []string
	golden, _ := os.ReadDir(filepath.Join("testdata", "golden"))
	for _, folder := range golden {
		if !slices.ContainsFunc(folders, func(e os.DirEntry) bool { return e.Name() == folder.Name() }) {
			orphans = append(orphans, folder.Name())
		}
	}
	if len(orphans) > 0 {
		t.Errorf("testdata/golden has folders without a collection: %v", orphans)
	}
}

// Every collection that loads can be rendered, also if it breaks rules, and its CRDs are valid.
func TestWhatLoadsIsRendered(t *testing.T) {
	shapes, err := filepath.Glob("../../author/lint/testdata/shapes/*/operator-config.y*")
	if err != nil || len(shapes) == 0 {
		t.Fatal("no collections found", err)
	}
	for _, config := range shapes {
		t.Run(filepath.Base(filepath.Dir(config)), func(t *testing.T) {
			c, err := model.Load(os.DirFS(filepath.Dir(config)))
			if err != nil {
				t.Fatal(err)
			}
			renderAll(t, c, testOptions(c.Group(false)))
		})
	}
}

// renderAll returns everything that is rendered for c as YAML, by file name. The names keep the order of application.
func renderAll(t *testing.T, c *model.Collection, o InstallationOptions) map[string]string {
	t.Helper()
	crds, err := CRDs(c, o.Group)
	if err != nil {
		t.Fatal(err)
	}
	var objects []Object
	for _, crd := range crds {
		validateCRD(t, crd)
		objects = append(objects, crd)
	}
	o.Endpoints = []Endpoint{
		{Name: "zos1", Host: "zos1.example.com", User: "IBMUSER", HostKeys: []string{"ssh-ed25519 AAAA"}, PrivateKey: []byte("key"), CredentialID: "id1"},
		{Name: "zos2", Host: "198.51.100.7", Port: 2022, User: "IBMUSER", HostKeys: []string{"ssh-ed25519 AAAA"}, Password: []byte("password"), CredentialID: "id2"},
		{Name: "pod", Local: true},
	}
	installation, err := Installation(c, o)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := EndpointsSecret(c, "zos", "team", o.Endpoints, Lasting{RecordKey: testRecordKey, Kept: []byte(`["former"]`)})
	if err != nil {
		t.Fatal(err)
	}
	csv, err := ClusterServiceVersion(c, testCSVOptions(o.Group))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for i, object := range append(append(objects, installation...), secret, csv) {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		if kind == "" || object.GetName() == "" {
			t.Errorf("object %d has no kind or name: %v", i, object)
		}
		text, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.ReplaceAll(object.GetName(), ":", "_")
		files[fmt.Sprintf("%02d-%s-%s.yaml", i, strings.ToLower(kind), name)] = string(text)
	}
	return files
}

func writeGolden(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func readGolden(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = string(text)
	}
	return files
}

// validateCRD validates a CRD like the API server, and checks that defaulting does not change it: otherwise a rendered CRD
// would always differ from the live one.
func validateCRD(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	internal := &apiextensions.CustomResourceDefinition{}
	defaulted := crd.DeepCopy()
	apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(defaulted)
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(defaulted, internal, nil); err != nil {
		t.Fatal(err)
	}
	for _, problem := range validation.ValidateCustomResourceDefinition(context.Background(), internal) {
		t.Errorf("%s: %v", crd.Name, problem)
	}
	stored := &apiextensionsv1.CustomResourceDefinition{TypeMeta: crdTypeMeta}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(internal, stored, nil); err != nil {
		t.Fatal(err)
	}
	wire, err := json.Marshal(stored)
	if err != nil {
		t.Fatal(err)
	}
	read := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(wire, read); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(crd.Spec, read.Spec); diff != "" {
		t.Errorf("%s: the API server changes it (-sent +stored):\n%s", crd.Name, diff)
	}
}

func find[T Object](t *testing.T, objects []Object) T {
	t.Helper()
	for _, object := range objects {
		if found, ok := object.(T); ok {
			return found
		}
	}
	var none T
	t.Fatalf("no %T among the objects", none)
	return none
}
