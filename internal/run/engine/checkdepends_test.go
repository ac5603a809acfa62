package engine

import "testing"

// dependent is a playbook in which most tasks depend on commands that a check skips: each invents a return code of 0.
const dependent = `
- {name: look, ansible.builtin.command: grep -q x DIR/file, register: found, failed_when: false}
- {name: look harder, ansible.builtin.shell: exit 1, register: found_too, failed_when: false}
- {name: by a condition, ansible.builtin.copy: {dest: DIR/a, content: a}, when: found.rc == 0, register: made}
- {name: by two hops, ansible.builtin.copy: {dest: DIR/b, content: b}, when: made is changed}
- {name: left out rightly, ansible.builtin.copy: {dest: DIR/c, content: c}, when: [found.rc == 0, k8s_cr_event == 'delete']}
- {name: by what cannot be evaluated, ansible.builtin.copy: {dest: DIR/d, content: d}, when: "found.jobs[0].ret_code.code == 0"}
- {name: by an argument, ansible.builtin.copy: {dest: DIR/e, content: "{{ found.stdout }}"}}
- {name: by a loop, ansible.builtin.copy: {dest: "DIR/{{ item }}", content: f}, loop: "{{ found.stdout_lines }}", when: item is defined}
- {name: by a condition of items, ansible.builtin.copy: {dest: "DIR/{{ item }}", content: g}, loop: [g], when: item == 'g' and found.rc == 0}
- name: by a block
  when: found is success
  block:
    - {name: in a block, ansible.builtin.copy: {dest: DIR/h, content: h}}
    - {name: of the block, ansible.builtin.copy: {dest: DIR/i, content: i}}
- {name: keep, ansible.builtin.set_fact: {is_there: "{{ found.rc == 0 }}"}}
- {name: by a fact, ansible.builtin.copy: {dest: DIR/j, content: j}, when: is_there}
- {name: by a variable, ansible.builtin.copy: {dest: DIR/k, content: k}, vars: {there: "{{ found.rc == 0 }}", really: "{{ there }}"}, when: really}
- {name: by a name, ansible.builtin.copy: {dest: DIR/l, content: l}, when: "hostvars[inventory_hostname]['found'].rc == 0"}
- {name: by the author's word, ansible.builtin.command: touch DIR/m, check_mode: false, when: found.rc == 0}
- {name: by a file, ansible.builtin.include_tasks: none.yml, when: found.rc == 0}
- {name: only asserted, ansible.builtin.assert: {that: found.rc == 1}}
- {name: only printed, ansible.builtin.debug: {msg: "{{ found.jobs[0] }}"}}
- {name: by its change, ansible.builtin.command: touch DIR/n, changed_when: found.rc == 1}
- {name: not in checks, ansible.builtin.copy: {dest: DIR/o, content: o}, when: not ansible_check_mode, register: left_out}
- {name: not in checks either, ansible.builtin.copy: {dest: "DIR/{{ item }}", content: o}, when: not ansible_check_mode, loop: [o]}
- {name: by what is left out, ansible.builtin.copy: {dest: DIR/p, content: p}, when: left_out is changed}
- {name: only in checks, ansible.builtin.stat: {path: DIR/file}, when: ansible_check_mode}
- {name: failing, ansible.builtin.slurp: {path: DIR/file}, ignore_errors: true, register: failed}
- {name: by a failure, ansible.builtin.copy: {dest: DIR/q, content: q}, when: failed is failed}
- {name: look again, ansible.builtin.stat: {path: DIR/file}, register: found}
- {name: by something else of that name, ansible.builtin.copy: {dest: DIR/r, content: r}, when: not found.stat.exists}
- {name: pretend, ansible.builtin.command: touch DIR/s, args: {creates: DIR/s}, register: pretended}
- {name: by what is pretended, ansible.builtin.copy: {dest: DIR/t, content: t}, when: pretended.rc == 0}
- {name: by nothing, ansible.builtin.copy: {dest: DIR/u, content: "found {{ 'found_too' }} {{ ansible_play_name.found_too | default('') }}"}}
`

func TestCheckIgnoresUncheckedResults(t *testing.T) {
	r := local(t)
	dir := r.tasks(dependent, "[]")
	got := r.check("pod")
	// Changed: by a failure, by something else of that name, pretend, by nothing. Checked besides: only in checks, look again.
	// Not checked: 17 that depend on something, the two looks, two that the author leaves out, and the one that fails. Not
	// counted: what does nothing on the endpoint, unless its condition depends on something.
	got.expectChecked(t, 4, 6, 22)
	expectReport(t, []string{"by a failure", "by something else of that name", "pretend", "by nothing"}, got.report.Changes.Names)
	expectReport(t, []string(nil), files(dir))
}

// A task that runs in checks only if something unknown says so does not run.
func TestCheckModeOfATaskIsNotKnown(t *testing.T) {
	r := local(t)
	dir := r.tasks(`
- {name: look, ansible.builtin.command: grep -q x DIR/file, register: found, failed_when: false}
- {name: write, ansible.builtin.copy: {dest: DIR/a, content: a}, check_mode: "{{ found.rc != 0 }}"}
`, "[]")
	got := r.check("pod")
	got.expectChecked(t, 0, 0, 2)
	expectReport(t, []string(nil), files(dir))
}

// What follows the end of a play in checks is not checked.
func TestCheckOfAPlayThatEndsInChecks(t *testing.T) {
	r := local(t)
	dir := r.tasks(`
- {name: look, ansible.builtin.stat: {path: DIR/file}}
- {ansible.builtin.meta: end_play, when: ansible_check_mode}
- {name: write, ansible.builtin.copy: {dest: DIR/a, content: a}}
`, "[]")
	got := r.check("pod")
	got.expectChecked(t, 0, 1, 1)
	expectReport(t, []string(nil), files(dir))
}

// After a condition that is not known, nobody knows whether the rest of a play runs.
func TestCheckOfAPlayThatMayEnd(t *testing.T) {
	for _, strategy := range []string{"linear", "free"} {
		t.Run(strategy, func(t *testing.T) {
			r := local(t)
			dir := r.tasks(`
- {name: look, ansible.builtin.command: grep -q x DIR/file, register: found, failed_when: false}
- {name: before, ansible.builtin.copy: {dest: DIR/a, content: a}}
- {ansible.builtin.meta: end_host, when: found.rc == 0}
- {name: after, ansible.builtin.copy: {dest: DIR/b, content: b}}
- {name: never, ansible.builtin.copy: {dest: DIR/c, content: c}, when: k8s_cr_event == 'delete'}
`, "[]")
			r.playbook("- hosts: all\n  gather_facts: false\n  strategy: " + strategy + "\n  tasks: [{import_tasks: tasks.yml}]\n")
			got := r.check("pod")
			got.expectChecked(t, 1, 1, 2)
			expectReport(t, []string{"before"}, got.report.Changes.Names)
			expectReport(t, []string(nil), files(dir))
		})
	}
}
