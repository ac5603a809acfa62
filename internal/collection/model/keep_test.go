package model

import "testing"

func TestKeep(t *testing.T) {
	for name, want := range map[string]bool{
		"operator-config.yml": true, "operator-config.yaml": true, "MANIFEST.json": true, "FILES.json": true, "galaxy.yml": true,
		"meta/runtime.yml": true, "requirements.yml": true, "collections/requirements.yml": true, "anywhere/requirements.txt": true,
		"run.yml": false, "roles/a/tasks/main.yml": false, "roles/a/meta/runtime.yml": false, "README.md": false,
	} {
		if got := Keep(name, 10); got != want {
			t.Errorf("%s: kept %v, want %v", name, got, want)
		}
	}
}
