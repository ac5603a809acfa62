package engine

import (
	"path/filepath"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

func TestMigrationPlaybook(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook(hello)
	r.write("opt/ansible/content/playbooks/migrate.yml", `
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug:
        msg: "{{ zoscb_migrate.from }} to {{ zoscb_migrate.to }} {{ k8s_cr_event }} {{ k8s_cr_kind }} {{ title }}"
      when: zoscb_migrate.from is version(zoscb_migrate.to, '<', version_type='semver')
`)
	migration := gate.Migration{From: "1.9.0", To: "1.10.0"}
	got := r.reconcile(resource{
		name: "one", spec: map[string]any{"zosendpoint": "sys1", "title": "{{ 6 * 7 }}"},
		vars: migration.Vars(map[string]any{}, filepath.Join(r.content, "playbooks/migrate.yml")),
	})
	got.expectSuccess(t)
	got.expectMessage(t, "1.9.0 to 1.10.0 create Thing {{ 6 * 7 }}")
}
