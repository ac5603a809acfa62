package author

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/alpha/declcfg"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

// readCatalog loads a file-based catalog as OLM does.
func readCatalog(t *testing.T, text string) *declcfg.DeclarativeConfig {
	t.Helper()
	read, err := declcfg.LoadReader(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := declcfg.ConvertToModel(*read); err != nil {
		t.Fatal(err)
	}
	return read
}

// nextVersion is the collection of files in version 1.1.0.
func nextVersion(t *testing.T) string {
	t.Helper()
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "operator-config.yml"), "version: 1.0.0", "version: 1.1.0")
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "version: 1.0.0", "version: 1.1.0")
	return folder
}

func TestCatalogIsTheSameAsYAMLAndJSONFromFolderAndArchive(t *testing.T) {
	file, _, _ := strings.Cut(mustRun(t, kit.ExitClean, "build", clitest.FilesCollection, "--output", t.TempDir()), " ")
	fromArchive := mustRun(t, kit.ExitClean, "catalog", file)
	if fromFolder := mustRun(t, kit.ExitClean, "catalog", clitest.FilesCollection); fromFolder != fromArchive {
		t.Errorf("folder and archive differ (-archive +folder):\n%s", cmp.Diff(fromArchive, fromFolder))
	}
	stream := mustRun(t, kit.ExitClean, "catalog", file, "--output", "json")
	if !strings.HasPrefix(stream, "{\n") {
		t.Errorf("JSON begins with %.20s", stream)
	}
	if diff := cmp.Diff(readCatalog(t, fromArchive), readCatalog(t, stream)); diff != "" {
		t.Errorf("YAML and JSON differ (-yaml +json):\n%s", diff)
	}
}

func TestCatalogHasAChannelPerVersion(t *testing.T) {
	const everything = "../../../internal/collection/render/testdata/collections/everything"
	catalog := readCatalog(t, mustRun(t, kit.ExitClean, "catalog", nextVersion(t), everything, clitest.FilesCollection))
	got := map[string]string{}
	for _, channel := range catalog.Channels {
		var entries []string
		for _, entry := range channel.Entries {
			entries = append(entries, fmt.Sprint(entry.Name, " replaces ", entry.Replaces, " skips ", entry.SkipRange))
		}
		got[channel.Package+" "+channel.Name] = strings.Join(entries, "\n")
	}
	const (
		files = "example-zos-files-operator"
		old   = files + ".v1.0.0 replaces  skips <1.0.0"
		both  = old + "\n" + files + ".v1.1.0 replaces " + files + ".v1.0.0 skips <1.1.0"
		rest  = "acme-example-every-thing-operator"
		other = rest + ".v2.0.0-rc.1 replaces  skips <2.0.0-rc.1"
	)
	want := map[string]string{
		files + " stable": both, files + " v1.0.0": old, files + " v1.1.0": both,
		rest + " stable": other, rest + " v2.0.0-rc.1": other,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("channels differ (-want +got):\n%s", diff)
	}
}

func TestCatalogTakesTheManagersFlags(t *testing.T) {
	catalog := readCatalog(t, mustRun(t, kit.ExitClean, "catalog", clitest.FilesCollection, "--runtime-image", "registry.example/runtime:2",
		"--runtime-architectures", "s390x", "--api-group", "PerCollection"))
	for _, want := range []string{
		`"image":"registry.example/runtime:2"`, `"operatorframework.io/arch.s390x":"supported"`, `"datafiles.zos-files.example.suboperator.zoscb.ibm.com"`,
	} {
		if !strings.Contains(catalog.Bundles[0].CsvJSON, want) {
			t.Errorf("%s is not in the ClusterServiceVersion", want)
		}
	}
	if strings.Contains(catalog.Bundles[0].CsvJSON, "amd64") {
		t.Error("a default architecture is there beside the given one")
	}
}

// Half a catalog is none.
func TestCatalogPrintsNothingIfABundleIsRefused(t *testing.T) {
	folder := clitest.CopyCollection(t, clitest.FilesCollection)
	clitest.Edit(t, filepath.Join(folder, "galaxy.yml"), "managed from", "kept by")
	code, stdout, stderr := tool(t, "catalog", clitest.FilesCollection, folder)
	if want := folder + ": VersionConflict: example-zos-files-operator.v1.0.0 "; code != kit.ExitFindings || stdout != "" || !strings.HasPrefix(stderr, want) {
		t.Errorf("ended with %d and printed %q, %q; want %q", code, stdout, stderr, want)
	}
	clitest.Write(t, filepath.Join(folder, "operator-config.yml"), "domain: x\n")
	code, stdout, stderr = tool(t, "catalog", clitest.FilesCollection, folder)
	if code != kit.ExitFindings || stdout != "" || !strings.Contains(stderr, "a cluster refuses this collection") {
		t.Errorf("ended with %d and printed %q, %q", code, stdout, stderr)
	}
}

func TestCatalogRefusesFlags(t *testing.T) {
	for _, flag := range []string{"--output=xml", "--api-group=Mine", "--runtime-image="} {
		code, stdout, stderr := tool(t, "catalog", clitest.FilesCollection, flag)
		if name, _, _ := strings.Cut(flag, "="); code != kit.ExitFailure || stdout != "" || !strings.Contains(stderr, name) {
			t.Errorf("%s: ended with %d and printed %q", flag, code, stderr)
		}
	}
}
