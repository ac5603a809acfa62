package engine

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// lying declares that it supports check mode, and does its work nevertheless, as zos_job_submit does.
const lying = `
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"path": {"type": "str", "required": True}}, supports_check_mode=True)
open(module.params["path"], "w").close()
module.exit_json(changed=True, rc=0)
`

// blind declares that it supports check mode, and returns without looking, as zos_data_set does.
const blind = `
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"path": {"type": "str", "required": True}}, supports_check_mode=True)
if module.check_mode:
    module.exit_json(changed=False)
there = os.path.exists(module.params["path"])
open(module.params["path"], "w").close()
module.exit_json(changed=not there)
`

// transferring is an action plugin that changes the endpoint before it runs its module, as that of zos_job_submit does.
const transferring = `
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        path = self._task.args["path"]
        self._low_level_execute_command("touch " + path + ".transferred")
        return self._execute_module(module_args={"path": path}, task_vars=task_vars)
`

// wrapping is an action plugin that runs the module of another collection.
const wrapping = `
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        args = {"path": self._task.args["path"]}
        result = self._execute_module("ibm.ibm_zos_core.zos_tso_command", args, task_vars=task_vars)
        return {"changed": True, "rc": result["rc"]}
`

// goingOn is an action plugin that goes on when check mode has skipped its module, as that of zos_copy does, and returns what is no
// result of it.
const goingOn = `
from ansible.plugins.action import ActionBase

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        path = self._task.args["path"]
        self._low_level_execute_command("touch " + path + ".transferred")
        self._execute_module(module_name="ansible.legacy.command", module_args={"_raw_params": "touch " + path}, task_vars=task_vars)
        return {"changed": False, "msg": "", "rc": None}
`

// zos is a rig with modules of our own under the names of IBM's.
func zos(t *testing.T) *rig {
	t.Helper()
	r := local(t)
	const collections, content = "opt/ansible/collections/ansible_collections/", "opt/ansible/content/"
	for name, text := range map[string]string{
		collections + "ibm/ibm_zos_core/plugins/modules/zos_job_submit.py":  lying,
		collections + "ibm/ibm_zos_core/plugins/action/zos_job_submit.py":   transferring,
		collections + "ibm/ibm_zos_core/plugins/modules/zos_tso_command.py": lying,
		collections + "ibm/ibm_zos_core/plugins/modules/zos_data_set.py":    blind,
		collections + "ibm/ibm_zos_core/plugins/modules/zos_find.py":        blind,
		collections + "ibm/ibm_zos_core/plugins/modules/zos_copy.py":        blind,
		collections + "ibm/ibm_zos_core/plugins/action/zos_copy.py":         goingOn,
		collections + "acme/zos/meta/runtime.yml":                           "plugin_routing:\n  modules:\n    submit: {redirect: ibm.ibm_zos_core.zos_tso_command}\n",
		collections + "acme/zos/plugins/modules/wrapped.py":                 lying,
		collections + "acme/zos/plugins/action/wrapped.py":                  wrapping,
		collections + "acme/zos/plugins/modules/lies.py":                    lying,
		collections + "acme/zos/plugins/modules/zos_tso_command.py":         lying,
		content + "playbooks/library/zos_tso_command.py":                    lying,
		content + "playbooks/library/marker.py":                             lying,
	} {
		r.write(name, text)
	}
	return r
}

// notRun are tasks that a check must not run.
const notRun = `
- {name: full name, ibm.ibm_zos_core.zos_tso_command: {path: DIR/a}}
- {name: short name, zos_tso_command: {path: DIR/b}, collections: [ibm.ibm_zos_core]}
- {name: beside the playbook, zos_tso_command: {path: DIR/c}}
- {name: ansible.legacy, ansible.legacy.zos_tso_command: {path: DIR/d}}
- {name: redirected, acme.zos.submit: {path: DIR/e}}
- {name: action, action: {module: ibm.ibm_zos_core.zos_tso_command, path: DIR/f}}
- {name: with an action plugin, ibm.ibm_zos_core.zos_job_submit: {path: DIR/g}}
- {name: in another one's action plugin, acme.zos.wrapped: {path: DIR/h}}
- {name: returns without looking, ibm.ibm_zos_core.zos_data_set: {path: DIR/i}}
- {name: goes on, ibm.ibm_zos_core.zos_copy: {path: DIR/s}, failed_when: false}
- {name: loop, ibm.ibm_zos_core.zos_job_submit: {path: "DIR/{{ item }}"}, loop: [j, k]}
- {name: until, ibm.ibm_zos_core.zos_tso_command: {path: DIR/l}, register: r, until: r.rc == 0, delay: 0}
- {name: asynchronous, ibm.ibm_zos_core.zos_job_submit: {path: DIR/m}, async: 10, poll: 1}
- {name: hidden, ibm.ibm_zos_core.zos_tso_command: {path: DIR/n}, no_log: true}
- {name: added by an administrator, acme.zos.lies: {path: DIR/o}}
- {name: added by its short name, marker: {path: DIR/p}}
- {name: included, ansible.builtin.include_tasks: included.yml}
- {name: nothing said about check mode, ibm.ibm_zos_core.zos_tso_command: {path: DIR/q}, check_mode: }
- {name: on localhost, ibm.ibm_zos_core.zos_tso_command: {path: DIR/r}, delegate_to: localhost}
- {name: notifying, ansible.builtin.copy: {dest: DIR/z, content: z}, notify: handler}
`

// run are tasks that a check runs, because their authors say so or because their modules are on no list.
const run = `
- {name: the author's word, ibm.ibm_zos_core.zos_tso_command: {path: DIR/q}, check_mode: false}
- {name: the author's for an item, ibm.ibm_zos_core.zos_job_submit: {path: "DIR/{{ item }}"}, check_mode: "{{ item != 'r' }}", loop: [r, s]}
- {check_mode: false, block: [{name: the author's for a block, ibm.ibm_zos_core.zos_tso_command: {path: DIR/t}}]}
- {name: another module of the collection, ibm.ibm_zos_core.zos_find: {path: DIR/u}}
- {name: another collection's module, acme.zos.zos_tso_command: {path: DIR/v}}
- {name: not to run, ibm.ibm_zos_core.zos_tso_command: {path: DIR/w}, when: false}
- {name: elsewhere, ibm.ibm_zos_core.zos_tso_command: {path: DIR/x}, delegate_to: localhost}
`

// tasks makes a playbook of tasks, in which DIR is a folder of the endpoint that it returns.
func (r *rig) tasks(tasks, handlers string) (dir string) {
	dir = r.t.TempDir()
	tasks, handlers = strings.ReplaceAll(tasks, "DIR", dir), strings.ReplaceAll(handlers, "DIR", dir)
	r.write("opt/ansible/content/playbooks/tasks.yml", tasks)
	r.write("opt/ansible/content/playbooks/handlers.yml", handlers)
	r.playbook("- hosts: all\n  gather_facts: false\n  tasks: [{import_tasks: tasks.yml}]\n  handlers: [{import_tasks: handlers.yml}]\n")
	return dir
}

// named returns the names of the tasks with an event.
func (r result) named(event string) []string {
	var names []string
	for _, e := range r.events {
		if task, ok := e.Data["task"].(string); ok && e.Event == event {
			names = append(names, task)
		}
	}
	return names
}

func files(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for i, file := range files {
		files[i] = filepath.Base(file)
	}
	return files
}

func TestCheckRunsNoModuleThatIgnoresCheckMode(t *testing.T) {
	r := zos(t)
	r.env = append(r.env, "ZOSCB_SKIPPED_MODULES=acme.zos.lies,marker")
	dir := r.tasks(notRun, "[{name: handler, ibm.ibm_zos_core.zos_tso_command: {path: DIR/y}}]\n")
	r.write("opt/ansible/content/playbooks/included.yml", "[{name: in a file, ibm.ibm_zos_core.zos_tso_command: {path: "+dir+"/x}}]\n")
	got := r.check("pod")
	got.expectChecked(t, 1, 1, 20)
	expectReport(t, []string(nil), files(dir))
	expectReport(t, []string{
		"full name", "short name", "beside the playbook", "ansible.legacy", "redirected", "action", "with an action plugin",
		"in another one's action plugin", "returns without looking", "goes on", "loop", "until", "asynchronous", "hidden",
		"added by an administrator", "added by its short name", "in a file",
		"nothing said about check mode", "on localhost", "handler",
	}, slices.DeleteFunc(got.named("runner_on_skipped"), func(name string) bool { return strings.HasPrefix(name, "Reject") || strings.HasPrefix(name, "Look up") }))
}

func TestCheckRunsWhatItsAuthorSays(t *testing.T) {
	r := zos(t)
	dir := r.tasks(run, "[]")
	// One item of a loop is not checked, and one task elsewhere.
	r.check("pod").expectChecked(t, 4, 4, 2)
	expectReport(t, []string{"q", "r", "r.transferred", "t", "v"}, files(dir))
}

// A version of Ansible that lacks what the guard needs makes no check, rather than one that could change something.
func TestNoCheckWithoutItsGuard(t *testing.T) {
	r := zos(t)
	r.write("opt/ansible/engine/python/zoscb_engine/checkguard.py", "from ansible.executor import no_such_thing\n")
	dir := r.tasks("[{acme.zos.lies: {path: DIR/a}}]", "[]")
	r.check("pod").expectFailure(t, "CheckNotSafe: this version of Ansible")
	expectReport(t, []string(nil), files(dir))
	r.run("pod").expectSuccess(t)
}

// expectChecked compares the numbers of tasks of a successful check: those that would change something, that were checked, and that
// were not.
func (r result) expectChecked(t *testing.T, changed, checked, unchecked int) {
	t.Helper()
	r.expectSuccess(t)
	if r.report.Changes == nil {
		t.Fatalf("no changes in the report\n%s", r.output)
	}
	want := [3]int{changed, checked, unchecked}
	if got := [3]int{r.report.Changes.Tasks, r.report.Checked, r.report.Unchecked}; got != want {
		t.Errorf("would change, checked, unchecked: %v, want %v\n%s", got, want, r.output)
	}
}

// The list is for checks: a run runs what its playbook says.
func TestRunsRunModulesThatIgnoreCheckMode(t *testing.T) {
	r := zos(t)
	dir := r.tasks("[{ibm.ibm_zos_core.zos_job_submit: {path: DIR/a}}, {ibm.ibm_zos_core.zos_tso_command: {path: DIR/b}, check_mode: true}]", "[]")
	r.run("pod").expectSuccess(t)
	expectReport(t, []string{"a", "a.transferred", "b"}, files(dir))
}
