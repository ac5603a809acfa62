package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// check runs the playbook in check mode.
func (r *rig) check(endpoint string) result {
	r.t.Helper()
	return r.reconcile(resource{name: "one", spec: map[string]any{"zosendpoint": endpoint}, check: true, diff: true})
}

const changing = `
- hosts: all
  gather_facts: false
  tasks:
    - name: Write the content
      ansible.builtin.copy: {dest: DIR/copied, content: "new\nsame\n"}
    - name: Create a folder
      ansible.builtin.file: {path: DIR/folder, state: directory}
    - name: "Set lines of {{ what }}"
      vars: {what: the profile}
      ansible.builtin.lineinfile: {path: DIR/profile, line: "{{ item }}"}
      loop: [present, "a\u0007lert", missing]
    - name: Write a secret
      ansible.builtin.copy: {dest: DIR/secret, content: hunter2}
      no_log: true
    - name: Write elsewhere
      ansible.builtin.copy: {dest: DIR/elsewhere, content: elsewhere}
      delegate_to: localhost
    - ansible.builtin.copy: {dest: DIR/unchanged, content: "same\n"}
    - ansible.builtin.copy: {dest: DIR/never, content: never}
      when: false
    - ansible.builtin.command: rm -r DIR
      when: false
    - ansible.builtin.command: touch DIR/profile
      args: {creates: DIR/profile}
    - ansible.builtin.debug: {msg: "{{ item }}"}
      loop: []
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.copy: {dest: DIR/elsewhere, content: elsewhere}
    - ansible.builtin.command: echo elsewhere
`

const wantDiff = `TASK [Write the content]
--- before: DIR/copied
+++ after: DIR/copied
@@ -1,2 +1,2 @@
-old
+new
 same
TASK [Create a folder]
--- before
+++ after
@@ -1,4 +1,4 @@
 {
     "path": "DIR/folder",
-    "state": "absent"
+    "state": "directory"
 }
TASK [Set lines of the profile]
--- before: DIR/profile (content)
+++ after: DIR/profile (content)
@@ -1 +1,2 @@
 present
+alert
--- before: DIR/profile (content)
+++ after: DIR/profile (content)
@@ -1 +1,2 @@
 present
+missing`

func TestCheckReportsChanges(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.write("z/copied", "old\nsame\n")
	r.write("z/profile", "present\n")
	r.write("z/unchanged", "same\n")
	dir := filepath.Join(r.root, "z")
	r.playbook(strings.ReplaceAll(changing, "DIR", dir))
	before := tree(t, dir)
	got := r.check("sys1")
	got.expectSuccess(t)
	expectReport(t, &runstatus.Changes{
		Tasks: 4, Names: []string{"Write the content", "Create a folder", "Set lines of the profile", "Write a secret"},
		Diff: strings.ReplaceAll(wantDiff, "DIR", dir),
	}, got.report.Changes)
	got.expectChecked(t, 4, 6, 1) // What creates makes unnecessary is checked, too.
	expectReport(t, before, tree(t, dir))

	got = r.reconcile(resource{name: "one", spec: map[string]any{"zosendpoint": "sys1"}, check: true})
	got.expectChecked(t, 4, 6, 1)
	if got.report.Changes.Diff != "" || strings.Contains(got.output, "+new") {
		t.Errorf("a check without --diff shows %q\n%s", got.report.Changes.Diff, got.output)
	}
	expectReport(t, before, tree(t, dir))

	got = r.run("sys1")
	got.expectSuccess(t)
	if got.report.Changes != nil || got.report.Unchecked != 0 {
		t.Errorf("a run that is no check reports %+v", got.report)
	}
	got = r.check("sys1")
	got.expectSuccess(t)
	expectReport(t, &runstatus.Changes{}, got.report.Changes)
}

// tree returns the files below a folder with their content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		found[file.Name()] = ""
		if !file.IsDir() {
			found[file.Name()] = read(t, filepath.Join(dir, file.Name()))
		}
	}
	return found
}

func TestCheckCountsTasksThatAreNotChecked(t *testing.T) {
	r := local(t)
	r.write("opt/ansible/content/playbooks/files/script.sh", "#!/bin/sh\nexit 1\n")
	r.write("opt/ansible/content/playbooks/hidden.yml", "- ansible.builtin.raw: \"false\"\n  no_log: true\n")
	tests := map[string]struct {
		task string
		want int
	}{
		"command":              {`ansible.builtin.command: "false"`, 1},
		"shell":                {`ansible.builtin.shell: "false"`, 1},
		"raw":                  {`ansible.builtin.raw: "false"`, 1},
		"script":               {`ansible.builtin.script: script.sh`, 1},
		"no support":           {`job: {result: {}}`, 1},
		"fetch":                {"ansible.builtin.fetch: {src: /etc/hosts, dest: /tmp}", 1},
		"loop":                 {"ansible.builtin.command: \"false\"\n      loop: [1, 2]", 1},
		"loop, some":           {"ansible.builtin.command: \"false\"\n      loop: [1, 2]\n      when: item == 2", 1},
		"no_log":               {"ansible.builtin.command: \"false\"\n      no_log: true", 1},
		"runs nevertheless":    {"ansible.builtin.command: \"true\"\n      check_mode: false\n      changed_when: false", 0},
		"condition":            {"ansible.builtin.raw: \"false\"\n      when: false", 0},
		"condition in a loop":  {"ansible.builtin.raw: \"false\"\n      loop: [1, 2]\n      when: item > 2", 0},
		"empty loop":           {"ansible.builtin.raw: \"false\"\n      loop: []", 0},
		"creates":              {"ansible.builtin.script: {cmd: script.sh, creates: /etc/hosts}", 0},
		"command elsewhere":    {"ansible.builtin.command: \"false\"\n      delegate_to: localhost", 1},
		"hidden elsewhere":     {"ansible.builtin.command: \"false\"\n      delegate_to: \"{{ 'localhost' }}\"\n      no_log: true", 1},
		"condition elsewhere":  {"ansible.builtin.command: \"false\"\n      delegate_to: localhost\n      when: false", 0},
		"elsewhere":            {"job: {result: {}}\n      delegate_to: localhost", 0},
		"requeue_after":        {"operator_sdk.util.requeue_after: {time: 10m}", 0},
		"included conditional": {"ansible.builtin.include_tasks: none.yml\n      when: false", 0},
		"included, hidden":     {"ansible.builtin.include_tasks: hidden.yml\n      when: false", 0},
	}
	r.env = append(r.env, "ANSIBLE_COLLECTIONS_PATH="+r.root+"/usr/share/ansible/collections")
	// A task counts once at most: one run has all that count, another one all others.
	for _, counts := range []int{0, 1} {
		t.Run(fmt.Sprint(counts), func(t *testing.T) {
			playbook, want := "- hosts: all\n  gather_facts: false\n  tasks:\n", 0
			for name, test := range tests {
				if test.want == counts {
					playbook += "    - name: " + name + "\n      " + test.task + "\n"
					want += counts
				}
			}
			r.playbook(playbook)
			got := r.check("pod")
			got.expectSuccess(t)
			if got.report.Unchecked != want || got.report.Changes == nil || got.report.Changes.Tasks != 0 {
				t.Errorf("unchecked %d, changes %+v, want %d and none\n%s", got.report.Unchecked, got.report.Changes, want, got.output)
			}
		})
	}
}

func TestCheckBoundsTheDiff(t *testing.T) {
	r := local(t)
	r.playbook(fmt.Sprintf(`
- hosts: all
  gather_facts: false
  tasks:
    - name: Long
      ansible.builtin.copy: {dest: %[1]s/one, content: "{{ 'ä' * 1000 }}"}
    - name: Many
      ansible.builtin.copy: {dest: "%[1]s/{{ item }}", content: "{{ range(15000) | join('\n') }}"}
      loop: [two, three, four]
`, r.root))
	got := r.check("pod")
	got.expectSuccess(t)
	diff := got.report.Changes.Diff
	lines := strings.Split(diff, "\n")
	if len(diff) > 4096 || len(diff) < 4000 || got.report.Changes.Tasks != 2 {
		t.Errorf("%d bytes of %d tasks", len(diff), got.report.Changes.Tasks)
	}
	var missing int
	if _, err := fmt.Sscanf(lines[len(lines)-1], "... %d more lines", &missing); err != nil || len(lines)-1+missing != 6+1+3*15004 {
		t.Errorf("%d lines, the last one %q", len(lines), lines[len(lines)-1])
	}
	if long := lines[4]; len(long) > 512 || !strings.HasSuffix(long, "ää...") {
		t.Errorf("line %q", long)
	}
}
