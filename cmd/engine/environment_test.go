package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/engine"
	"github.com/collection-operator/collection-operator/test/ansible"
)

// Where it is installed as the engine, the test program is the engine.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "engine" {
		main()
		return
	}
	os.Exit(m.Run())
}

// What install.sh copies into the image is embedded, too.
func TestFilesHasAllThatIsInstalled(t *testing.T) {
	for _, folder := range []string{"vars_plugins", "callback_plugins", "python", "operator_sdk_util"} {
		err := fs.WalkDir(os.DirFS("../../internal/run/engine"), folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(name, ".pyc") || strings.HasSuffix(name, "README.md") {
				return err
			}
			if _, err := fs.Stat(engine.Files, name); err != nil {
				t.Errorf("%s is installed in the image, and not embedded", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// environmentOf runs a program of the engine and returns the environment in which dependencies are installed, which is the one of
// ansible-operator too.
func environmentOf(t *testing.T, program string, env []string, args ...string) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = env
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, output)
	}
	return strings.Split(string(output), "\n")
}

// What spec.runtime.envFrom and the manager give reaches ansible-operator and dependencies, and replaces nothing that decides what runs.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("../../internal/run/engine/install.sh", root, "--engine-binary", self).CombinedOutput(); err != nil {
		t.Fatalf("install.sh: %v\n%s", err, output)
	}
	files := map[string]string{
		"bin/ansible-galaxy":               "#!" + root + "/bin/python-of-the-test\n",
		"bin/python-of-the-test":           "#!/bin/sh\nexec env\n",
		"runtime/environment":              "HTTPS_PROXY=http://proxy.example.com:3128\nNO_PROXY=.example.com\n",
		"runtime/trusted-ca.crt":           "ADDED",
		"opt/ansible/dependencies/problem": "missing",
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{
		"PATH=" + root + "/bin:" + ansible.Path, "KUBERNETES_SERVICE_HOST=10.96.0.1",
		"ZOSCB_HOME=" + root + "/opt/ansible/home", "ZOSCB_DEPENDENCIES_DIR=" + root + "/opt/ansible/dependencies",
		"ZOSCB_RUNTIME_DIR=" + root + "/runtime", "ZOSCB_COLLECTIONS_DIR=" + root + "/opt/ansible/collections",
		"ZOSCB_FROM_LICENSE=granted", "ZOSCB_FROM_PATH=/evil", "ZOSCB_FROM_PYTHONPATH=/evil", "ZOSCB_FROM_ANSIBLE_CALLBACK_PLUGINS=/evil",
		"ZOSCB_FROM_LD_PRELOAD=/evil", "ZOSCB_FROM_ZOSCB_ANSIBLE_RUNNER=/evil",
	}
	bundle := root + "/opt/ansible/collections/trusted-ca.crt"
	for program, args := range map[string][]string{"entrypoint": {"run"}, "dependencies": {"install"}} {
		got := environmentOf(t, filepath.Join(root, "opt/ansible/engine", program), env, args...)
		for _, want := range []string{
			"LICENSE=granted", "HTTPS_PROXY=http://proxy.example.com:3128", "https_proxy=http://proxy.example.com:3128",
			"NO_PROXY=.example.com,10.96.0.1,.svc,.cluster.local,localhost,127.0.0.1,::1", "SSL_CERT_FILE=" + bundle, "REQUESTS_CA_BUNDLE=" + bundle,
			`environment: runtime.envFrom cannot set ["ANSIBLE_CALLBACK_PLUGINS" "LD_PRELOAD" "PATH" "PYTHONPATH" "ZOSCB_ANSIBLE_RUNNER"]`,
		} {
			if !slices.Contains(got, want) {
				t.Errorf("%s: no %s in\n%s", program, want, strings.Join(got, "\n"))
			}
		}
		if slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, "=/evil") }) {
			t.Errorf("%s: a variable was replaced:\n%s", program, strings.Join(got, "\n"))
		}
	}
	if content, err := os.ReadFile(bundle); err != nil || !strings.HasSuffix(string(content), "\nADDED") {
		t.Errorf("bundle %.40q, %v", content, err)
	}
}
