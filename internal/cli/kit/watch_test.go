package kit_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/test/clitest"
)

func TestWatchTellsWhatCounts(t *testing.T) {
	folder, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"playbooks/a.yml", ".git/index", "objects/x.yaml"} {
		clitest.Write(t, filepath.Join(folder, name), "")
	}
	resource := filepath.Join(elsewhere, "user.yaml")
	clitest.Write(t, resource, "")
	w, err := kit.WatchFiles(folder, []string{resource}, filepath.Join(folder, "objects"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = w.Close() }()
	// Each change comes with some that do not count.
	for _, name := range []string{
		filepath.Join(folder, "playbooks/a.yml"), filepath.Join(folder, "operator-config.yml"), resource, filepath.Join(folder, "roles/r/tasks/main.yml"),
	} {
		for _, ignored := range []string{
			filepath.Join(folder, ".git/index"), filepath.Join(folder, "playbooks/.a.yml.swp"), filepath.Join(folder, "playbooks/a.yml~"),
			filepath.Join(folder, "objects/x.yaml"), filepath.Join(elsewhere, "other.yaml"),
		} {
			clitest.Write(t, ignored, name)
		}
		clitest.Write(t, name, "changed")
		got, err := w.Next(t.Context())
		roles := filepath.Join(folder, "roles") // The first folder of those that are made.
		inNewFolder := strings.HasPrefix(name, roles) && strings.HasPrefix(got, roles)
		if err != nil || got != name && !inNewFolder {
			t.Errorf("got %q, %v, want %q", got, err, name)
		}
	}
	// Folders that were made are watched.
	clitest.Write(t, filepath.Join(folder, "roles/r/tasks/main.yml"), "again")
	if got, err := w.Next(t.Context()); err != nil || got != filepath.Join(folder, "roles/r/tasks/main.yml") {
		t.Errorf("got %q, %v", got, err)
	}
	// Editors write a new file and rename it.
	replacement := filepath.Join(elsewhere, ".new")
	clitest.Write(t, replacement, "x")
	if err := os.Rename(replacement, resource); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Next(t.Context()); err != nil || got != resource {
		t.Errorf("got %q, %v", got, err)
	}
	clitest.Write(t, filepath.Join(folder, ".git/index"), "last")
	ended, end := context.WithCancel(t.Context())
	end()
	if got, err := w.Next(ended); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}
