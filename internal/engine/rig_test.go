package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
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
)

// path is the tests' PATH: the system's own Ansible, whatever else is installed.
const path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// rig is an installed engine with a Secret, an author's collection and the place
// where ansible-operator would listen for events.
type rig struct {
	t         *testing.T
	root      string
	endpoints string
	content   string
	env       []string
	// credential is the user that the engine runs as; nil is the test's own.
	credential *syscall.Credential
}

func TestMain(m *testing.M) {
	if err := os.Setenv("PATH", path); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// newRig installs the engine below a short path (sockets lie in it). The test runs beside others from here on: what it
// needs lies below that path, and its servers have ports of their own.
func newRig(t *testing.T) *rig {
	t.Helper()
	t.Parallel()
	need(t, "ansible-runner", "ansible-playbook", "ssh", "sshd", "ssh-keygen")
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
	command(t, "./install.sh", root, "--with-operator-sdk-util")
	r.write("bin/ansible-operator", "#!/bin/sh\nexec ansible-runner \"$@\"\n")
	if err := os.MkdirAll(r.endpoints, 0o770); err != nil {
		t.Fatal(err)
	}
	r.env = []string{
		"PATH=" + root + "/bin:" + path,
		"ZOSCB_HOME=" + root + "/opt/ansible/home",
		"ZOSCB_ENDPOINTS_DIR=" + r.endpoints,
		"ANSIBLE_LOCAL_TEMP=" + root + "/tmp",
	}
	for line := range strings.Lines(read(t, "env")) {
		if key, _, ok := strings.Cut(line, "="); ok && strings.Contains(line, "/opt/ansible/") && !strings.HasPrefix(line, "#") {
			value := strings.TrimSpace(strings.TrimPrefix(line, key+"="))
			r.env = append(r.env, key+"="+strings.ReplaceAll(value, "/opt/ansible/", root+"/opt/ansible/"))
		}
	}
	return r
}

// need skips the test, or fails it where Ansible is known to be installed.
func need(t *testing.T, programs ...string) {
	t.Helper()
	var missing []string
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) == 0 {
		return
	}
	message := fmt.Sprintf("NOT TESTED: the engine needs %s (Debian: ansible-core python3-ansible-runner openssh-server)",
		strings.Join(missing, ", "))
	if os.Getenv("CI") == "true" || os.Getenv("REQUIRE_ANSIBLE") == "1" {
		t.Fatal(message)
	}
	t.Skip(message)
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

// secret sets one key of the endpoints Secret; files as a Secret volume gives them: readable by the group.
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

// result is what ansible-operator would have received.
type result struct {
	events []event
	output string
}

type event struct {
	UUID  string         `json:"uuid"`
	Event string         `json:"event"`
	Data  map[string]any `json:"event_data"`
}

func (e event) message() string {
	res, _ := e.Data["res"].(map[string]any)
	message, _ := res["msg"].(string)
	return message
}

// failures are the messages from which ansible-operator makes the Failure
// condition; with none the run is successful.
func (r result) failures() []string {
	var out []string
	for _, e := range r.events {
		if ignored, _ := e.Data["ignore_errors"].(bool); e.Event == "runner_on_failed" && !ignored {
			out = append(out, e.message())
		}
	}
	return out
}

// messages are the texts of successful tasks.
func (r result) messages() []string {
	var out []string
	for _, e := range r.events {
		if e.Event == "runner_on_ok" {
			out = append(out, e.message())
		}
	}
	return out
}

func (r result) count(name string) int {
	n := 0
	for _, e := range r.events {
		if e.Event == name {
			n++
		}
	}
	return n
}

// expectSuccess fails the test if ansible-operator would not call the run successful.
func (r result) expectSuccess(t *testing.T) {
	t.Helper()
	if failures := r.failures(); len(failures) != 0 || r.count("playbook_on_stats") != 1 {
		t.Fatalf("failures %q, %d playbook_on_stats\n%s", failures, r.count("playbook_on_stats"), r.output)
	}
}

// expectFailure fails the test unless the run failed for exactly one reason, whose message contains all parts.
func (r result) expectFailure(t *testing.T, parts ...string) {
	t.Helper()
	failures := r.failures()
	if len(failures) != 1 || r.count("playbook_on_stats") != 1 {
		t.Fatalf("want one failure with %q, got %q and %d playbook_on_stats\n%s",
			parts, failures, r.count("playbook_on_stats"), r.output)
	}
	for _, part := range parts {
		if !strings.Contains(failures[0], part) {
			t.Errorf("failure %q does not contain %q", failures[0], part)
		}
	}
}

func (r result) expectMessage(t *testing.T, message string) {
	t.Helper()
	if !slices.Contains(r.messages(), message) {
		t.Errorf("no task said %q, only %q\n%s", message, r.messages(), r.output)
	}
}

// resource is a custom resource as the engine sees it.
type resource struct {
	name string
	spec map[string]any
	// vars are more watch vars, and override ours.
	vars map[string]any
	// kubeconfig is the file that leads to ansible-operator's proxy, if there is one.
	kubeconfig string
}

// run runs the playbook for a resource of the endpoint.
func (r *rig) run(endpoint string) result {
	r.t.Helper()
	return r.reconcile(resource{name: "one", spec: map[string]any{"zosendpoint": endpoint}})
}

// reconcile does what ansible-operator v1.34.1 does with a resource: it writes the
// runner's folder, listens for events and calls ansible-runner, here through the
// container's entrypoint.
func (r *rig) reconcile(cr resource) result {
	r.t.Helper()
	private := filepath.Join("run", cr.name)
	socket := filepath.Join(r.root, cr.name+".sock")
	stop, events := listen(r.t, socket)
	entry := filepath.Join(r.root, "opt/ansible/engine/entry.yml")
	variables := map[string]string{}
	if cr.kubeconfig != "" {
		variables["K8S_AUTH_KUBECONFIG"] = cr.kubeconfig
	}
	r.write(private+"/env/envvars", encode(r.t, variables))
	r.write(private+"/env/extravars", encode(r.t, r.extraVars(cr)))
	r.write(private+"/env/settings", encode(r.t, map[string]string{"runner_http_url": socket, "runner_http_path": "/events/"}))
	r.write(private+"/inventory/hosts", read(r.t, filepath.Join(r.root, "opt/ansible/engine/inventory")))
	r.write(private+"/project/playbook.yaml", read(r.t, entry))
	if r.credential != nil {
		command(r.t, "chown", "-R", fmt.Sprintf("%d:0", r.credential.Uid), filepath.Join(r.root, private), filepath.Join(r.root, "opt/ansible/home"))
		if err := os.Chmod(socket, 0o666); err != nil {
			r.t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(r.t.Context(), filepath.Join(r.root, "opt/ansible/engine/entrypoint"),
		"run", filepath.Join(r.root, private), "--rotate-artifacts", "20", "-p", entry, "-i", fmt.Sprint(time.Now().UnixNano()))
	cmd.Env = r.env
	cmd.Dir = r.root
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: r.credential}
	cmd.WaitDelay = 5 * time.Second
	output, _ := cmd.CombinedOutput() // ansible-operator ignores the exit code too
	stop()
	return result{events: *events, output: string(output)}
}

func (r *rig) extraVars(cr resource) map[string]any {
	vars := map[string]any{}
	for name, value := range cr.spec {
		vars[name] = markUnsafe(value)
	}
	for name, value := range map[string]any{
		"ansible_operator_meta":                 map[string]string{"name": cr.name, "namespace": "team"},
		"_suboperator_zoscb_ibm_com_thing":      map[string]any{},
		"_suboperator_zoscb_ibm_com_thing_spec": markUnsafe(cr.spec),
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

func markUnsafe(value any) any {
	switch value := value.(type) {
	case string:
		return map[string]any{"__ansible_unsafe": value}
	case map[string]any:
		marked := map[string]any{}
		for key, inner := range value {
			marked[key] = markUnsafe(inner)
		}
		return marked
	}
	return value
}

// listen receives events as ansible-operator does. The events may be read after stop.
func listen(t *testing.T, socket string) (stop func(), events *[]event) {
	t.Helper()
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var mutex sync.Mutex
	events = &[]event{}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /events/", func(w http.ResponseWriter, request *http.Request) {
		var e event
		if request.Header.Get("Content-Type") != "application/json" || json.NewDecoder(request.Body).Decode(&e) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		mutex.Lock()
		defer mutex.Unlock()
		if e.UUID != "" {
			*events = append(*events, e)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return func() {
		_ = server.Close()
		mutex.Lock()
		defer mutex.Unlock()
	}, events
}

// sshd is a real OpenSSH server on a port of this machine. It offers no SFTP, so
// that a module that travels by SFTP fails.
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

// newKey makes an SSH key pair, encrypted if there is a passphrase.
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
