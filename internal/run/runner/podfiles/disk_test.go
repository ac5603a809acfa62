package podfiles

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestFilesAreBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	apiserver.Must(t, os.WriteFile(path, nil, 0o600))
	apiserver.Must(t, os.Truncate(path, maxFileBytes))
	if content, err := ReadFile(path); err != nil || len(content) != maxFileBytes {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	apiserver.Must(t, os.Truncate(path, maxFileBytes+1))
	if _, err := ReadFile(path); err == nil {
		t.Error("a larger file was read")
	}
}

func TestErrorsOfWritesNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder")
	apiserver.Must(t, os.MkdirAll(filepath.Join(path, "file"), 0o700))
	for path, want := range map[string]string{path: "write " + path + ": file exists", "/proc/file": "write /proc/file: no such file or directory"} {
		if err := WriteJSON(path, 1); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
