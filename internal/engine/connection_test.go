package engine

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/endpoint"
	"github.com/collection-operator/collection-operator/internal/gate"
)

func TestHostLostInMidRun(t *testing.T) {
	const lose = `
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: kill $(cat %s); kill -9 $PPID
      ignore_unreachable: %t
    - ansible.builtin.debug: {msg: still here}
`
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(fmt.Sprintf(lose, server.pids, false))
	got := r.run("sys1")
	failure := got.expectFailure(t, "EndpointUnreachable: endpoint sys1 (127.0.0.1:")
	if failure.File != "playbooks/main.yml" || failure.Line != 5 || got.report.Tasks.Unreachable != 1 || got.report.Tasks.OK != 0 {
		t.Errorf("failure %+v, tasks %+v", failure, got.report.Tasks)
	}
	got.expectConnection(t, endpoint.ConnectionUnreachable)
	got.expectOutcome(t, gate.OutcomeUnreachable)
	if message := got.report.ConnectionMessage; message == "" || !strings.HasPrefix(failure.Message, message) {
		t.Errorf("message of the connection %q, of the failure %q", message, failure.Message)
	}

	again := startSSHD(t)
	again.endpoint(r, "sys2", "")
	r.playbook(fmt.Sprintf(lose, again.pids, true))
	got = r.run("sys2")
	got.expectSuccess(t)
	got.expectMessage(t, "still here")
	// The last task needs no connection.
	got.expectConnection(t, endpoint.ConnectionUnreachable)
}

// A run that goes on without its endpoint fails for its own reasons.
func TestLostHostIsIgnoredByAPlaybookThatFailsLater(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(fmt.Sprintf(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: kill $(cat %s); kill -9 $PPID
      ignore_unreachable: true
    - ansible.builtin.fail: {msg: of no use}
`, server.pids))
	got := r.run("sys1")
	got.expectFailure(t, "of no use")
	got.expectConnection(t, endpoint.ConnectionUnreachable)
	got.expectOutcome(t, gate.OutcomeFailed)
}

func TestHostWithoutTemporaryDirectoryIsNoOutage(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {content: text, dest: /dev/null/file}
      vars: {ansible_remote_tmp: /dev/null/temporary}
`)
	got := r.run("sys1")
	got.expectFailure(t, "EndpointNotUsable: endpoint sys1 (127.0.0.1:", "Failed to create temporary directory")
	got.expectConnection(t, endpoint.ConnectionAccepted)
	got.expectOutcome(t, gate.OutcomeFailed)
}

func TestConnectionIsReportedBesideOtherCallbackPlugins(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.env = append(r.env, "ANSIBLE_CALLBACK_PLUGINS="+filepath.Join(r.content, "plugins/callback"))
	r.playbook(hello)
	r.run("sys1").expectConnection(t, endpoint.ConnectionAccepted)
}

func TestReportWithADamagedObservation(t *testing.T) {
	r := local(t)
	for name, content := range map[string]string{
		"no JSON":       `{"connection": `,
		"no object":     `["connection"]`,
		"not UTF-8":     `\377`,
		"other fields":  `{"ended": "canceled", "surprise": 1}`,
		"other types":   `{"connection": 7, "connectionMessage": [], "changes": "many", "unchecked": "all"}`,
		"deeply nested": strings.Repeat("[", 60000),
	} {
		t.Run(name, func(t *testing.T) {
			r.write("content", content)
			r.playbook("- hosts: all\n  gather_facts: false\n  tasks:\n" +
				"    - ansible.builtin.shell: printf '%b' \"$(cat " + r.root + "/content)\" >$AWX_ISOLATED_DATA_DIR/observation.json\n")
			got := r.run("pod")
			got.expectSuccess(t)
			if got.report.ConnectionMessage != "" || got.report.Changes != nil || got.report.Unchecked != 0 {
				t.Errorf("report %+v", got.report)
			}
		})
	}
}

func TestHostIsBackInTheSameRun(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: kill -9 $PPID
      ignore_unreachable: true
    - ansible.builtin.ping:
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectConnection(t, endpoint.ConnectionAccepted)
}

// Tasks that run elsewhere say nothing about the endpoint of the resource.
func TestConnectionsOfDelegatedTasks(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	wrong, public := newKey(t, "")
	r.endpoint("down", freePort(t), public, wrong, "")
	r.endpoint("other", server.port, server.hostKey, wrong, "")
	lost := "    - ansible.builtin.raw: kill $(cat " + server.pids + "); kill -9 $PPID\n      ignore_unreachable: true\n"
	tests := []struct {
		name, tasks string
		want        endpoint.Connection
	}{
		{"not reached", "    - {ansible.builtin.ping: , delegate_to: down}\n", endpoint.ConnectionAccepted},
		{"refused, in a loop", "    - {ansible.builtin.ping: , delegate_to: '{{ item }}', loop: [sys1, other]}\n", endpoint.ConnectionAccepted},
		{"hidden", "    - {ansible.builtin.ping: , delegate_to: \"{{ 'down' }}\", no_log: true}\n", endpoint.ConnectionAccepted},
		{"succeeded", lost + "    - {ansible.builtin.ping: , delegate_to: localhost}\n", endpoint.ConnectionUnreachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r.playbook("- hosts: all\n  gather_facts: false\n  tasks:\n" + test.tasks)
			r.run("sys1").expectConnection(t, test.want)
		})
	}
	t.Run("on the endpoint", func(t *testing.T) {
		r.playbook("- hosts: localhost\n  gather_facts: false\n  tasks: [{ansible.builtin.ping: , delegate_to: sys1}]\n")
		r.run("sys1").expectConnection(t, endpoint.ConnectionUnreachable)
	})
}

// The gate reports a refused or an accepted credential while the run lasts.
func TestConnectionIsReportedDuringTheRun(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	flag := filepath.Join(r.root, "go-on")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      ansible.builtin.wait_for: {path: ` + flag + `, sleep: 1, timeout: 60}
`)
	run := r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "sys1"}})
	if report := run.waitForTask("Wait"); report.Connection != endpoint.ConnectionAccepted {
		t.Errorf("connection %q", report.Connection)
	}
	writeFile(t, flag, "")
	run.wait().expectSuccess(t)
}
