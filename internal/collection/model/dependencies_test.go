package model

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// demoWith is a sound collection with further files.
func demoWith(files map[string]string) fstest.MapFS {
	fsys := archiveOf(head + "- {kind: Thing, playbook: run.yml}\n")
	for name, content := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func TestDependencies(t *testing.T) {
	const list = "collections/requirements.yml"
	galaxy := func(name, version, file string) Requirement {
		return Requirement{Name: name, Type: FromGalaxy, Version: version, File: file}
	}
	for name, test := range map[string]struct {
		files map[string]string
		want  Dependencies
	}{
		"nothing":               {},
		"empty files":           {files: map[string]string{list: "", "requirements.yml": "---\n", "requirements.txt": "# nothing\n\n--no-index\n"}},
		"the collection itself": {files: map[string]string{list: "collections: [acme.demo, {name: acme.demo, version: '>=1'}]"}},
		"names": {
			files: map[string]string{list: "collections:\n- ibm.ibm_zos_core\n- a.b:1.0.0\n- {name: c.d, version: '>=1.0.0, <2', source: 'https://hub.example/api/'}\n- {name: e.f, version: 1.10}\n"},
			want: Dependencies{Collections: []Requirement{
				galaxy("ibm.ibm_zos_core", "*", list), galaxy("a.b", "1.0.0", list),
				{Name: "c.d", Type: FromGalaxy, Version: ">=1.0.0,<2", Source: "https://hub.example/api/", File: list},
				galaxy("e.f", "1.10", list),
			}},
		},
		"a list at the root, and the manifest": {
			files: map[string]string{
				"requirements.yml": "- a.b\n",
				"MANIFEST.json":    `{"collection_info": {"namespace": "acme", "name": "demo", "version": "1.2.3", "dependencies": {"z.z": ">=1", "b.c": ""}}}`,
			},
			want: Dependencies{Collections: []Requirement{
				galaxy("a.b", "*", "requirements.yml"), galaxy("b.c", "*", "MANIFEST.json"), galaxy("z.z", ">=1", "MANIFEST.json"),
			}},
		},
		"files, addresses and repositories": {
			files: map[string]string{
				list:                                 "collections:\n- ./beside-it-1.0.0.tar.gz\n- deps/below-root-1.0.0.tar.gz\n- {name: /images/own-1.0.0.tar.gz, type: file}\n- https://example.com/x-y-1.0.0.tar.gz\n- {name: 'git+https://example.com/x.git', type: git, version: main}\n- {name: vendored, type: dir}\n",
				"collections/beside-it-1.0.0.tar.gz": "x", "deps/below-root-1.0.0.tar.gz": "x", "collections/vendored/galaxy.yml": "x",
			},
			want: Dependencies{Collections: []Requirement{
				{Name: "collections/beside-it-1.0.0.tar.gz", Type: FromFile, File: list},
				{Name: "deps/below-root-1.0.0.tar.gz", Type: FromFile, File: list},
				{Name: "/images/own-1.0.0.tar.gz", Type: FromFile, File: list},
				{Name: "https://example.com/x-y-1.0.0.tar.gz", Type: FromURL, File: list},
				{Name: "git+https://example.com/x.git", Type: FromGit, Version: "main", File: list},
				{Name: "collections/vendored", Type: FromFolder, File: list},
			}},
		},
		"python": {
			files: map[string]string{
				"requirements.txt": "\ufeff# packages\r\nrequests[socks] >=2.31,<3 ; python_version > '3.8'  # why\r\nPyYAML\n" +
					"jmespath==1.0.1 \\\n  --hash=sha256:00\nzos-tools @ https://example.com/zos.whl\n./wheels/own-1.0-py3-none-any.whl\nfor pip to judge >= \n",
				"collections/requirements.txt":    "--no-index\n--find-links=../wheels\n-f wheels\nlocal~=1.0\n-r ../more.txt\n",
				"wheels/own-1.0-py3-none-any.whl": "x", "more.txt": "x",
				".github/requirements.txt": "pytest\n",
			},
			want: Dependencies{Python: []PythonRequirements{
				{File: "collections/requirements.txt", Options: []string{"--no-index", "--find-links", "../wheels", "-f", "wheels"}, Requirements: []string{"local~=1.0", "-r ../more.txt"}},
				{File: "requirements.txt", Requirements: []string{
					"requests[socks] >=2.31,<3 ; python_version > '3.8'", "PyYAML", "jmespath==1.0.1 --hash=sha256:00",
					"zos-tools @ https://example.com/zos.whl", "./wheels/own-1.0-py3-none-any.whl", "for pip to judge >=",
				}},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Load(sealed(demoWith(test.files)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Dependencies); diff != "" {
				t.Errorf("dependencies (-want +got):\n%s", diff)
			}
			if c.Dependencies.Empty() != (len(test.want.Collections)+len(test.want.Python) == 0) {
				t.Error("Empty does not say whether there are dependencies")
			}
		})
	}
}

func TestDependencyProblems(t *testing.T) {
	const list = "collections/requirements.yml"
	for name, test := range map[string]struct {
		file, content string
		want          []expect
	}{
		"not YAML":         {list, "collections: [", []expect{{1, 1, "", findings.SeverityError, "yaml", "cannot be read as YAML"}}},
		"not a list":       {list, "collections: a.b\n", []expect{{1, 14, "collections", findings.SeverityError, "type", "must be a list"}}},
		"roles":            {list, "roles:\n- x\ncollections: []\n", []expect{{2, 1, "roles", findings.SeverityWarning, "requirements-role", "roles are not installed"}}},
		"a role":           {"requirements.yml", "- src: geerlingguy.java\n", []expect{{1, 3, "[0]", findings.SeverityWarning, "requirements-role", "is a role"}}},
		"no name":          {list, "collections:\n- {version: '1'}\n", []expect{{2, 3, "collections[0].name", findings.SeverityError, "required", "is required"}}},
		"name":             {list, "collections:\n- {name: zos}\n", []expect{{2, 10, "collections[0].name", findings.SeverityError, "requirements", "is not the name of a collection"}}},
		"range":            {list, "collections:\n- {name: a.b, version: '~=1'}\n", []expect{{2, 10, "collections[0].name", findings.SeverityError, "requirements", "is not a range"}}},
		"type":             {list, "collections:\n- {name: a.b, type: subdirs}\n", []expect{{2, 10, "collections[0].name", findings.SeverityError, "requirements", "type that is not supported"}}},
		"absent tarball":   {list, "collections:\n- ../../a-b-1.0.0.tar.gz\n", []expect{{2, 3, "collections[0]", findings.SeverityError, "requirements", "is not in the collection"}}},
		"URL":              {list, "collections:\n- {name: a.b, type: url}\n", []expect{{2, 10, "collections[0].name", findings.SeverityError, "requirements", "is not an http"}}},
		"source":           {list, "collections:\n- {name: a.b, source: galaxy}\n", []expect{{2, 23, "collections[0].source", findings.SeverityWarning, "requirements-source", "the configured server is asked"}}},
		"python option":    {"requirements.txt", "--user\n--pre x\n", []expect{{1, 1, "", findings.SeverityError, "python-requirements", "is not an option"}, {2, 1, "", findings.SeverityError, "python-requirements", "is not an option"}}},
		"python binary":    {"requirements.txt", "\x00", []expect{{0, 0, "", findings.SeverityError, "python-requirements", "is not a text"}}},
		"requires_ansible": {"meta/runtime.yml", "requires_ansible: new\n", []expect{{1, 19, "requires_ansible", findings.SeverityWarning, "requires-ansible", "it is ignored"}}},
	} {
		t.Run(name, func(t *testing.T) {
			checkProblems(t, problemsOf(t, demoWith(map[string]string{test.file: test.content})), test.want)
		})
	}
}

func TestDependenciesAreBounded(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"collections": {"requirements.yml": strings.Repeat("- a.b\n", maxRequirements+1)},
		"packages":    {"requirements.txt": strings.Repeat("a\n", maxRequirements+1)},
	} {
		t.Run(name, func(t *testing.T) {
			if problems := problemsOf(t, demoWith(files)); len(problems) != 1 || !strings.Contains(problems[0].Message, "more than 500") {
				t.Errorf("got %v", problems)
			}
		})
	}
	files := map[string]string{}
	for i := range maxPythonFiles + 1 {
		files[strings.Repeat("d/", i)+"requirements.txt"] = "a\n"
	}
	if problems := problemsOf(t, demoWith(files)); len(problems) != 1 || !strings.Contains(problems[0].Message, "more than 100") {
		t.Errorf("got %v", problems)
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add("collections:\n- ibm.ibm_zos_core\n- {name: a.b, version: '>=1,<2', type: galaxy}\nroles: []\n", "requests[socks]>=2.31 ; python_version>'3'\n-f wheels\n-r x.txt\n")
	f.Add("- ./a-b-1.0.0.tar.gz\n- src: x\n- {<<: {name: a.b}}\n", "a==1 \\\n --hash=sha256:00\n# c \\\nb @ https://x/y.whl\n")
	f.Fuzz(func(t *testing.T, list, python string) {
		c, err := Load(sealed(demoWith(map[string]string{"requirements.yml": list, "requirements.txt": python})))
		if err != nil {
			var problems findings.Problems
			if !errors.As(err, &problems) || len(problems.Refused()) == 0 {
				t.Fatalf("unexpected error: %v", err)
			}
			return
		}
		for _, r := range c.Dependencies.Collections {
			if r.Name == "" || r.File == "" || r.Type == FromGalaxy && r.Version == "" || strings.HasPrefix(r.Name, "-") {
				t.Errorf("unusable requirement %+v", r)
			}
		}
		for _, p := range c.Dependencies.Python {
			for _, text := range append(p.Options, p.Requirements...) {
				if text == "" || strings.ContainsAny(text, "\n\x00") {
					t.Errorf("unusable line %q", text)
				}
			}
		}
	})
}
