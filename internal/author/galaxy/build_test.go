package galaxy

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

func readTestdata(t testing.TB, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// unpack returns the files of an archive; folders end in a slash.
func unpack(t *testing.T, archive []byte) fstest.MapFS {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for r := tar.NewReader(zipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(header.Name, "/")] = &fstest.MapFile{Data: content, Mode: header.FileInfo().Mode()}
	}
}

func TestBuild(t *testing.T) {
	folder := os.DirFS("../../collection/model/testdata/region")
	var first, second bytes.Buffer
	if err := Build(folder, &first); err != nil {
		t.Fatal(err)
	}
	if err := Build(folder, &second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two builds of one folder differ")
	}
	content := unpack(t, first.Bytes())
	checkManifests(t, content)
	for name, golden := range map[string]string{"MANIFEST.json": "region.MANIFEST.golden.json", "FILES.json": "region.FILES.golden.json"} {
		if *update {
			if err := os.WriteFile(filepath.Join("testdata", golden), content[name].Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(string(readTestdata(t, golden)), string(content[name].Data)); diff != "" {
			t.Errorf("%s differs from %s (-want +got):\n%s", name, golden, diff)
		}
	}
	if _, ok := content["galaxy.yml"]; ok {
		t.Error("the archive holds galaxy.yml")
	}

	fromFolder, err := model.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	fromArchive, err := model.Load(content)
	if err != nil {
		t.Fatal(err)
	}
	// Dependencies tell where they are written.
	for i := range fromFolder.Dependencies.Collections {
		fromFolder.Dependencies.Collections[i].File = "MANIFEST.json"
	}
	if diff := cmp.Diff(fromFolder, fromArchive); diff != "" {
		t.Errorf("the archive loads differently from its folder (-folder +archive):\n%s", diff)
	}
}

// checkManifests follows the checksums from MANIFEST.json to every file, as `ansible-galaxy collection verify` does.
func checkManifests(t *testing.T, content fstest.MapFS) {
	t.Helper()
	var manifest manifestContent
	var list fileList
	if err := json.Unmarshal(content["MANIFEST.json"].Data, &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content["FILES.json"].Data, &list); err != nil {
		t.Fatal(err)
	}
	sum := func(name string) string {
		s := sha256.Sum256(content[name].Data)
		return hex.EncodeToString(s[:])
	}
	if *manifest.Files.SHA256 != sum("FILES.json") {
		t.Error("MANIFEST.json has a wrong checksum of FILES.json")
	}
	listed := map[string]bool{"MANIFEST.json": true, "FILES.json": true}
	for _, entry := range list.Files[1:] {
		listed[entry.Name] = true
		file, ok := content[entry.Name]
		switch {
		case !ok:
			t.Errorf("%s is listed, but not in the archive", entry.Name)
		case file.Mode.IsDir() != (entry.Type == "dir"):
			t.Errorf("%s is listed as %s", entry.Name, entry.Type)
		case entry.Type == "file" && *entry.SHA256 != sum(entry.Name):
			t.Errorf("%s has a wrong checksum", entry.Name)
		}
	}
	for name := range content {
		if !listed[name] {
			t.Errorf("%s is in the archive, but not listed", name)
		}
	}
}

func TestBuildIgnores(t *testing.T) {
	file := &fstest.MapFile{Data: []byte("x")}
	folder := fstest.MapFS{
		"galaxy.yml": {Data: []byte("namespace: acme\nname: demo\nversion: 1.0.0\nreadme: README.md\nauthors: me\nbuild_ignore: ['*.log', 'docs/[!a]*', secret, '[', '[z-a]']\n")},
	}
	for _, name := range []string{
		"README.md", "a.pyc", "roles/x/b.pyc", "c.retry", ".git/config", "sub/.git/config", "roles/.svn/x", "lib/__pycache__/x.txt",
		"tests/output/x", "tests/unit/x", "acme-demo-1.0.0.tar.gz", "dist/acme-demo-1.0.0.tar.gz", "MANIFEST.json", "FILES.json",
		"deep/er/x.log", "docs/api.md", "docs/internal/x.md", "secret/key", "secretive", "run.sh", ".github/x",
	} {
		folder[name] = file
	}
	folder["run.sh"] = &fstest.MapFile{Data: []byte("#!"), Mode: 0o755}
	var b bytes.Buffer
	if err := Build(folder, &b); err != nil {
		t.Fatal(err)
	}
	content := unpack(t, b.Bytes())
	checkManifests(t, content)
	var got []string
	var list fileList
	if err := json.Unmarshal(content["FILES.json"].Data, &list); err != nil {
		t.Fatal(err)
	}
	for _, entry := range list.Files {
		got = append(got, entry.Name)
	}
	want := []string{".", ".github", ".github/x", "README.md", "deep", "deep/er", "dist", "dist/acme-demo-1.0.0.tar.gz", "docs", "docs/api.md",
		"lib", "roles", "roles/x", "run.sh", "secretive", "sub", "tests", "tests/unit", "tests/unit/x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
	if mode := content["run.sh"].Mode; mode.Perm() != 0o755 {
		t.Errorf("run.sh has mode %v", mode)
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, test := range map[string]struct{ galaxy, want string }{
		"no readme":           {"namespace: a\nname: b\nversion: 1.0.0\nauthors: [x]\n", "galaxy.yml:1:1: readme: is required"},
		"no authors":          {"namespace: a\nname: b\nversion: 1.0.0\nreadme: x\n", "galaxy.yml:1:1: authors: is required"},
		"no version":          {"namespace: a\nname: b\nreadme: x\nauthors: x\n", "galaxy.yml:1:1: version: is required"},
		"odd version":         {"namespace: a\nname: b\nversion: one\nreadme: x\nauthors: x\n", `galaxy.yml:3:10: version: "one" is not a semantic version such as 1.2.0`},
		"long pattern":        {"namespace: a\nname: b\nversion: 1.0.0\nreadme: x\nauthors: x\nbuild_ignore: x" + strings.Repeat("*", maxPatternBytes) + "\n", "galaxy.yml:6:15: build_ignore: a pattern is longer than 1024 characters"},
		"manifest directives": {"namespace: a\nname: b\nversion: 1.0.0\nreadme: x\nauthors: x\nmanifest: {directives: []}\n", "galaxy.yml:6:11: manifest: manifest directives are not supported; use build_ignore"},
		"not a mapping":       {"x\n", `galaxy.yml:1:1: must be a mapping of keys to values, not "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			err := Build(fstest.MapFS{"galaxy.yml": {Data: []byte(test.galaxy)}}, &b)
			if err == nil || err.Error() != test.want || b.Len() > 0 {
				t.Errorf("got %v and %d bytes, want %s", err, b.Len(), test.want)
			}
		})
	}
	if err := Build(fstest.MapFS{}, io.Discard); err == nil || !strings.Contains(err.Error(), "no galaxy.yml") {
		t.Errorf("got %v for an empty folder", err)
	}
}

func TestBuildCircleOfLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "galaxy.yml"), readTestdata(t, "../../../collection/model/testdata/minimal/galaxy.yml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".", filepath.Join(dir, "circle")); err != nil {
		t.Fatal(err)
	}
	if err := Build(os.DirFS(dir), io.Discard); err == nil {
		t.Error("a circle of links was accepted")
	}
}

// FuzzBuild: whatever galaxy.yml says, Build refuses it or makes an archive whose checksums are right.
func FuzzBuild(f *testing.F) {
	for _, name := range []string{"minimal/galaxy.yml", "region/galaxy.yml", "users/galaxy.yml"} {
		f.Add(readTestdata(f, filepath.Join("../../../collection/model/testdata", name)))
	}
	f.Add([]byte("namespace: a\nname: b\nversion: 1.0.0\nreadme: x\nauthors: x\nbuild_ignore: ['[', '[!]', '[]a]', '[z-a]', '[a-[]', '*?', '[\\\\d]', 'é']\n"))
	f.Fuzz(func(t *testing.T, galaxy []byte) {
		var b bytes.Buffer
		err := Build(fstest.MapFS{"galaxy.yml": {Data: galaxy}, "roles/a/main.yml": {Data: galaxy}}, &b)
		if err == nil {
			checkManifests(t, unpack(t, b.Bytes()))
			return
		}
		var problems findings.Problems
		if !errors.As(err, &problems) || b.Len() > 0 {
			t.Fatalf("got %v and %d bytes", err, b.Len())
		}
	})
}
