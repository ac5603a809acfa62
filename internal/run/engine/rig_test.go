package engine

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
	"github.com/collection-operator/collection-operator/test/ansible"
)

// rig is an installed engine with a Secret and an author's collection.
type rig struct {
	t         *testing.T
	root      string
	endpoints string
	content   string
	env       []string
	// credential is the user that the engine runs as; nil is the test's own.
	credential *syscall.Credential
}

//go:embed install.sh
var installer []byte

// The tests use embedded files alone: Go knows when to run them again, in any clone. It does not know what programs read.
var (
	source     string // The folder with the engine's files as in the repository.
	installing = sync.OnceValues(install)
)

func TestMain(m *testing.M) {
	if err := os.Setenv("PATH", ansible.Path); err != nil {
		panic(err)
	}
	code := m.Run()
	if source != "" {
		_ = os.RemoveAll(source)
	}
	os.Exit(code)
}

// install returns a folder that has what the image has below /.
func install() (string, error) {
	var err error
	if source, err = os.MkdirTemp("", "engine"); err != nil {
		return "", err
	}
	if err := os.CopyFS(source, Files); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(source, "install.sh"), installer, 0o600); err != nil {
		return "", err
	}
	root := filepath.Join(source, "installed")
	if out, err := exec.Command("sh", filepath.Join(source, "install.sh"), root, "--with-operator-sdk-util").CombinedOutput(); err != nil {
		return "", fmt.Errorf("install.sh: %w\n%s", err, out)
	}
	return root, nil
}

// newRig installs the engine below a short path (ssh's sockets lie in it). The test runs beside others from here on: what it
// needs lies below that path, and its servers have ports of their own.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	ansible.NeedVersions(t, "ansible-runner", "ansible-playbook", "ssh", "sshd", "ssh-keygen")
	installed, err := installing()
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/tmp", "zs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		masters, _ := filepath.Glob(root + "/opt/ansible/home/cp/*")
		for _, socket := range masters {
			_ = exec.Command("ssh", "-O", "exit", "-o", "ControlPath="+socket, "any").Run()
		}
		_ = os.RemoveAll(root)
	})
	r := &rig{t: t, root: root, endpoints: filepath.Join(root, "e"), content: filepath.Join(root, "opt/ansible/content")}
	command(t, "cp", "-a", installed+"/.", root)
	r.write("bin/ansible-operator", "#!/bin/sh\nexec ansible-runner \"$@\"\n")
	if err := os.MkdirAll(r.endpoints, 0o770); err != nil {
		t.Fatal(err)
	}
	r.env = []string{
		"PATH=" + root + "/bin:" + ansible.Path,
		"ZOSCB_HOME=" + root + "/opt/ansible/home",
		"ZOSCB_ENDPOINTS_DIR=" + r.endpoints,
		"ANSIBLE_LOCAL_TEMP=" + root + "/tmp",
	}
	for line := range strings.Lines(embedded(t, "env")) {
		if key, _, ok := strings.Cut(line, "="); ok && strings.Contains(line, "/opt/ansible/") && !strings.HasPrefix(line, "#") {
			value := strings.TrimSpace(strings.TrimPrefix(line, key+"="))
			r.env = append(r.env, key+"="+strings.ReplaceAll(value, "/opt/ansible/", root+"/opt/ansible/"))
		}
	}
	return r
}

// write writes a file below the rig's root, executable, since some are scripts.
func (r *rig) write(name, content string) {
	r.t.Helper()
	file := filepath.Join(r.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o770); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o770); err != nil {
		r.t.Fatal(err)
	}
}

// playbook writes the author's playbook.
func (r *rig) playbook(content string) { r.write("opt/ansible/content/playbooks/main.yml", content) }

// secret sets one key of the endpoints Secret. As in a Secret volume, the file is readable by the group.
func (r *rig) secret(key, content string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.endpoints, key), []byte(content), 0o640); err != nil {
		r.t.Fatal(err)
	}
}

// endpoint declares an SSH endpoint at a port of this machine.
func (r *rig) endpoint(name string, port int, hostKey, key, moreVars string) {
	r.t.Helper()
	me, err := user.Current()
	if err != nil {
		r.t.Fatal(err)
	}
	r.secret(name+"_vars.yaml", fmt.Sprintf("ansible_host: 127.0.0.1\nansible_port: %d\nansible_user: %s\n"+
		"ansible_python_interpreter: /usr/bin/python3\nansible_remote_tmp: %s/remote\n%s", port, me.Username, r.root, moreVars))
	if hostKey != "" {
		r.secret(name+"_known_hosts", fmt.Sprintf("[127.0.0.1]:%d %s\n", port, hostKey))
	}
	if key != "" {
		r.secret(name+"_key", key)
	}
}

// result is what the gate learns from a run, and what the run leaves in its folder.
type result struct {
	report runstatus.Report
	events []event
	output string
}

type event struct {
	Counter int            `json:"counter"`
	Event   string         `json:"event"`
	Data    map[string]any `json:"event_data"`
}

// messages returns the texts of successful tasks.
func (r result) messages() []string {
	var out []string
	for _, e := range r.events {
		res, _ := e.Data["res"].(map[string]any)
		if message, ok := res["msg"].(string); ok && e.Event == "runner_on_ok" {
			out = append(out, message)
		}
	}
	return out
}

// expectSuccess fails the test if the report does not say that the run was successful.
func (r result) expectSuccess(t *testing.T) {
	t.Helper()
	if r.report.Ended != "successful" || len(r.report.Failures) != 0 {
		t.Fatalf("ended %q, failures %+v\n%s", r.report.Ended, r.report.Failures, r.output)
	}
}

// expectFailure fails the test unless the run failed for exactly one reason, whose message contains all parts. It returns the
// failure.
func (r result) expectFailure(t *testing.T, parts ...string) runstatus.Failure {
	t.Helper()
	if r.report.Ended == "" || len(r.report.Failures) != 1 {
		t.Fatalf("ended %q, want one failure with %q, got %+v\n%s", r.report.Ended, parts, r.report.Failures, r.output)
	}
	for _, part := range parts {
		if !strings.Contains(r.report.Failures[0].Message, part) {
			t.Errorf("failure %q does not contain %q", r.report.Failures[0].Message, part)
		}
	}
	return r.report.Failures[0]
}

func (r result) expectConnection(t *testing.T, want endpoint.Connection) {
	t.Helper()
	if r.report.Connection != want {
		t.Errorf("connection %q, want %q\n%s", r.report.Connection, want, r.output)
	}
}

func (r result) expectOutcome(t *testing.T, want gate.Outcome) {
	t.Helper()
	if got := runstatus.OutcomeOf(r.report); got != want {
		t.Errorf("outcome %s, want %s\n%s", got, want, r.output)
	}
}

func (r result) expectMessage(t *testing.T, message string) {
	t.Helper()
	if !slices.Contains(r.messages(), message) {
		t.Errorf("no task said %q, only %q\n%s", message, r.messages(), r.output)
	}
}

// resource is a custom resource for the engine.
type resource struct {
	name string
	spec map[string]any
	// vars are additional watch vars, which take precedence.
	vars map[string]any
	// check runs the playbook in check mode, and diff lets it show differences.
	check, diff bool
}

// run runs the playbook for a resource of the endpoint.
func (r *rig) run(endpoint string) result {
	r.t.Helper()
	return r.reconcile(resource{name: "one", spec: map[string]any{"zosendpoint": endpoint}})
}

// reconcile runs the playbook for a resource.
func (r *rig) reconcile(cr resource) result {
	r.t.Helper()
	return r.start(cr).wait()
}

// running is a run that has been started.
type running struct {
	*rig
	cmd       *exec.Cmd
	output    bytes.Buffer
	report    string
	artifacts string
}

// start writes the runner's folder like ansible-operator v1.34.1, and starts ansible-runner like the gate, but through the
// container's entrypoint.
func (r *rig) start(cr resource) *running {
	r.t.Helper()
	private, ident := filepath.Join("run", cr.name), fmt.Sprint(time.Now().UnixNano())
	entry := filepath.Join(r.root, "opt/ansible/engine/entry.yml")
	r.write(private+"/env/envvars", "{}")
	r.write(private+"/env/extravars", encode(r.t, r.extraVars(cr)))
	r.write(private+"/env/settings", "{}")
	r.write(private+"/inventory/hosts", read(r.t, filepath.Join(r.root, "opt/ansible/engine/inventory")))
	r.write(private+"/project/playbook.yaml", read(r.t, entry))
	private = filepath.Join(r.root, private)
	if r.credential != nil {
		command(r.t, "chown", "-R", fmt.Sprintf("%d:0", r.credential.Uid), private, filepath.Join(r.root, "opt/ansible/home"))
	}
	run := &running{
		rig:       r,
		report:    filepath.Join(private, "report-"+ident+".json"),
		artifacts: filepath.Join(private, "artifacts", ident),
	}
	args := []string{"run", private, "-p", entry, "-i", ident}
	if cr.check {
		options := "--cmdline=--check"
		if cr.diff {
			options += " --diff"
		}
		args = append(args, options)
	} else if err := os.RemoveAll(filepath.Join(private, "env/cmdline")); err != nil { // ansible-runner writes it.
		r.t.Fatal(err)
	}
	run.cmd = exec.CommandContext(r.t.Context(), filepath.Join(r.root, "opt/ansible/engine/entrypoint"), args...)
	run.cmd.Env = append(slices.Clone(r.env), "ZOSCB_RUN_REPORT="+run.report)
	run.cmd.Dir = r.root
	run.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.credential}
	run.cmd.WaitDelay = 5 * time.Second
	run.cmd.Stdout, run.cmd.Stderr = &run.output, &run.output
	if err := run.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	return run
}

// wait returns the result once the run has ended.
func (r *running) wait() result {
	r.t.Helper()
	_ = r.cmd.Wait() // The exit code is in the report.
	out := result{output: r.output.String()}
	report, ok := r.current()
	if !ok {
		r.t.Fatalf("no report\n%s", out.output)
	}
	out.report = report
	files, _ := filepath.Glob(filepath.Join(r.artifacts, "job_events", "*.json"))
	for _, file := range files {
		var e event
		if err := json.Unmarshal([]byte(read(r.t, file)), &e); err != nil {
			r.t.Fatal(err)
		}
		out.events = append(out.events, e)
	}
	slices.SortFunc(out.events, func(a, b event) int { return a.Counter - b.Counter }) // Names of files sort 100 before 99.
	return out
}

// current returns the present report, if there is one.
func (r *running) current() (runstatus.Report, bool) {
	r.t.Helper()
	var report runstatus.Report
	content, err := os.ReadFile(r.report)
	if errors.Is(err, fs.ErrNotExist) {
		return report, false
	}
	if err != nil {
		r.t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil || len(content) > 64<<10 {
		r.t.Fatalf("report of %d bytes: %v\n%s", len(content), err, content)
	}
	return report, true
}

// waitForTask returns the report as soon as a task is the current one.
func (r *running) waitForTask(name string) runstatus.Report {
	r.t.Helper()
	deadline := time.Now().Add(50 * time.Second)
	for {
		report, _ := r.current()
		if report.CurrentTask != nil && report.CurrentTask.Name == name {
			return report
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the current task is %v, want %s", report.CurrentTask, name)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (r *rig) extraVars(cr resource) map[string]any {
	vars := map[string]any{}
	for name, value := range cr.spec {
		vars[name] = gate.MarkUnsafe(value)
	}
	for name, value := range map[string]any{
		"ansible_operator_meta":                 map[string]string{"name": cr.name, "namespace": "team"},
		"_suboperator_zoscb_ibm_com_thing":      map[string]any{},
		"_suboperator_zoscb_ibm_com_thing_spec": gate.MarkUnsafe(cr.spec),
		"k8s_managed":                           true,
		"k8s_cr_event":                          "create",
		"k8s_cr_kind":                           "Thing",
		"zoscb_playbook":                        filepath.Join(r.content, "playbooks/main.yml"),
		"zoscb_inventory_name":                  "",
	} {
		vars[name] = value
	}
	for name, value := range cr.vars {
		vars[name] = value
	}
	return vars
}

// sshd is an OpenSSH server on a port of this machine. It has no SFTP, so that the transfer of modules by SFTP fails.
type sshd struct {
	port    int
	hostKey string
	// key is a private key that it accepts.
	key  string
	log  string
	pids string
}

func startSSHD(t *testing.T) *sshd {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	key, public := newKey(t, "")
	_, hostKey := newKeyFile(t, filepath.Join(dir, "host"), "")
	s := &sshd{port: freePort(t), hostKey: hostKey, key: key, log: filepath.Join(dir, "log"), pids: filepath.Join(dir, "pid")}
	writeFile(t, filepath.Join(dir, "authorized"), public)
	writeFile(t, filepath.Join(dir, "config"), fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey %s/host\nPidFile %s\n"+
		"AuthorizedKeysFile %s/authorized\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nLogLevel DEBUG1\n",
		s.port, dir, s.pids, dir))
	program, _ := exec.LookPath("sshd")
	cmd := exec.Command(program, "-D", "-E", s.log, "-f", filepath.Join(dir, "config"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitForPort(t, s.port)
	return s
}

// endpoint declares the server as an endpoint.
func (s *sshd) endpoint(r *rig, name, moreVars string) {
	r.endpoint(name, s.port, s.hostKey, s.key, moreVars)
}

// logged counts the lines of the server's log that contain text.
func (s *sshd) logged(t *testing.T, text string) int {
	t.Helper()
	return strings.Count(read(t, s.log), text)
}

// newKey creates an SSH key pair, encrypted if there is a passphrase.
func newKey(t *testing.T, passphrase string) (private, public string) {
	t.Helper()
	return newKeyFile(t, filepath.Join(t.TempDir(), "key"), passphrase)
}

func newKeyFile(t *testing.T, file, passphrase string) (private, public string) {
	t.Helper()
	command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", "", "-f", file)
	return read(t, file), strings.TrimSpace(read(t, file+".pub"))
}

var (
	portsMutex sync.Mutex
	portsGiven = map[int]bool{}
)

// freePort returns a port that no other test gets. It is below those that the system gives to connections, so that it
// stays free until the test uses it.
func freePort(t *testing.T) int {
	t.Helper()
	portsMutex.Lock()
	defer portsMutex.Unlock()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if portsGiven[port] {
			continue
		}
		if listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = listener.Close()
			portsGiven[port] = true
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func waitForPort(t *testing.T, port int) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing listens on port %d: %v", port, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, bytes.TrimSpace(output))
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// embedded returns the content of a file of the engine.
func embedded(t *testing.T, name string) string {
	t.Helper()
	content, err := Files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func writeFile(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func encode(t *testing.T, value any) string {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
