package lint_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

const galaxyYAML = "namespace: acme\nname: things\nversion: 1.0.0\nreadme: README.md\nauthors: [Ann]\n"

const config = `domain: acme
name: things
version: 1.0.0
displayName: Things
resources:
  - kind: Thing
    playbook: thing.yml
`

// folder is an author's folder without problems, with some files more or others in their place. An empty text removes one.
func folder(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"galaxy.yml":          galaxyYAML,
		"operator-config.yml": config,
		"README.md":           "Things\n",
		"thing.yml":           "- hosts: all\n  tasks:\n    - ansible.builtin.ping:\n",
	}
	maps.Copy(all, files)
	out := fstest.MapFS{}
	for name, content := range all {
		if content != "" {
			out[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		}
	}
	return out
}

func kinds(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "- {kind: Thing%d, playbook: thing.yml}\n", i)
	}
	return b.String()
}

// build returns the archive of a folder.
func build(t *testing.T, folder fs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := galaxy.Build(folder, &b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func lines(problems findings.Problems) []string {
	out := []string{}
	for _, p := range problems {
		out = append(out, p.Rule+" "+p.String())
	}
	return out
}

func checkFolder(t *testing.T, folder fs.FS) findings.Problems {
	t.Helper()
	problems, settings, err := lint.CheckFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := settings.Apply(problems)
	return shown
}

func checkArchive(t *testing.T, content []byte) findings.Problems {
	t.Helper()
	problems, settings, err := lint.CheckArchive(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	shown, _ := settings.Apply(problems)
	return shown
}

func TestCheckFolder(t *testing.T) {
	large := strings.Repeat("<", 175<<10) // Six bytes each in JSON.
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"nothing wrong", nil, []string{}},
		{"a CustomResourceDefinition that cannot be stored",
			map[string]string{"operator-config.yml": config + "    description: " + large + "\n"},
			[]string{"crd-schema operator-config.yml:6:11: resources[0].kind: the API server would refuse the kind's CustomResourceDefinition: " +
				"it is 1053 KiB large, and more than 1024 KiB cannot be stored; shorten descriptions and options"}},
		{"more kinds than a cluster takes",
			map[string]string{"operator-config.yml": "domain: acme\nname: things\nversion: 1.0.0\ndisplayName: Things\nresources:\n" + kinds(501)},
			[]string{"crd-schema operator-config.yml:506:10: resources[500].kind: a collection has at most 500 kinds, this one has 501; divide it"}},
		{"no galaxy.yml: the rest is checked all the same",
			map[string]string{"galaxy.yml": "", "thing.yml": ""},
			[]string{
				"missing-galaxy MANIFEST.json: the collection has neither MANIFEST.json (archives have one) nor galaxy.yml (folders have one) at its root",
				"missing-galaxy galaxy.yml: the folder has no galaxy.yml at its root",
				`missing-playbook operator-config.yml:7:15: resources[0].playbook: the collection holds no file "thing.yml"`,
			}},
		{"a galaxy.yml that cannot be built is reported in its own lines",
			map[string]string{"galaxy.yml": "namespace: acme\nname: things\nversion: '1'\nreadme: README.md\nauthors: [Ann]\ncolor: red\n",
				"operator-config.yml": strings.Replace(config, "1.0.0", "'1.0.0'", 1)},
			[]string{
				`galaxy-build galaxy.yml:3:10: version: "1" is not a semantic version such as 1.2.0`,
				"unknown-key galaxy.yml:6:8: color: warning: unknown key, ignored",
				`match-version operator-config.yml:3:10: version: warning: "1.0.0" differs from the collection's Galaxy version "1"`,
			}},
		{"a file that is not built is not there",
			map[string]string{"galaxy.yml": galaxyYAML + "build_ignore: ['thing.*', bad, '*.cfg', collections/requirements.yml]\n",
				"bad/requirements.txt": "-- nonsense\n", "roles/.git/requirements.txt": "-- nonsense\n", "lib/__pycache__/requirements.txt": "-- nonsense\n",
				"ansible.cfg": "[defaults]\n", "collections/requirements.yml": "nonsense"},
			[]string{`missing-playbook operator-config.yml:7:15: resources[0].playbook: the collection holds no file "thing.yml"`}},
		{"settings are not checked for what they hide",
			map[string]string{".oc-lint": "skip_list: [missing-playbook, no-such-rule]\n", "thing.yml": ""},
			[]string{`oc-lint .oc-lint:1:31: skip_list: warning: there is no rule "no-such-rule"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(checkFolder(t, folder(tt.files)))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckFolderThatCannotBeBuilt(t *testing.T) {
	f := folder(nil)
	f["pipe"] = &fstest.MapFile{Mode: fs.ModeNamedPipe}
	want := []string{"archive pipe: is neither a file nor a folder; remove it or add it to build_ignore"}
	if diff := cmp.Diff(want, lines(checkFolder(t, f))); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}

	dir := t.TempDir()
	if err := os.CopyFS(dir, folder(nil)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	want = []string{"archive link: is a link that leads nowhere; remove it or add it to build_ignore"}
	if diff := cmp.Diff(want, lines(checkFolder(t, os.DirFS(dir)))); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// An archive that the cluster would refuse because of a file's name is not built silently.
func TestCheckFolderSeesWhatTheArchiveIsRefusedFor(t *testing.T) {
	want := []string{`archive files\here.txt: the path holds a backslash (InvalidName)`}
	if diff := cmp.Diff(want, lines(checkFolder(t, folder(map[string]string{`files\here.txt`: "x"})))); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

func TestCheckArchive(t *testing.T) {
	good := build(t, folder(nil))
	for _, tt := range []struct {
		name    string
		content []byte
		want    []string
	}{
		{"nothing wrong", good, []string{}},
		{"half of it", good[:len(good)/2], []string{"archive MANIFEST.json: the archive ends too early (Truncated)"}},
		{"no archive", []byte("<html></html>"), []string{"archive the file is a web page (HTML or XML), such as one to log in or of an error: " +
			"use the address from which the .tar.gz itself is downloaded, with credentials if it needs them (NotGzip)"}},
		{"with settings of its own", build(t, folder(map[string]string{".oc-lint": "unknown: true\n"})),
			[]string{`oc-lint .oc-lint:1:10: unknown: warning: unknown key, ignored`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, lines(checkArchive(t, tt.content))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

type brokenReader struct{}

var errBroken = errors.New("broken disk")

func (brokenReader) Read([]byte) (int, error) { return 0, errBroken }

func TestWhatCannotBeReadIsNoFinding(t *testing.T) {
	_, _, err := lint.CheckArchive(io.MultiReader(bytes.NewReader(build(t, folder(nil))[:40]), brokenReader{}))
	if !errors.Is(err, errBroken) {
		t.Errorf("archive: %v", err)
	}
	_, _, err = lint.CheckFolder(unreadableFS{folder(nil), "operator-config.yml"})
	if !errors.Is(err, errBroken) {
		t.Errorf("folder: %v", err)
	}
}

// unreadableFS fails to open one file.
type unreadableFS struct {
	fs.FS
	name string
}

func (u unreadableFS) Open(name string) (fs.File, error) {
	if name == u.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errBroken}
	}
	return u.FS.Open(name)
}

// collections are all that this repository holds.
func collections(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../../collection/model/testdata/*/galaxy.yml", "testdata/shapes/*/galaxy.yml", "../../../test/collections/*/galaxy.yml", "../../../test/collections/*/*/galaxy.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	if len(all) < 12 {
		t.Fatalf("found %d collections only: %q", len(all), all)
	}
	return all
}

func TestFolderAndArchiveAgree(t *testing.T) {
	compare := func(t *testing.T, folder fs.FS) {
		t.Helper()
		content := build(t, folder)
		fromFolder := lines(checkFolder(t, folder))
		if diff := cmp.Diff(fromFolder, lines(checkArchive(t, content))); diff != "" {
			t.Errorf("problems (-folder +archive):\n%s", diff)
		}
		unpacked, err := archive.Read(bytes.NewReader(content), archive.DefaultLimits, func(string, int64) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromFolder, lines(checkFolder(t, unpacked))); diff != "" {
			t.Errorf("problems (-folder +unpacked archive):\n%s", diff)
		}
	}
	for _, file := range collections(t) {
		t.Run(filepath.Dir(file), func(t *testing.T) { compare(t, os.DirFS(filepath.Dir(file))) })
	}
	t.Run("with problems of all kinds", func(t *testing.T) {
		compare(t, folder(map[string]string{
			".oc-lint":         "skip_list: nothing\nenable: 1\n",
			"thing.yml":        "",
			"requirements.txt": "-- nonsense\n",
			"operator-config.yml": strings.Replace(config, "domain: acme", "domain: other", 1) +
				"    vars:\n      - name: ansible_user\n        type: string\n      - name: ok\n        type: integer\n        default: many\n",
		}))
	})
}

func TestCheckGivesTheCollection(t *testing.T) {
	c, problems, err := lint.Check(folder(map[string]string{"operator-config.yml": config + "    color: red\n"}))
	if err != nil || c == nil || len(problems) != 1 || len(c.Problems) != 1 {
		t.Errorf("Check gives %v, %v, %v; want a collection with one warning", c, problems, err)
	}
	c, problems, err = lint.Check(folder(map[string]string{"thing.yml": ""}))
	if err != nil || c != nil || len(problems) != 1 {
		t.Errorf("Check gives %v, %v, %v; want no collection and one problem", c, problems, err)
	}
}
