package localrun

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/ansible"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ansible-runner" { // This program is the gate, as kubectl-collection is.
		EndWithParent(runner.KillChildren)
		os.Exit(runner.Main(context.Background(), runner.DefaultIntervals(), os.Args[1:]))
	}
	if err := os.Setenv("PATH", ansible.Path); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const operatorConfig = `domain: acme
name: files
version: 1.0.0
displayName: Files
resources:
  - kind: File
    displayName: File
    playbook: playbooks/file.yml
    finalizer: playbooks/file.yml
    vars:
      - {name: path, displayName: Path, type: string, required: true}
      - {name: lines, displayName: Lines, type: number, default: 2}
      - {name: secret, displayName: Secret, type: password}
`

const playbook = `- hosts: all
  gather_facts: false
  tasks:
    - name: Hand over what the playbook gets
      ansible.builtin.copy:
        dest: "{{ path }}"
        content: "{{ lines }} {{ k8s_cr_version }} {{ ansible_operator_meta.namespace }}/{{ ansible_operator_meta.name }}\n"
        mode: "0600"
      when: k8s_cr_event == 'create'
    - name: Remove
      ansible.builtin.file: {path: "{{ path }}", state: absent}
      when: k8s_cr_event == 'delete'
    - name: Report
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status: {region: ready}
      delegate_to: localhost
      when: k8s_cr_event == 'create'
`

// source is a collection of the two files above.
func source(t *testing.T) Source {
	t.Helper()
	return sourceOf(t, playbook)
}

// sourceOf is a collection with another playbook.
func sourceOf(t *testing.T, playbook string) Source {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"operator-config.yml": operatorConfig, "playbooks/file.yml": playbook, "README.md": "# Files\n",
		"galaxy.yml": "namespace: acme\nname: files\nversion: 1.0.0\nreadme: README.md\nauthors: [A]\n",
	}
	for name, content := range files {
		writeFile(t, filepath.Join(dir, name), content)
	}
	var content bytes.Buffer
	if err := galaxy.Build(os.DirFS(dir), &content); err != nil {
		t.Fatal(err)
	}
	read, err := archive.Read(bytes.NewReader(content.Bytes()), archive.Limits{}, model.Keep)
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.Load(read)
	if err != nil {
		t.Fatal(err)
	}
	return Source{Collection: c, Archive: content.Bytes(), Digest: digest.FromBytes(content.Bytes())}
}

// objectsOf reads objects as if they were in a file.
func objectsOf(t *testing.T, content string) []Object {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	writeFile(t, file, content)
	objects, err := ReadObjects([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	for i := range objects {
		objects[i].file = "objects.yaml"
	}
	return objects
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// need skips the test if a program is missing.
func need(t *testing.T) {
	t.Helper()
	ansible.NeedVersions(t, "sshd")
	if err := Requirements(); err != nil {
		ansible.Skip(t, err.Error())
	}
}

// startSSHD starts an OpenSSH server on the loopback interface, and returns how to log on.
func startSSHD(t *testing.T) Login {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"host", "key"} {
		command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", filepath.Join(dir, name))
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	hostKey, err := os.ReadFile(filepath.Join(dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "known_hosts"), fmt.Sprintf("[127.0.0.1]:%d %s", port, hostKey))
	writeFile(t, filepath.Join(dir, "config"), fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s/host\nPidFile none\n"+
		"AuthorizedKeysFile %s/key.pub\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\n", port, dir, dir))
	program, _ := exec.LookPath("sshd")
	server := exec.Command(program, "-D", "-E", filepath.Join(dir, "log"), "-f", filepath.Join(dir, "config"))
	server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	waitForPort(t, address)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return Login{Host: me.Username + "@" + address, KeyFile: filepath.Join(dir, "key"), KnownHosts: filepath.Join(dir, "known_hosts")}
}

func waitForPort(t *testing.T, address string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 500 {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			return
		}
		<-ticker.C
	}
	t.Fatalf("nothing listens on %s", address)
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// options are those of a run of a File against a server.
func options(t *testing.T, l Login, path string) (Options, *bytes.Buffer) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var output bytes.Buffer
	text := strings.ReplaceAll(fileObject, "PATH", path)
	return Options{
		Source: source(t), Kind: "File", Objects: objectsOf(t, text), Login: l, Namespace: "team", Event: gate.EventCreate, Gate: self, Output: &output,
	}, &output
}

const fileObject = `kind: File
metadata: {name: one}
spec: {zosendpoint: lpar1, path: PATH}
`
