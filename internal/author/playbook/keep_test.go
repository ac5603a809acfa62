package playbook

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestNewKeep(t *testing.T) {
	tests := map[string]struct {
		size int64
		want bool
	}{
		"operator-config.yml":                   {10, false},
		"MANIFEST.json":                         {10, false},
		"anywhere/requirements.txt":             {10, false},
		"run.yml":                               {10, true},
		"playbooks/run.yaml":                    {maxPlaybookBytes, true},
		"playbooks/large.yml":                   {maxPlaybookBytes + 1, false},
		"roles/a/templates/b.j2":                {10, true},
		"roles/a/templates/b.jcl":               {10, false},
		"roles/a/library/b.py":                  {10, false},
		"playbooks/tests/x.yml":                 {10, true},
		"tests/x.yml":                           {10, false},
		"plugins/x.yml":                         {10, false},
		"collections/ansible_collections/x.yml": {10, false},
		".github/workflows/ci.yml":              {10, false},
		"roles/a/.travis.yml":                   {10, false},
	}
	for name, test := range tests {
		if got := NewKeep()(name, test.size); got != test.want {
			t.Errorf("%s of %d bytes: kept %v, want %v", name, test.size, got, test.want)
		}
	}
	keep, kept := NewKeep(), int64(0)
	for range 100 {
		if keep("run.yml", maxPlaybookBytes) {
			kept += maxPlaybookBytes
		}
	}
	if kept != maxPlaybooksBytes {
		t.Errorf("%d bytes were kept, want %d", kept, maxPlaybooksBytes)
	}
}

func TestPlaybookFiles(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{"run.yml", "galaxy.yml", "operator-config.yml", "docs/a.yml", ".git/a.yml", "roles/a/tasks/main.yml", "templates/a.j2", "a.txt"} {
		fsys[name] = &fstest.MapFile{Data: []byte("x")}
	}
	names, fit := playbookFiles(fsys)
	if diff := cmp.Diff([]string{"roles/a/tasks/main.yml", "run.yml", "templates/a.j2"}, names); diff != "" || !fit {
		t.Errorf("files differ (-want +got), fit %v:\n%s", fit, diff)
	}
}
