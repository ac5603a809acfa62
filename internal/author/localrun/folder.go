package localrun

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/run/engine"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// The pod that holds the lock of the local operator.
const (
	podName = "local"
	podUID  = "11111111-2222-4333-8444-555555555555"
)

// prefixes of the pod's files, and where they are below the private folder.
var prefixes = []string{"/opt/ansible/", "/etc/zoscb/"}

// errCancelled ends a run whose playbook has not started yet.
var errCancelled = errors.New("cancelled before the playbook started")

// waitDelay is the time that programs get to end after they are told to, or to close their output after their end.
const waitDelay = 10 * time.Second

// folder is a private folder with the files that a pod has, below the same paths. Its path is short: sockets of ssh are below it.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

// local replaces the paths of a pod in a text.
func (f folder) local(text string) string {
	for _, prefix := range prefixes {
		text = strings.ReplaceAll(text, prefix, string(f)+prefix)
	}
	return text
}

func newFolder() (folder, error) {
	path, err := os.MkdirTemp("/tmp", "kc")
	if err != nil {
		return "", err
	}
	f := folder(path)
	for _, name := range []string{"opt/ansible/content", "opt/ansible/collections", "opt/ansible/dependencies", "opt/ansible/home", "tmp", "etc/zoscb/dependencies"} {
		err = errors.Join(err, os.MkdirAll(f.path(name), 0o700))
	}
	// An empty configuration keeps Ansible from reading that of the machine.
	return f, errors.Join(err, f.write("opt/ansible/home/ansible.cfg", nil, 0o600), f.installEngine(), f.installSSH())
}

// installSSH puts an ssh before that of the machine that reads no configuration of the user or of the machine: a pod has none. Options of
// an endpoint come later on the command line, also another -F.
func (f folder) installSSH() error {
	program, err := exec.LookPath("ssh")
	if err != nil {
		return err
	}
	return f.write("bin/ssh", []byte("#!/bin/sh\nexec '"+strings.ReplaceAll(program, "'", `'\''`)+"' -F /dev/null \"$@\"\n"), 0o700)
}

// remove ends shared connections of ssh, and removes the folder.
func (f folder) remove() error {
	sockets, _ := filepath.Glob(f.path("opt/ansible/home/cp/*"))
	for _, socket := range sockets {
		_ = exec.Command("ssh", "-O", "exit", "-o", "ControlPath="+socket, "any").Run() //nolint:gosec // A socket of our own.
	}
	return os.RemoveAll(string(f))
}

func (f folder) write(name string, content []byte, mode fs.FileMode) error {
	path := f.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// installEngine does what install.sh does.
func (f folder) installEngine() error {
	return fs.WalkDir(engine.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "README.md" {
			return err
		}
		content, err := engine.Files.ReadFile(name)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if engine.Executable(name) {
			mode = 0o700
		}
		if rest, ok := strings.CutPrefix(name, "operator_sdk_util/"); ok {
			return f.write("usr/share/ansible/collections/ansible_collections/operator_sdk/util/"+rest, content, mode)
		}
		if name == "env" { // The engine's program for dependencies reads it, too.
			content = []byte(f.local(string(content)))
		}
		return f.write("opt/ansible/engine/"+name, content, mode)
	})
}

// linkImageCollections makes the collection of the runtime image that the author's machine has visible, and no other one.
func (f folder) linkImageCollections() error {
	home, _ := os.UserHomeDir()
	for _, root := range []string{filepath.Join(home, ".ansible/collections"), "/usr/share/ansible/collections"} {
		found := filepath.Join(root, "ansible_collections/kubernetes/core")
		if _, err := os.Stat(found); err == nil {
			parent := f.path("usr/share/ansible/collections/ansible_collections/kubernetes")
			return errors.Join(os.MkdirAll(parent, 0o700), os.Symlink(found, filepath.Join(parent, "core")))
		}
	}
	return nil // A Python package with collections may have it.
}

// installContent replaces the collection's content with that of an archive, as the init container does.
func (f folder) installContent(c *model.Collection, content []byte) error {
	dir := f.path("opt/ansible/content")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := archive.Extract(bytes.NewReader(content), root, archive.Limits{}); err != nil {
		return err
	}
	parent := f.path(filepath.Join("opt/ansible/collections/ansible_collections", c.Galaxy.Namespace))
	link := filepath.Join(parent, c.Galaxy.Name)
	_ = os.Remove(link)
	return errors.Join(os.MkdirAll(parent, 0o700), os.Symlink(dir, link))
}

// mount writes the files of the runtime ConfigMap and of the endpoints Secret.
func (f folder) mount(config *corev1.ConfigMap, endpoints *corev1.Secret) error {
	if err := os.RemoveAll(f.path("etc/zoscb/endpoints")); err != nil {
		return err
	}
	for name, text := range config.Data {
		if err := f.write("etc/zoscb/runtime/"+name, []byte(f.local(text)), 0o600); err != nil {
			return err
		}
	}
	if err := f.write("opt/ansible/collections/"+gate.SettingsFile, []byte(f.local(config.Data[gate.SettingsFile])), 0o600); err != nil {
		return err
	}
	for name, content := range endpoints.Data {
		if err := f.write("etc/zoscb/endpoints/"+name, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// userBase is where pip install --user has put Ansible, which looks for it in the home folder otherwise.
func userBase() string {
	if base := os.Getenv("PYTHONUSERBASE"); base != "" {
		return base
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local")
}

// environment is that of the operator's container: the engine's file env, and what the Deployment sets. Of the author's own variables
// only PATH and the folder of Python packages remain, so that no ANSIBLE_ variable changes the run.
func (f folder) environment() ([]string, error) {
	content, err := engine.Files.ReadFile("env")
	if err != nil {
		return nil, err
	}
	env := map[string]string{
		"PATH": f.path("bin") + ":" + os.Getenv("PATH"), "HOME": f.path("opt/ansible/home"), "TMPDIR": f.path("tmp"),
		"WATCH_NAMESPACE": "", "POD_NAME": podName, "POD_UID": podUID,
	}
	for scanner := bufio.NewScanner(bytes.NewReader(content)); scanner.Scan(); {
		key, value, ok := strings.Cut(scanner.Text(), "=")
		if ok && !strings.HasPrefix(key, "#") {
			env[key] = f.local(value)
		}
	}
	env["ANSIBLE_LOCAL_TEMP"] = f.path("tmp/ansible-local")
	env["ANSIBLE_COLLECTIONS_PATH"] = f.path("opt/ansible/collections") + ":" + f.path("usr/share/ansible/collections")
	env["ANSIBLE_CONFIG"] = f.path("opt/ansible/home/ansible.cfg")
	env["PYTHONUSERBASE"] = userBase()
	env["ZOSCB_TERMINATION_LOG"] = f.path("tmp/termination-log")
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(env)) {
		if env[key] != "" {
			lines = append(lines, key+"="+env[key])
		}
	}
	return lines, nil
}

// DownloadVariables are the variables of the author's environment with which dependencies are downloaded.
var DownloadVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "PIP_INDEX_URL"}

// installDependencies runs the engine's program that the init container runs.
func (f folder) installDependencies(ctx context.Context, config *corev1.ConfigMap, output io.Writer) error {
	if config.Data[render.KeyDependencies] == "" {
		return nil
	}
	env, err := f.environment()
	if err != nil {
		return err
	}
	for _, name := range DownloadVariables {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	command := exec.CommandContext(ctx, f.path("opt/ansible/engine/dependencies"), "install") //nolint:gosec // Installed by us.
	command.Env, command.Stdout, command.Stderr = env, output, output
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = waitDelay
	if err := command.Run(); ctx.Err() != nil {
		return errCancelled
	} else if err != nil {
		return fmt.Errorf("install dependencies: %w", err)
	}
	problem, err := os.ReadFile(f.path("opt/ansible/dependencies/problem"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, errors.New(render.DependencyMissing+string(problem)))
}
