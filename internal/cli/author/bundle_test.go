package author

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/api/pkg/manifests"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestBundleIsReadByOperatorFramework(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	printed := mustRun(t, kit.ExitClean, "bundle", clitest.FilesCollection, "--output", dir, "--runtime-image", "registry.example/runtime:2",
		"--runtime-architectures", "s390x", "--api-group", "PerCollection")
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if bundle.Package != "example-zos-files-operator" || bundle.DefaultChannel != "stable" || !slices.Equal(bundle.Channels, []string{"stable", "v1.0.0"}) {
		t.Errorf("package %s, default channel %s, channels %v", bundle.Package, bundle.DefaultChannel, bundle.Channels)
	}
	csv := bundle.CSV
	if images := csv.Spec.RelatedImages; csv.Name != "example-zos-files-operator.v1.0.0" || len(images) != 1 || images[0].Image != "registry.example/runtime:2" {
		t.Errorf("%s has the images %v", csv.Name, images)
	}
	if labels := csv.Labels; labels["operatorframework.io/arch.s390x"] != "supported" || labels["operatorframework.io/arch.amd64"] != "" {
		t.Errorf("labels are %v", labels)
	}
	var owned, crds []string
	for _, kind := range csv.Spec.CustomResourceDefinitions.Owned {
		owned = append(owned, kind.Name+" "+kind.Version)
	}
	for _, crd := range bundle.V1CRDs {
		crds = append(crds, crd.Name+" "+crd.Spec.Versions[0].Name)
	}
	slices.Sort(owned)
	slices.Sort(crds)
	if diff := cmp.Diff(owned, crds); diff != "" || len(crds) != 3 || !strings.HasSuffix(crds[0], ".zos-files.example.suboperator.zoscb.ibm.com v1minor0patch0") {
		t.Errorf("CustomResourceDefinitions differ (-owned +there):\n%s", diff)
	}
	// A dependency on the manager's kinds is one that OLM cannot resolve where the manager was installed without OLM.
	if diff := cmp.Diff([]string{"annotations.yaml"}, clitest.Names(t, filepath.Join(dir, "metadata"))); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	dockerfile, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"FROM scratch", "LABEL operators.operatorframework.io.bundle.package.v1=example-zos-files-operator", "COPY manifests /manifests/", "COPY metadata /metadata/"} {
		if !strings.Contains(string(dockerfile), line+"\n") {
			t.Errorf("the Dockerfile has no line %q:\n%s", line, dockerfile)
		}
	}
	for _, file := range strings.Fields(printed) {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"\nstatus:", "creationTimestamp: null"} {
			if strings.Contains(string(content), field) {
				t.Errorf("%s holds %q", file, field)
			}
		}
	}
}

// The version that operator-config replaces is the one that OLM upgrades.
func TestBundleReplaces(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "operator-config.yml"), "\nresources:", "\nreplaces: example-zos-files-operator.v0.9.0\nresources:")
	for name, want := range map[string]string{clitest.FilesCollection: "", folder: "example-zos-files-operator.v0.9.0"} {
		dir := filepath.Join(t.TempDir(), "bundle")
		mustRun(t, kit.ExitClean, "bundle", name, "--output", dir)
		bundle, err := manifests.GetBundleFromDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := bundle.CSV.Spec.Replaces; got != want {
			t.Errorf("%s: replaces %q, want %q", name, got, want)
		}
	}
}

func TestBundleIsTheSameFromFolderAndArchive(t *testing.T) {
	dir := t.TempDir()
	archive, _, _ := strings.Cut(mustRun(t, kit.ExitClean, "build", clitest.FilesCollection, "--output", dir), " ")
	content := func(path, output string) map[string]string {
		files := map[string]string{}
		output = filepath.Join(dir, output)
		for _, file := range strings.Fields(mustRun(t, kit.ExitClean, "bundle", path, "--output", output)) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			files[strings.TrimPrefix(file, output)] = string(text)
		}
		return files
	}
	if diff := cmp.Diff(content(archive, "a"), content(clitest.FilesCollection, "b")); diff != "" {
		t.Errorf("bundles differ (-archive +folder):\n%s", diff)
	}
}

// The guide shows what is printed.
func TestBundlePrintsItsFiles(t *testing.T) {
	folder, err := filepath.Abs(clitest.FilesCollection)
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../docs/kubectl-collection.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	printed := mustRun(t, kit.ExitClean, "bundle", folder, "--output", "bundle")
	if !strings.Contains(string(guide), "--output bundle\n"+printed) {
		t.Errorf("docs/kubectl-collection.md does not show what bundle prints:\n%s", printed)
	}
	if info, err := os.Stat("bundle"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("bundle is %v, %v", info, err)
	}
}

func TestBundleTakesAnEmptyFolderAndNoOther(t *testing.T) {
	dir := t.TempDir()
	output := filepath.Join(dir, "bundle")
	if err := os.Mkdir(output, 0o700); err != nil {
		t.Fatal(err)
	}
	mustRun(t, kit.ExitClean, "bundle", clitest.FilesCollection, "--output", output)
	for path, want := range map[string]string{
		output: "is not empty", filepath.Join(output, "metadata", "annotations.yaml"): "not a directory", filepath.Join(dir, "a", "b"): "no such file",
	} {
		code, stdout, stderr := tool(t, "bundle", clitest.FilesCollection, "--output", path)
		if code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: ended with %d: %s%s", path, code, stdout, stderr)
		}
	}
	if got := clitest.Names(t, dir); !slices.Equal(got, []string{"bundle"}) {
		t.Errorf("left behind: %v", got)
	}
}

// What is wrong is said, and nothing is left.
func TestInvalidBundleIsNotWritten(t *testing.T) {
	s, err := LoadSource(clitest.FilesCollection)
	if err != nil {
		t.Fatal(err)
	}
	o := operatorOptions{apiGroup: "Shared", image: "registry.example/runtime:2"}
	files, err := o.bundleFiles(s)
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f bundleFile) bool { return strings.Contains(f.path, "datafiles") })
	dir := t.TempDir()
	err = writeBundle(filepath.Join(dir, "bundle"), files)
	if err == nil || !strings.Contains(err.Error(), "Kind=DataFile") {
		t.Errorf("got %v", err)
	}
	if got := clitest.Names(t, dir); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestBundleRefusesFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--output is not set"},
		{[]string{"--output", "x", "--api-group", "Mine"}, "--api-group"},
		{[]string{"--output", "x", "--runtime-image", ""}, "--runtime-image"},
	} {
		code, stdout, stderr := tool(t, append([]string{"bundle", clitest.FilesCollection}, test.args...)...)
		if code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, test.want) {
			t.Errorf("%q ended with %d and printed %q", test.args, code, stderr)
		}
	}
}
