package engine

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// local returns a rig with the endpoint "pod", which needs no connection, and the module job.
func local(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.secret("pod_vars.yaml", "ansible_connection: local\n")
	r.write("opt/ansible/content/playbooks/library/job.py", returns)
	return r
}

// returns is a module that returns a given result, with as many lines of other content.
const returns = `
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"result": {"type": "dict"}, "lines": {"type": "int", "default": 0}})
module.exit_json(content=["x" * 100] * module.params["lines"], **module.params["result"])
`

func expectReport(t *testing.T, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestReportOfARun(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	// The engine's callback plugin is not found there.
	r.env = append(r.env, "ANSIBLE_CALLBACK_PLUGINS="+filepath.Join(r.content, "plugins/callback"))
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.command: "true"
    - ansible.builtin.debug: {msg: skipped}
      when: false
    - ansible.builtin.debug: {msg: elsewhere}
      delegate_to: localhost
    - ansible.builtin.fail: {msg: never mind}
      ignore_errors: true
- hosts: localhost
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {msg: not counted}
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectConnection(t, endpoint.ConnectionAccepted)
	expectReport(t, &runstatus.TaskCounts{OK: 3, Changed: 1, Skipped: 1}, got.report.Tasks)
	if want := fmt.Sprintf("127.0.0.1:%d", server.port); got.report.Host != want || got.report.User == "" {
		t.Errorf("host %q, user %q, want %q and a user", got.report.Host, got.report.User, want)
	}
	if got.report.CurrentTask != nil {
		t.Errorf("current task %v after the run", got.report.CurrentTask)
	}
}

// failing is a file of tasks that fails on a host with its name, and what is reported: {at} is the place of the failure.
type failing struct {
	tasks string
	want  []runstatus.Failure
}

func at(line int, message string) runstatus.Failure {
	return runstatus.Failure{Message: message, Task: "It fails", Line: line}
}

func with(failure runstatus.Failure, rc int, output string) runstatus.Failure {
	failure.ReturnCode, failure.Output = &rc, output
	return failure
}

func TestReportOfFailedTasks(t *testing.T) {
	const censored = "the task failed; its output is hidden by no_log {at}"
	got := expectFailures(t, map[string]failing{
		"rescued_before": {`
- block:
    - name: It fails
      ansible.builtin.fail: {msg: handled}
  rescue:
    - name: It fails
      ansible.builtin.fail: {msg: rolled back}
  always:
    - ansible.builtin.debug: {msg: ok}
`, []runstatus.Failure{at(3, "handled {at}; then rolled back ({file}:6)")}},
		"ignored_before": {`
- ansible.builtin.command: ls /nowhere
  ignore_errors: true
- name: It fails
  ansible.builtin.shell: |
    echo to stdout
    printf '\033[31mIBM explains\033[0m\a\n  why\n' >&2
    exit 8
`, []runstatus.Failure{with(at(4, "non-zero return code 8: IBM explains | why {at}"), 8, "IBM explains\n  why")}},
		"templated_name": {`
- name: "It {{ verb }}"
  vars: {verb: fails}
  ansible.builtin.fail: {msg: "one\ntwo"}
`, []runstatus.Failure{at(2, "one two {at}")}},
		"loop": {`
- name: It fails
  ansible.builtin.shell: "echo {{ item }} >&2; exit {{ item }}"
  loop: [0, 3, 4]
`, []runstatus.Failure{with(at(2, "non-zero return code 3: 3 {at}"), 3, "3")}},
		"no_log": {`
- name: It fails
  ansible.builtin.shell: "echo hunter2; exit 3"
  no_log: true
`, []runstatus.Failure{at(2, censored)}},
		"no_log_in_a_loop": {`
- name: It fails
  ansible.builtin.shell: "echo hunter2; exit {{ item }}"
  loop: [0, 3]
  no_log: true
`, []runstatus.Failure{at(2, censored)}},
		"no_log_of_one_item": {`
- name: It fails
  ansible.builtin.shell: "echo hunter2; exit {{ item }}"
  loop: [0, 3]
  no_log: "{{ item == 3 }}"
`, []runstatus.Failure{at(2, censored)}},
		"role": {"- ansible.builtin.include_role: {name: writer}\n", []runstatus.Failure{{
			Message: "no space {at}", Task: "writer : Write", File: "roles/writer/tasks/main.yml", Line: 2,
		}}},
		// ssh's messages come last in stderr, because of the terminal.
		"sys1": {"- name: It fails\n  ansible.builtin.raw: echo BPXW9018I; exit 3\n", []runstatus.Failure{
			with(at(1, "non-zero return code 3: BPXW9018I {at}"), 3, "BPXW9018I"),
		}},
	})
	if got.report.Ended != "failed" || strings.Contains(encode(t, got.report), "hunter2") {
		t.Errorf("the run has not failed, or the report has text of a no_log task: %+v", got.report)
	}
}

func TestReportNamesTheCause(t *testing.T) {
	expectFailures(t, map[string]failing{
		"rescue_repeats_the_cause": {`
- block:
    - name: It fails
      ansible.builtin.shell: echo IEC031I D37-04 >&2; exit 8
  rescue:
    - ansible.builtin.include_tasks: "{{ playbook_dir }}/give_up.yml"
`, []runstatus.Failure{with(at(3, "gave up: IEC031I D37-04 (playbooks/give_up.yml:1)"), 8, "IEC031I D37-04")}},
		"rescued_long_before": {`
- block:
    - ansible.builtin.fail: {msg: handled}
  rescue:
    - ansible.builtin.debug: {msg: ok}
- name: It fails
  ansible.builtin.fail: {msg: later}
`, []runstatus.Failure{at(6, "later {at}"), {Message: "handled {at}", Task: "ansible.builtin.fail", Line: 3}}},
		"until": {`
- name: It fails
  ansible.builtin.shell: echo starting
  register: out
  until: "'up' in out.stdout"
  retries: 2
  delay: 0
`, []runstatus.Failure{with(at(2, "until was not true after 2 attempts: starting {at}"), 0, "starting")}},
		"secret": {`
- name: It fails
  ansible.builtin.shell: echo "LOGON PASSWORD=ABC123" >&2; exit 8
`, []runstatus.Failure{with(at(2, "non-zero return code 8: LOGON PASSWORD=*** {at}"), 8, "LOGON PASSWORD=***")}},
	})
}

// expectFailures runs the tasks, each file on a host of its own. The host sys1 needs a connection.
func expectFailures(t *testing.T, tests map[string]failing) result {
	t.Helper()
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.write("opt/ansible/content/roles/writer/tasks/main.yml", "\n- name: Write\n  ansible.builtin.fail: {msg: no space}\n")
	r.write("opt/ansible/content/playbooks/give_up.yml", "- ansible.builtin.fail: {msg: 'gave up: {{ ansible_failed_result.stderr }}'}\n")
	r.write("opt/ansible/content/playbooks/sys1.yml", "- ansible.builtin.debug:\n")
	for name, test := range tests {
		r.write("opt/ansible/content/playbooks/"+name+".yml", test.tasks)
	}
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.add_host: {name: "{{ item }}", ansible_connection: local, ansible_python_interpreter: /usr/bin/python3}
      loop: ` + encode(t, slices.DeleteFunc(slices.Sorted(maps.Keys(tests)), func(name string) bool { return name == "sys1" })) + `
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.include_tasks: "{{ inventory_hostname }}.yml"
`)
	got := r.run("sys1")
	reported := map[string][]runstatus.Failure{}
	for _, failure := range got.report.Failures {
		host, message, _ := strings.Cut(strings.TrimPrefix(failure.Message, "host "), ": ")
		if _, known := tests[host]; known {
			failure.Message = message
		} else if strings.HasPrefix(failure.Message, "host ") {
			t.Errorf("failure %q of no host", failure.Message)
		}
		reported[failure.File] = append(reported[failure.File], failure)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := "playbooks/" + name + ".yml"
			for i, want := range test.want {
				if want.File != "" {
					file = want.File
				}
				test.want[i].File = file
				place := fmt.Sprintf("(%s:%d)", file, want.Line)
				test.want[i].Message = strings.NewReplacer("{at}", place, "{file}", file).Replace(want.Message)
			}
			expectReport(t, test.want, reported[file])
		})
	}
	return got
}

func TestReportOfAModuleThatCrashes(t *testing.T) {
	r := local(t)
	r.write("opt/ansible/content/playbooks/library/crash.py", "from ansible.module_utils.basic import AnsibleModule\nraise ValueError('no such data set')\n")
	r.playbook("- hosts: all\n  gather_facts: false\n  tasks:\n    - crash:\n")
	r.run("pod").expectFailure(t, "no such data set (playbooks/main.yml:4, module playbooks/library/crash.py")
}

// Only ten failures are reported, and status has the messages of as many as fit.
func TestReportNamesTheFirstHosts(t *testing.T) {
	r := local(t)
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.add_host: {name: "h{{ item }}", ansible_connection: local}
      loop: "{{ range(30) | list }}"
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.fail: {msg: no space}
`)
	message := r.run("pod").expectFailure(t).Message
	if !regexp.MustCompile(`^hosts \w+, \w+, \w+ and 28 more: no space \(playbooks/main.yml:10\)$`).MatchString(message) {
		t.Errorf("message %q", message)
	}
}

func TestReportOmitsRescuedTasksOfASuccessfulRun(t *testing.T) {
	r := local(t)
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - block:
        - ansible.builtin.fail: {msg: handled}
      rescue:
        - ansible.builtin.debug: {msg: ok}
`)
	r.run("pod").expectSuccess(t)
}

func TestReportNamesTheFileOfASyntaxError(t *testing.T) {
	r := local(t)
	r.write("opt/ansible/content/roles/broken/tasks/main.yml", "- ansible.builtin.debug:\n    msg: a: b\n")
	for name, playbook := range map[string]string{
		"before the run": "- hosts: all\n  gather_facts: false\n  roles: [broken]\n",
		"during the run": "- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.include_role: {name: broken}}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			r.playbook(playbook)
			got := r.run("pod").expectFailure(t, "PlaybookError: roles/broken/tasks/main.yml, line 2: ")
			if got.File != "roles/broken/tasks/main.yml" || got.Line != 2 || got.Task != "" {
				t.Errorf("failure %+v", got)
			}
		})
	}
}

func TestReportOfJobs(t *testing.T) {
	r := local(t)
	r.write("opt/ansible/content/playbooks/library/job_query.py", returns)
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - job: {result: {jobs: [{job_id: JOB00001, job_name: FIRST, ret_code: {msg: "CC 0000", msg_code: "0000", code: 0}}]}}
    - job: {result: {job_id: STC00002, job_name: CICSA}}
    - job: {result: {jobs: [{job_id: "{{ item }}", job_name: LOOP, ret_code: {msg: "CC", code: 4}}]}}
      loop: [J0000003, J0000004]
    - job: {result: {jobs: [{job_id: JOB00005, job_name: LONG, ret_code: {msg: ABEND, msg_code: S806, code: null}}]}, lines: 5000}
      loop: [1, 2] # Too long for one event.
    - job: {result: {jobs: [{job_id: "*", job_name: "*", ret_code: {msg: JOB NOT FOUND}}, {job_id: 17}, {job_id: "../x"}]}}
    - job: {result: {jobs: [{job_id: JOB00666, job_name: SECRET}]}}
      no_log: true
    - job: {result: {jobs: [{job_id: JOB00006, job_name: LAST}], failed: true, msg: "no"}}
      ignore_errors: true
    - job_query: {result: {jobs: [{job_id: STC00002, ret_code: {msg: AC}}]}}
`)
	got := r.run("pod")
	got.expectSuccess(t)
	expectReport(t, []runstatus.Job{
		{ID: "JOB00001", Name: "FIRST", ReturnCode: "CC 0000"},
		{ID: "STC00002", Name: "CICSA", ReturnCode: "AC"},
		{ID: "J0000003", Name: "LOOP", ReturnCode: "CC 0004"},
		{ID: "J0000004", Name: "LOOP", ReturnCode: "CC 0004"},
		{ID: "JOB00005", Name: "LONG", ReturnCode: "ABEND S806"},
		{ID: "JOB00006", Name: "LAST"},
	}, got.report.Jobs)
}

func TestReportWhileATaskRuns(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	flag := filepath.Join(r.root, "go-on")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.fail: {msg: ignored}
      ignore_errors: true
    - name: "Wait for {{ what }}"
      vars: {what: the flag}
      ansible.builtin.wait_for: {path: ` + flag + `, sleep: 1, timeout: 60}
`)
	started := time.Now().Truncate(time.Second)
	run := r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "sys1"}})
	report := run.waitForTask("Wait for the flag")
	if since := report.CurrentTask.Since.Time; report.Ended != "" || since.Before(started) || since.After(time.Now()) {
		t.Errorf("ended %q, task since %v", report.Ended, since)
	}
	if report.Connection != endpoint.ConnectionAccepted { // The gate reports a refused or an accepted credential while the run lasts.
		t.Errorf("connection %q", report.Connection)
	}
	writeFile(t, flag, "")
	run.wait().expectSuccess(t)

	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	run = r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "sys1"}})
	run.waitForTask("Wait for the flag")
	if err := run.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	got := run.wait()
	if got.report.Ended != "canceled" || len(got.report.Failures) != 0 || got.report.CurrentTask == nil {
		t.Errorf("report %+v, want canceled in a task, without failures\n%s", got.report, got.output)
	}
}

func TestRequeueAfterDoesNotEndTheRun(t *testing.T) {
	r := local(t)
	r.env = append(r.env, "ANSIBLE_COLLECTIONS_PATH="+r.root+"/usr/share/ansible/collections")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - operator_sdk.util.requeue_after: {time: 10m}
      delegate_to: localhost
    - operator_sdk.util.requeue_after: {time: 1h30m}
    - operator_sdk.util.requeue_after: {}
      ignore_errors: true
    - ansible.builtin.fail: {msg: failed later}
`)
	got := r.run("pod")
	got.expectFailure(t, "failed later")
	if got.report.RequeueAfter != "1h30m" {
		t.Errorf("requeueAfter %q, want 1h30m", got.report.RequeueAfter)
	}
}

func TestRequeueAfterWithNoLogFails(t *testing.T) {
	r := local(t)
	r.env = append(r.env, "ANSIBLE_COLLECTIONS_PATH="+r.root+"/usr/share/ansible/collections")
	r.playbook(`- hosts: all
  gather_facts: false
  tasks:
    - operator_sdk.util.requeue_after: {time: 10m}
      no_log: "{{ item == 2 }}"
      loop: [1, 2]
`)
	got := r.run("pod").expectFailure(t, "requeue_after must not have no_log, which hides its time")
	if got.File != "playbooks/main.yml" || got.Line != 4 {
		t.Errorf("failure %+v, want one of line 4", got)
	}
}
