package model

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

var update = flag.Bool("update", false, "write the golden files anew")

const testManifest = `{"collection_info": {"namespace": "acme", "name": "demo", "version": "1.2.3"}, "format": 1}`

// head is a sound beginning of an operator-config of 5 lines; what follows begins in line 6.
const head = `domain: acme
name: demo
version: 1.2.3
displayName: Demo
resources:
`

func archiveOf(config string) fstest.MapFS {
	return fstest.MapFS{
		"operator-config.yml":     {Data: []byte(config)},
		"MANIFEST.json":           {Data: []byte(testManifest)},
		"run.yml":                 {Data: []byte("- hosts: all\n")},
		"playbooks/provision.yml": {Data: []byte("- hosts: all\n")},
	}
}

// problemsOf returns all that is wrong with a collection. It loads exactly if nothing of that is refused.
func problemsOf(t *testing.T, fsys fs.FS) findings.Problems {
	t.Helper()
	fsys = sealed(fsys)
	_, problems, err := Read(fsys)
	if err != nil {
		t.Fatal(err)
	}
	loaded, refused := Load(fsys)
	switch {
	case refused == nil:
		if len(problems.Refused()) > 0 || loaded == nil || !slices.Equal(loaded.Problems, problems) {
			t.Fatalf("Load returned %+v, Lint %v", loaded, problems)
		}
	case loaded != nil || len(problems.Refused()) == 0 || refused.Error() != problems.Error():
		t.Fatalf("Load returned %+v and %v, Lint %v", loaded, refused, problems)
	}
	return problems
}

// expect is one expected problem; fragment is a part of its message.
type expect struct {
	line, column int
	path         string
	severity     findings.Severity
	rule         string
	fragment     string
}

func checkProblems(t *testing.T, got findings.Problems, want []expect) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing: %+v", want[i])
		case i >= len(want):
			t.Errorf("unexpected: %s [%s %s]", got[i], got[i].Severity, got[i].Rule)
		default:
			g, w := got[i], want[i]
			have := expect{g.Line, g.Column, g.Path, g.Severity, g.Rule, w.fragment}
			if have != w || !strings.Contains(g.Message, w.fragment) {
				t.Errorf("problem %d:\n got %d:%d %s %s %s: %s\nwant %d:%d %s %s %s: ...%s...", i,
					g.Line, g.Column, g.Path, g.Severity, g.Rule, g.Message, w.line, w.column, w.path, w.severity, w.rule, w.fragment)
			}
		}
	}
}

func TestLoadGolden(t *testing.T) {
	for _, name := range []string{"minimal", "region", "users"} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(os.DirFS(filepath.Join("testdata", name)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.MarshalIndent(c, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("model differs from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

func TestLoadRoot(t *testing.T) {
	const resources = "resources: [{kind: Thing, playbook: run.yml}]\n"
	long := strings.Repeat("a", 40)
	tests := map[string]struct {
		config string
		want   []expect
	}{
		"sound": {head + "- {kind: Thing, playbook: run.yml}\n", nil},
		"empty": {"", []expect{{1, 1, "", findings.SeverityError, "type", "must be a mapping"}}},
		"empty mapping": {"{}\n", []expect{
			{1, 1, "displayName", findings.SeverityError, "display-name", "is required"},
			{1, 1, "domain", findings.SeverityError, "required", "is required"},
			{1, 1, "name", findings.SeverityError, "required", "is required"},
			{1, 1, "resources", findings.SeverityError, "required", "at least one resource"},
			{1, 1, "version", findings.SeverityError, "required", "is required"},
		}},
		"not a mapping": {"- a\n", []expect{{1, 1, "", findings.SeverityError, "type", "must be a mapping of keys to values, not a list"}}},
		"syntax":        {"domain: acme\nname: [\n", []expect{{2, 1, "", findings.SeverityError, "yaml", "cannot be read as YAML: did not find expected node content"}}},
		"two documents": {head + "- {kind: Thing, playbook: run.yml}\n---\na: b\n", []expect{{7, 1, "", findings.SeverityError, "yaml", "more than one document"}}},
		"duplicate key": {"domain: acme\ndomain: acme\nname: demo\nversion: 1.2.3\ndisplayName: Demo\n" + resources, []expect{
			{2, 1, "", findings.SeverityError, "duplicate-key", `key "domain" is given twice, first in line 1`}}},
		"unknown keys": {head + "- {kind: Thing, playbook: run.yml}\nmaturity: x\ndisplayname: y\n", []expect{
			{7, 11, "maturity", findings.SeverityWarning, "unknown-key", "ignored"},
			{8, 14, "displayname", findings.SeverityWarning, "unknown-key", "did you mean displayName?"}}},
		"illegal names": {"domain: Acme\nname: my_demo\nversion: 1.2.3\ndisplayName: Demo\n" + resources, []expect{
			{1, 9, "domain", findings.SeverityError, "identity", `"Acme" is not a DNS subdomain`},
			{2, 7, "name", findings.SeverityError, "identity", `"my_demo" is not a DNS subdomain`}}},
		"long name": {"domain: acme\nname: " + long + long + "\nversion: 1.2.3\ndisplayName: Demo\n" + resources, []expect{
			{2, 7, "name", findings.SeverityError, "identity", "at most 63 characters long, is 80"}}},
		"long operator name": {"domain: " + long + "\nname: " + long + "\nversion: 1.2.3\ndisplayName: Demo\n" + resources, []expect{
			{1, 9, "domain", findings.SeverityWarning, "match-domain", "differs from the collection's Galaxy namespace \"acme\""},
			{2, 7, "name", findings.SeverityWarning, "match-name", "differs"},
			{2, 7, "name", findings.SeverityWarning, "long-name", "longer than 63"}}},
		"long CSV name": {"domain: acme\nname: " + long + "\nversion: 1.2.3-b123456789\ndisplayName: Demo\n" + resources, []expect{
			{2, 7, "name", findings.SeverityWarning, "match-name", "differs"},
			{2, 7, "name", findings.SeverityWarning, "long-name", "the name of the operator's version"},
			{3, 10, "version", findings.SeverityWarning, "match-version", "differs"}}},
		"not semver": {"domain: acme\nname: demo\nversion: 1.0\ndisplayName: Demo\n" + resources, []expect{
			{3, 10, "version", findings.SeverityError, "version", `"1.0" is not a semantic version`}}},
		"API version not legal": {"domain: acme\nname: demo\nversion: 1.2.3-beta-\ndisplayName: Demo\n" + resources, []expect{
			{3, 10, "version", findings.SeverityError, "version-api", `gives the API version "v1minor2patch3-beta-"`},
			{3, 10, "version", findings.SeverityError, "derived-name", "not legal"},
			{3, 10, "version", findings.SeverityWarning, "match-version", `"1.2.3-beta-" differs from the collection's Galaxy version "1.2.3"`},
			{3, 10, "version", findings.SeverityWarning, "version-clash", "use dots"}}},
		"build metadata": {"domain: acme\nname: demo\nversion: 1.2.3+7\ndisplayName: Demo\n" + resources, []expect{
			{3, 10, "version", findings.SeverityWarning, "match-version", "differs"},
			{3, 10, "version", findings.SeverityWarning, "version-clash", "build metadata +7"}}},
		"inventory name": {head + "- {kind: Thing, playbook: run.yml}\ninventoryName: my.hosts\n", []expect{
			{7, 16, "inventoryName", findings.SeverityError, "inventory-name", "not an Ansible group name"}}},
		"reserved inventory name": {head + "- {kind: Thing, playbook: run.yml}\ninventoryName: all\n", []expect{
			{7, 16, "inventoryName", findings.SeverityError, "inventory-name", "Ansible makes itself"}}},
		"text of the wrong type": {head + "- {kind: Thing, playbook: run.yml}\ndescription: [a]\n", []expect{
			{7, 14, "description", findings.SeverityError, "type", "must be a text, not a list"}}},
		"private tag": {head + "- {kind: Thing, playbook: run.yml}\ndescription: !vault abc\n", []expect{
			{7, 14, "description", findings.SeverityError, "type", `must be a text`}}},
		"icons": {head + "- {kind: Thing, playbook: run.yml}\nicon:\n- {base64data: '***', mediatype: image/png}\n- {base64data: YQ==, mediatype: text/html}\n- {mediatype: image/png}\n", []expect{
			{8, 16, "icon[0].base64data", findings.SeverityWarning, "icon-data", "not base64"},
			{9, 33, "icon[1].mediatype", findings.SeverityWarning, "icon-type", "media type of an image"},
			{10, 3, "icon[2].base64data", findings.SeverityError, "icon-keys", "is required"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkProblems(t, problemsOf(t, archiveOf(test.config)), test.want)
		})
	}
}

func TestLoadResources(t *testing.T) {
	tests := map[string]struct {
		resources string
		want      []expect
	}{
		"none": {"  []\n", []expect{{6, 3, "resources", findings.SeverityError, "required", "at least one resource"}}},
		"no list": {"  {kind: Thing}\n", []expect{
			{6, 3, "resources", findings.SeverityError, "type", "must be a list, not a mapping"}}},
		"required keys": {"- description: x\n", []expect{
			{6, 3, "resources[0].kind", findings.SeverityError, "required", "is required"},
			{6, 3, "resources[0].playbook", findings.SeverityError, "required", "is required"}}},
		"not Pascal case": {"- {kind: thing, playbook: run.yml}\n- {kind: Some_Thing, playbook: run.yml}\n", []expect{
			{6, 10, "resources[0].kind", findings.SeverityError, "kind-case", `"thing" is not in Pascal case`},
			{7, 10, "resources[1].kind", findings.SeverityError, "kind-name", `"Some_Thing" is not legal`}}},
		"long kind": {"- kind: " + strings.Repeat("A", 60) + "\n  playbook: run.yml\n", []expect{
			{6, 9, "resources[0].kind", findings.SeverityError, "kind-name", "at most 59"}}},
		"kind twice": {"- {kind: Thing, playbook: run.yml}\n- {kind: Thing, playbook: run.yml}\n", []expect{
			{7, 10, "resources[1].kind", findings.SeverityError, "kind-unique", "Thing clashes with kind Thing"}}},
		"plurals clash": {"- {kind: Thing, playbook: run.yml}\n- {kind: THING, playbook: run.yml}\n", []expect{
			{7, 10, "resources[1].kind", findings.SeverityError, "kind-unique", "both need the resource things"}}},
		"plural and singular clash": {"- {kind: Thing, playbook: run.yml}\n- {kind: Things, playbook: run.yml}\n", []expect{
			{7, 10, "resources[1].kind", findings.SeverityError, "kind-unique", "both need the resource things"}}},
		"list kind clashes": {"- {kind: ThingList, playbook: run.yml}\n- {kind: Thing, playbook: run.yml}\n", []expect{
			{7, 10, "resources[1].kind", findings.SeverityError, "kind-unique", "both need the kind ThingList"}}},
		"paths": {`- {kind: A, playbook: /run.yml, finalizer: ../run.yml}
- {kind: B, playbook: missing.yml, finalizer: run.yml/x.yml}
- {kind: C, playbook: playbooks, finalizer: "a/../../run.yml"}
- {kind: D, playbook: "{{ lookup('pipe', 'id') }}.yml", finalizer: ./playbooks/../run.yml}
- {kind: E, playbook: .}
`, []expect{
			{6, 23, "resources[0].playbook", findings.SeverityError, "playbook-path", "must be relative"},
			{6, 44, "resources[0].finalizer", findings.SeverityError, "finalizer-path", "must not lead out"},
			{7, 23, "resources[1].playbook", findings.SeverityError, "missing-playbook", `holds no file "missing.yml"`},
			{7, 47, "resources[1].finalizer", findings.SeverityError, "missing-finalizer", `holds no file "run.yml/x.yml"`},
			{8, 23, "resources[2].playbook", findings.SeverityError, "missing-playbook", "is not a file"},
			{8, 45, "resources[2].finalizer", findings.SeverityError, "finalizer-path", "must not lead out"},
			{9, 23, "resources[3].playbook", findings.SeverityError, "playbook-path", "braces"},
			{10, 23, "resources[4].playbook", findings.SeverityError, "playbook-path", "must name a file"}}},
		"hideResource": {"- {kind: Thing, playbook: run.yml, hideResource: maybe}\n- {kind: Other, playbook: run.yml, hideResource: 'yes'}\n", []expect{
			{6, 50, "resources[0].hideResource", findings.SeverityError, "type", "must be true or false"}}},
		"supportsCheckMode": {"- {kind: Thing, playbook: run.yml, supportsCheckMode: maybe}\n- {kind: Other, playbook: run.yml, supportsCheckMode: 'yes'}\n", []expect{
			{6, 55, "resources[0].supportsCheckMode", findings.SeverityError, "type", "must be true or false"}}},
		"showDiff": {"- {kind: Thing, playbook: run.yml, showDiff: maybe}\n- {kind: Other, playbook: run.yml, showDiff: 'yes'}\n", []expect{
			{6, 46, "resources[0].showDiff", findings.SeverityError, "type", "must be true or false"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			checkProblems(t, problemsOf(t, archiveOf(head+test.resources)), test.want)
		})
	}
}

func TestLoadFiles(t *testing.T) {
	sound := func(change func(fstest.MapFS)) fstest.MapFS {
		fsys := archiveOf(head + "- {kind: Thing, playbook: run.yml}\n")
		change(fsys)
		return fsys
	}
	tests := map[string]struct {
		fsys fstest.MapFS
		want string
	}{
		"nothing": {fstest.MapFS{}, "MANIFEST.json: the collection has neither MANIFEST.json (archives have one) nor galaxy.yml (folders have one) at its root\n" +
			"operator-config.yml: the collection has neither operator-config.yml nor operator-config.yaml at its root; is it an operator collection?"},
		"a snapshot of a git repository": {fstest.MapFS{"demo-1.0.0/galaxy.yml": {}, "demo-1.0.0/operator-config.yml": {}},
			`MANIFEST.json: everything is in the folder "demo-1.0.0", as in the snapshot of a git repository, which is not a built collection: ` +
				"build the archive from that folder with kubectl collection build"},
		"a folder around the archive": {fstest.MapFS{"demo/MANIFEST.json": {}, "demo/FILES.json": {}},
			`MANIFEST.json: the collection is in the folder "demo" and not at the root: use the archive as kubectl collection build or Ansible Galaxy makes it`},
		"a folder beside a file": {fstest.MapFS{"demo/galaxy.yml": {}, "README.md": {}}, "MANIFEST.json: the collection has neither MANIFEST.json (archives have one) nor galaxy.yml (folders have one) at its root\n" +
			"operator-config.yml: the collection has neither operator-config.yml nor operator-config.yaml at its root; is it an operator collection?"},
		"both names": {sound(func(f fstest.MapFS) { f["operator-config.yaml"] = f["operator-config.yml"] }),
			"operator-config.yml: the collection has both operator-config.yml and operator-config.yaml; keep one"},
		"folder as file": {sound(func(f fstest.MapFS) {
			f["operator-config.yml/x"] = f["operator-config.yml"]
			delete(f, "operator-config.yml")
		}), "operator-config.yml: is not a regular file"},
		"too large": {sound(func(f fstest.MapFS) { f["MANIFEST.json"].Data = make([]byte, maxFileBytes+1) }),
			"MANIFEST.json: is larger than 4 MiB"},
		"too large to read often": {sound(func(f fstest.MapFS) { f["operator-config.yml"].Data = make([]byte, maxConfigBytes+1) }),
			"operator-config.yml: is larger than 1 MiB"},
		"manifest syntax": {sound(func(f fstest.MapFS) { f["MANIFEST.json"].Data = []byte("{\n  x}") }),
			"MANIFEST.json:2:3: cannot be read as JSON: invalid character 'x' looking for beginning of object key string"},
		"manifest empty": {sound(func(f fstest.MapFS) { f["MANIFEST.json"].Data = []byte("{}") }),
			"MANIFEST.json:1:1: collection_info: is required, and an object"},
		"manifest fields": {sound(func(f fstest.MapFS) {
			f["MANIFEST.json"].Data = []byte(`{"collection_info": {"Namespace": "acme", "name": "../x", "version": null, "tags": "a"}}`)
		}), "MANIFEST.json:1:21: collection_info.namespace: is required\n" +
			"MANIFEST.json:1:51: collection_info.name: \"../x\" is not legal for Ansible: use letters, digits and _, not beginning with a digit\n" +
			"MANIFEST.json:1:70: collection_info.version: is required\n" +
			"MANIFEST.json:1:84: collection_info.tags: is not of the expected type (list of texts)"},
		"galaxy.yml": {sound(func(f fstest.MapFS) {
			delete(f, "MANIFEST.json")
			f["galaxy.yml"] = &fstest.MapFile{Data: []byte("namespace: acme\nname: my-demo\nversion: 1.2.3\ndependencies: [a]\nreadme: README.md\nauthors: me\n")}
		}), "galaxy.yml:2:7: name: warning: \"my-demo\" has a hyphen, which is not legal for Ansible: playbooks run, but no module, role or playbook is found by its full name; use _ instead\n" +
			"galaxy.yml:4:15: dependencies: must be a mapping of keys to values, not a list\n" +
			"operator-config.yml:2:7: name: warning: \"demo\" differs from the collection's Galaxy name \"my-demo\""},
		"runtime.yml": {sound(func(f fstest.MapFS) { f["meta/runtime.yml"] = &fstest.MapFile{Data: []byte("requires_ansible: {}\n")} }),
			"meta/runtime.yml:1:19: requires_ansible: must be a text, not a mapping"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, problemsOf(t, test.fsys).Error()); diff != "" {
				t.Errorf("problems differ (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadGalaxy(t *testing.T) {
	fsys := archiveOf(head + "- {kind: Thing, playbook: run.yml}\n")
	fsys["MANIFEST.json"].Data = []byte(`{"collection_info": {"namespace": "acme", "name": "demo", "version": "1.2.3", "authors": ["a"],
		"description": "\ud83d\ude00", "license": [], "license_file": null, "tags": null, "dependencies": {"ibm.ibm_zos_core": ">=1.9.0"}}}`)
	fsys["meta/runtime.yml"] = &fstest.MapFile{Data: []byte("requires_ansible: '>=2.15'\nplugin_routing: {}\n")}
	c, err := Load(sealed(fsys))
	if err != nil {
		t.Fatal(err)
	}
	want := Galaxy{Namespace: "acme", Name: "demo", Version: "1.2.3", Authors: []string{"a"}, License: []string{}, Description: "😀",
		Dependencies: map[string]string{"ibm.ibm_zos_core": ">=1.9.0"}, RequiresAnsible: ">=2.15"}
	if diff := cmp.Diff(want, c.Galaxy); diff != "" {
		t.Errorf("Galaxy differs (-want +got):\n%s", diff)
	}
}

func TestLoadBounds(t *testing.T) {
	t.Run("aliases", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
		for i := range 9 {
			fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
		}
		got := problemsOf(t, archiveOf(b.String()))
		if len(got) != 1 || !strings.Contains(got[0].Message, "more than 100000 YAML values") {
			t.Errorf("got %v", got)
		}
	})
	t.Run("many defaults with aliases", func(t *testing.T) {
		bomb := "'[&a [x,x,x,x,x,x,x,x], &b [*a,*a,*a,*a,*a,*a,*a,*a], &c [*b,*b,*b,*b,*b,*b,*b,*b], &d [*c,*c,*c,*c,*c,*c,*c,*c], [*d,*d,*d,*d,*d,*d,*d,*d]]'"
		var b strings.Builder
		b.WriteString(head + "- kind: Thing\n  playbook: run.yml\n  vars:\n")
		for i := range 1000 {
			fmt.Fprintf(&b, "  - {name: v%d, displayName: V, type: string, array: true, default: %s}\n", i, bomb)
		}
		got := problemsOf(t, archiveOf(b.String()))
		if len(got) != findings.MaxProblems {
			t.Errorf("got %d problems, want %d", len(got), findings.MaxProblems)
		}
	})
	// What is made of a collection repeats a text as often as aliases do: 400 MB here.
	t.Run("aliases of a long text", func(t *testing.T) {
		got := problemsOf(t, archiveOf(head+"- {kind: Thing, playbook: run.yml}\nroles:\n- apiGroups: ['']\n  resources: [secrets]\n  verbs: [get]\n  resourceNames: [&a "+
			strings.Repeat("a", 400<<10)+strings.Repeat(", *a", 1000)+"]\n"))
		if len(got) != 1 || !strings.Contains(got[0].Message, "a text counts as one more for every 100 bytes") {
			t.Errorf("got %d problems", len(got))
		}
	})
	t.Run("circle", func(t *testing.T) {
		got := problemsOf(t, archiveOf("a: &a {b: *a}\n"))
		if len(got) != 1 || !strings.Contains(got[0].Message, "levels deep") {
			t.Errorf("got %v", got)
		}
	})
	t.Run("much structure", func(t *testing.T) {
		got := problemsOf(t, archiveOf("["+strings.Repeat("a,", 4*findings.MaxNodes)+"]"))
		if len(got) != 1 || !strings.Contains(got[0].Message, "too large") {
			t.Errorf("got %v", got)
		}
	})
	t.Run("errors after many warnings", func(t *testing.T) {
		var b strings.Builder
		for i := range 2 * findings.MaxProblems {
			fmt.Fprintf(&b, "x%d: 1\n", i)
		}
		if _, err := Load(sealed(archiveOf(b.String()))); err == nil {
			t.Error("Load accepted a collection with errors behind many warnings")
		}
	})
}

func TestLoadAnchors(t *testing.T) {
	c, err := Load(sealed(archiveOf(head + `- kind: Thing
  playbook: &playbook run.yml
  vars:
  - &base {name: one, displayName: One, type: string, default: a}
  - <<: *base
    name: two
  - <<: [*base]
    name: three
    default: c
- {kind: Other, playbook: *playbook}
`)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Var{
		{Name: "one", DisplayName: "One", Type: String, Default: "a"},
		{Name: "two", DisplayName: "One", Type: String, Default: "a"},
		{Name: "three", DisplayName: "One", Type: String, Default: "c"},
	}
	if diff := cmp.Diff(want, c.Resources[0].Vars, cmpopts.IgnoreFields(Var{}, "Place")); diff != "" {
		t.Errorf("vars differ (-want +got):\n%s", diff)
	}
	if c.Resources[1].Playbook != "run.yml" {
		t.Errorf("playbook of Other is %q", c.Resources[1].Playbook)
	}
}

// brokenFS fails to read one file.
type brokenFS struct{ fs.FS }

func (b brokenFS) Open(name string) (fs.File, error) {
	if name == "MANIFEST.json" {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("input/output error")}
	}
	return b.FS.Open(name)
}

func TestLoadReadError(t *testing.T) {
	_, err := Load(brokenFS{archiveOf(head + "- {kind: Thing, playbook: run.yml}\n")})
	var problems findings.Problems
	if err == nil || errors.As(err, &problems) {
		t.Errorf("got %v, want an error that is not the author's fault", err)
	}
}

func TestLargeIconIsKept(t *testing.T) {
	large := base64.StdEncoding.EncodeToString([]byte("GIF89a" + strings.Repeat("x", 200<<10)))
	c, err := Load(sealed(archiveOf(sound + "icon:\n- mediatype: image/gif\n  base64data: >-\n    " + large[:100] + "\n    " + large[100:] + "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Icons) != 1 || c.Icons[0].Base64Data != large || len(c.Problems) != 1 || c.Problems[0].Rule != ruleIconSize.Name {
		t.Errorf("got %d icons and %v", len(c.Icons), c.Problems)
	}
}
