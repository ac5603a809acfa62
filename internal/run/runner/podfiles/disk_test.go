package podfiles

import (
	"errors"
	"fmt"
	"net/url"
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

func TestErrorsInStatusNameNoFolderAndNoAddress(t *testing.T) {
	missing := os.Remove("/state/journal/1.json")
	away := &url.Error{Op: "Patch", URL: "https://10.0.0.1:443/apis", Err: errors.New("dial tcp 10.0.0.1:443: connection refused")}
	for want, err := range map[string]error{
		"settings: remove 1.json: no such file or directory": fmt.Errorf("settings: %w", missing),
		"write status: the API server cannot be reached":     fmt.Errorf("write status: %w", away),
		"jobs/one of demo/default is forbidden":              errors.New("jobs/one of demo/default is forbidden"),
	} {
		if got := ErrorText(err); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
