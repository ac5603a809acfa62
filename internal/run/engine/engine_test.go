// Package engine holds the static files of the runtime image. Its tests run them
// with the real ansible-runner against a real SSH server.
package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/test/ansible"
)

const hello = `
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "hello {{ inventory_hostname }}"
`

// Specification: Operator Resources, playbook MUST: has `hosts: all`
// Specification: Resource Variables, vars SHALL: override other defaults by Ansible's precedence
func TestAuthorPlaybookRunsOnTheEndpoint(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1.example.com", `
tools: /usr
ansible_python_interpreter: "{{ bin }}/python3"
bin: "{{ tools }}/bin"
nested: {home: "{{ tools }}/lpp", count: 3}
`)
	r.playbook(`
- hosts: some-host
  gather_facts: false
  vars_files: [vars.yml]
  roles: [greeter]
`)
	r.write("opt/ansible/content/playbooks/vars.yml", "greeting: good morning\n")
	r.write("opt/ansible/content/roles/greeter/tasks/main.yml", `
- greet:
    text: "{{ greeting | loudly }} {{ inventory_hostname }} {{ nested.home }} {{ nested.count + 1 }}"
  environment: {GREETING: "{{ zosendpoint }}"}
`)
	r.write("opt/ansible/content/roles/greeter/library/greet.py", `
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"text": {"type": "str"}})
module.exit_json(msg=module.params["text"] + " " + os.environ["GREETING"] + (" over ssh" if "SSH_CONNECTION" in os.environ else ""))
`)
	r.write("opt/ansible/content/roles/greeter/filter_plugins/loud.py", `
class FilterModule:
    def filters(self):
        return {"loudly": str.upper}
`)
	got := r.reconcile(resource{
		name: "one",
		spec: map[string]any{"zosendpoint": "sys1.example.com"},
		vars: map[string]any{"zoscb_inventory_name": "some-host"},
	})
	got.expectSuccess(t)
	got.expectMessage(t, "GOOD MORNING sys1.example.com /usr/lpp 4 sys1.example.com over ssh")
	if n := server.logged(t, "subsystem request"); n != 0 {
		t.Errorf("%d SFTP sessions: modules must travel by pipelining", n)
	}
}

// The home of the pod's user is read-only. Modules that cannot be piped to Python write to the home of the run.
func TestLocalModulesWriteToTheHomeOfTheRun(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	r.secret("pod_vars.yaml", "ansible_connection: local\nanswer: 42\n")
	server.endpoint(r, "sys1", "")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: made, dest: "` + r.root + `/made"}
      delegate_to: "{{ (inventory_hostname == 'pod') | ternary('pod', 'localhost') }}"
    - ansible.builtin.debug: {msg: "the answer is {{ answer | default('unknown') }}"}
`)
	folder := filepath.Join(r.root, "opt/ansible/home/.ansible/tmp")
	for name, test := range map[string]struct {
		answer     string
		connection endpoint.Connection
	}{"pod": {"42", endpoint.ConnectionNone}, "sys1": {"unknown", endpoint.ConnectionAccepted}} {
		got := r.run(name)
		got.expectSuccess(t)
		got.expectMessage(t, "the answer is "+test.answer)
		got.expectConnection(t, test.connection)
		if err := os.Remove(folder); err != nil { // It is empty again.
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRefusedBeforeConnecting(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "b", "")
	server.endpoint(r, "a", "")
	server.endpoint(r, "localhost", "")
	r.secret("a_refusal", `CredentialMissing: Secret "{{ 6 * 7 }}" does not exist`)
	r.playbook(hello)
	known := "is not one of this installation's endpoints (a, b)"
	lookUp, _, _ := strings.Cut(embedded(t, "entry.yml"), "- name: Look up")
	line := 1 + strings.Count(lookUp, "\n")
	tests := map[string]struct {
		spec map[string]any
		want string
	}{
		"unknown":          {map[string]any{"zosendpoint": "c"}, `EndpointNotFound: endpoint "c" ` + known},
		"path":             {map[string]any{"zosendpoint": "../e/b"}, `EndpointNotFound: endpoint "../e/b" ` + known},
		"pattern":          {map[string]any{"zosendpoint": "*"}, `EndpointNotFound: endpoint "*" ` + known},
		"localhost":        {map[string]any{"zosendpoint": "localhost"}, `EndpointNotFound: endpoint "localhost" ` + known},
		"not a string":     {map[string]any{"zosendpoint": []any{"b"}}, `EndpointNotFound`},
		"template":         {map[string]any{"zosendpoint": "{{ lookup('pipe', 'id') }}"}, `endpoint "{{ lookup('pipe', 'id') }}" ` + known},
		"refused":          {map[string]any{"zosendpoint": "a"}, `CredentialMissing: Secret "{{ 6 * 7 }}" does not exist`},
		"engine variable":  {map[string]any{"zosendpoint": "b", "zoscb_refusal": ""}, "ReservedVariable"},
		"ansible variable": {map[string]any{"zosendpoint": "b", "ansible_connection": "local"}, "ReservedVariable: a resource must not set ansible_connection"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := r.reconcile(resource{name: "one", spec: test.spec})
			failure := got.expectFailure(t, test.want)
			got.expectConnection(t, endpoint.ConnectionNone)
			if name == "unknown" && (failure.Task != "Look up the endpoint by name" || failure.File != "entry.yml" || failure.Line != line) {
				t.Errorf("failure %+v, want one of entry.yml, line %d", failure, line)
			}
		})
	}
	r.env = append(r.env, "ZOSCB_WITHOUT_PLACE=true")
	got := r.reconcile(resource{name: "early", spec: map[string]any{"zosendpoint": "b"}})
	got.expectFailure(t, `EndpointNotFound: endpoint "b" is not one of this installation's endpoints (a)`)
	if n := server.logged(t, "Connection from"); n != 1 { // the connection that waited for the port
		t.Errorf("%d connections, want none of ours", n-1)
	}
}

func TestResourceTextIsNeverATemplate(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: "{{ title }} {{ nested.inner }}"}
`)
	got := r.reconcile(resource{name: "one", spec: map[string]any{
		"zosendpoint": "sys1",
		"title":       "{{ lookup('pipe', 'id -un') }}",
		"nested":      map[string]any{"inner": "{{ 6 * 7 }}"},
	}})
	got.expectSuccess(t)
	got.expectMessage(t, "{{ lookup('pipe', 'id -un') }} {{ 6 * 7 }}")
}

func TestUnreachable(t *testing.T) {
	r := newRig(t)
	key, public := newKey(t, "")
	port := freePort(t)
	r.endpoint("sys1", port, public, key, "")
	r.playbook(hello)
	got := r.run("sys1")
	got.expectFailure(t, fmt.Sprintf("EndpointUnreachable: endpoint sys1 (127.0.0.1:%d): ssh: connect to host", port), "Connection refused")
	got.expectConnection(t, endpoint.ConnectionUnreachable)
}

func TestWrongHostKey(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	_, other := newKey(t, "")
	r.playbook(hello)
	for name, known := range map[string]string{"changed": other, "absent": ""} {
		r.endpoint(name, server.port, known, server.key, "ansible_ssh_common_args: -o StrictHostKeyChecking=no\n")
		got := r.run(name)
		got.expectFailure(t, fmt.Sprintf("HostKeyMismatch: endpoint %s (127.0.0.1:%d)", name, server.port))
		got.expectConnection(t, endpoint.ConnectionNone)
	}
	if n := server.logged(t, "userauth-request"); n != 0 {
		t.Errorf("%d authentication requests to a host of unknown identity", n)
	}
}

// A run uses a refused credential once.
func TestRefusedKey(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	wrong, _ := newKey(t, "")
	r.endpoint("sys1", server.port, server.hostKey, wrong, "")
	r.playbook(hello)
	got := r.run("sys1")
	got.expectFailure(t, "AuthenticationFailed: endpoint sys1 (127.0.0.1:", "Permission denied (publickey")
	got.expectConnection(t, endpoint.ConnectionRefused)
	if n := server.logged(t, "method publickey"); n != 1 {
		t.Errorf("%d attempts, want 1", n)
	}
	r.secret("sys1_key", server.key)
	got = r.run("sys1")
	got.expectSuccess(t)
	got.expectConnection(t, endpoint.ConnectionAccepted)
}

func TestEncryptedKey(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	const passphrase = `it's a "secret" $HOME`
	key, public := newKey(t, passphrase)
	authorized := filepath.Join(filepath.Dir(server.log), "authorized")
	writeFile(t, authorized, public)
	r.endpoint("sys1", server.port, server.hostKey, strings.ReplaceAll(strings.TrimSpace(key), "\n", "\r\n"), "")
	r.secret("sys1_passphrase", passphrase+"\n")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {var: hostvars}
    - ansible.builtin.debug: {msg: hello}
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectMessage(t, "hello")
	if strings.Contains(encode(t, got.events), "it's a") || strings.Contains(got.output, "it's a") {
		t.Error("the passphrase shows in events or output")
	}
	info, err := os.Stat(filepath.Join(r.root, "opt/ansible/home/zoscb/endpoints/sys1/key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("private copy: %v %v, want mode 0600", info, err)
	}

	r.secret("sys1_passphrase", "wrong")
	r.run("sys1").expectFailure(t, "AuthenticationFailed: endpoint sys1", "Permission denied")
}

// Specification: Operator Resources, playbook MUST: has `hosts: all`
func TestNoHostRan(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	tests := map[string]struct{ playbook, want string }{
		"other hosts":       {"- hosts: mainframe\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: }]\n", "NoHostsMatched: "},
		"one play of two":   {"- hosts: mainframe\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: }]\n- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.meta: end_play}]\n", ""},
		"not a playbook":    {"hosts: all\n", "PlaybookError: "},
		"role not found":    {"- hosts: all\n  roles: [nowhere]\n", "PlaybookError: playbooks/main.yml, line 2: the role 'nowhere' was not found"},
		"vars file missing": {"- hosts: all\n  gather_facts: false\n  vars_files: ['{{ inventory_hostname }}.yml']\n  tasks: [{ansible.builtin.ping: }]\n", "PlaybookError: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.playbook(test.playbook)
			got := r.run("sys1")
			if test.want == "" {
				got.expectSuccess(t)
			} else {
				got.expectFailure(t, test.want)
			}
		})
	}
}

// On clusters other than OpenShift, an arbitrary UID has no name, and ssh does not run.
func TestArbitraryUID(t *testing.T) {
	if os.Getuid() != 0 {
		ansible.Skip(t, "only root can run a program as another user")
	}
	r, server := newRig(t), startSSHD(t)
	if matches, _ := filepath.Glob("/usr/lib/*/libnss_wrapper.so"); len(matches) == 0 {
		ansible.Skip(t, "libnss_wrapper.so is missing: hack/test-packages.sh installs the Debian package libnss-wrapper")
	}
	server.endpoint(r, "sys1", "ansible_remote_tmp: /tmp/.ansible-engine-test\n")
	r.playbook(strings.Replace(hello, "tasks:", "tasks:\n    - ansible.builtin.ping:", 1))
	r.credential = &syscall.Credential{Uid: 1000870000, Gid: 0}
	if err := os.Chmod(r.root, 0o770); err != nil {
		t.Fatal(err)
	}
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectMessage(t, "hello sys1")
}
