package engine

import (
	"embed"
	"os"
	"os/exec"
	"path"
	"testing"

	"github.com/collection-operator/collection-operator/test/ansible"
)

//go:embed unittests/*.py
var unittests embed.FS

// What is Python alone is tested in Python.
func TestPython(t *testing.T) {
	t.Parallel()
	ansible.NeedVersions(t)
	const python = "/usr/bin/python3" // That of Debian's Ansible.
	if exec.Command(python, "-c", "import yaml").Run() != nil {
		ansible.Skip(t, python+" with PyYAML is missing: hack/test-packages.sh installs the Debian package ansible-core")
	}
	dir := t.TempDir()
	for _, files := range []embed.FS{Files, unittests} {
		if err := os.CopyFS(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	tests, err := unittests.ReadDir("unittests")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tests {
		t.Run(file.Name(), func(t *testing.T) {
			command := exec.CommandContext(t.Context(), python, "-m", "unittest", path.Join(dir, "unittests", file.Name()))
			command.Dir, command.Env = dir, append(os.Environ(), "PYTHONPATH="+path.Join(dir, "python"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
