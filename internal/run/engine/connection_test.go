package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func TestHostLostInMidRun(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(fmt.Sprintf(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.raw: kill $(cat %s); kill -9 $PPID
`, server.pids))
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
	r.playbook(`
- hosts: all
  gather_facts: false
  ignore_unreachable: true
  tasks:
    - {name: Refused in a loop, ansible.builtin.ping: , delegate_to: '{{ item }}', loop: [sys1, other]}
    - {name: Not reached, ansible.builtin.ping: , delegate_to: down}
    - {name: Hidden, ansible.builtin.ping: , delegate_to: "{{ 'down' }}", no_log: true}
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectConnection(t, endpoint.ConnectionAccepted)
}

// Tasks that run on the endpoint count, whatever host they are for.
func TestConnectionIsLostByADelegatedTask(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(`
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.raw: kill $(cat ` + server.pids + `); kill -9 $PPID
      delegate_to: sys1
      ignore_unreachable: true
- hosts: all
  gather_facts: false
  tasks:
    - {ansible.builtin.ping: , delegate_to: localhost}
    - ansible.builtin.debug: {msg: still here}
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectMessage(t, "still here")
	got.expectConnection(t, endpoint.ConnectionUnreachable)
}
