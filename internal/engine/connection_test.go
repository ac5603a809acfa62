package engine

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/collection-operator/collection-operator/internal/endpoint"
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

	again := startSSHD(t)
	again.endpoint(r, "sys2", "")
	r.playbook(fmt.Sprintf(lose, again.pids, true))
	got = r.run("sys2")
	got.expectSuccess(t)
	got.expectMessage(t, "still here")
	// The last task needs no connection.
	got.expectConnection(t, endpoint.ConnectionUnreachable)
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
