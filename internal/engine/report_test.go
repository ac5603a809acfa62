package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/collection-operator/collection-operator/internal/runstatus"
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
	expectReport(t, &runstatus.TaskCounts{OK: 3, Changed: 1, Skipped: 1}, got.report.Tasks)
	if want := fmt.Sprintf("127.0.0.1:%d", server.port); got.report.Host != want || got.report.User == "" {
		t.Errorf("host %q, user %q, want %q and a user", got.report.Host, got.report.User, want)
	}
	if got.report.CurrentTask != nil {
		t.Errorf("current task %v after the run", got.report.CurrentTask)
	}
}

// ssh's messages come last in stderr, because of the terminal.
func TestReportOmitsMessagesOfSSH(t *testing.T) {
	r, server := newRig(t), startSSHD(t)
	server.endpoint(r, "sys1", "")
	r.playbook("- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.raw: echo BPXW9018I; exit 3}]\n")
	got := r.run("sys1").expectFailure(t, "non-zero return code")
	if got.Output != "BPXW9018I" || got.ReturnCode == nil || *got.ReturnCode != 3 {
		t.Errorf("failure %+v", got)
	}
}

func TestReportHasDeclaredHostAndUser(t *testing.T) {
	r := local(t)
	r.playbook(hello)
	tests := map[string]struct{ vars, host, user string }{
		"declared":  {"ansible_host: h1\nansible_port: 2022\nansible_user: ibmuser\n", "h1:2022", "ibmuser"},
		"templates": {"ansible_host: '{{ where }}'\nansible_user: '{{ who }}'\nwhere: here\nwho: me\n", "", ""},
		"empty":     {"ansible_host:\nansible_user:\n", "", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.secret("pod_vars.yaml", "ansible_connection: local\n"+test.vars)
			got := r.run("pod")
			got.expectSuccess(t)
			if got.report.Host != test.host || got.report.User != test.user {
				t.Errorf("host %q, user %q, want %q and %q", got.report.Host, got.report.User, test.host, test.user)
			}
		})
	}
}

func TestReportOfAFailedTask(t *testing.T) {
	const censored = "the task failed; its output is hidden by no_log"
	at := func(line int, message string) runstatus.Failure {
		return runstatus.Failure{Message: message, Task: "It fails", File: "playbooks/main.yml", Line: line}
	}
	with := func(failure runstatus.Failure, rc int, output string) runstatus.Failure {
		failure.ReturnCode, failure.Output = &rc, output
		return failure
	}
	tests := map[string]struct {
		tasks string
		want  []runstatus.Failure
	}{
		"rescued": {`
    - block:
        - name: It fails
          ansible.builtin.fail: {msg: handled}
      rescue:
        - ansible.builtin.debug: {msg: ok}
`, nil},
		"rescued before the failure": {`
    - block:
        - name: It fails
          ansible.builtin.fail: {msg: handled}
      rescue:
        - name: It fails
          ansible.builtin.fail: {msg: rolled back}
      always:
        - ansible.builtin.debug: {msg: ok}
`, []runstatus.Failure{at(9, "rolled back"), at(6, "handled")}},
		"ignored before the failure": {`
    - ansible.builtin.command: ls /nowhere
      ignore_errors: true
    - name: It fails
      ansible.builtin.shell: |
        echo to stdout
        printf '\033[31mIBM explains\033[0m\a\n  why\n' >&2
        exit 8
`, []runstatus.Failure{with(at(7, "non-zero return code"), 8, "IBM explains\n  why")}},
		"several programs": {`
    - name: It fails
      job: {result: {failed: true, msg: IDCAMS failed, executions: [{rc: 12, stderr: IDC3012I}, {rc: 0, stdout: listed}]}}
`, []runstatus.Failure{with(at(5, "IDCAMS failed"), 12, "IDC3012I")}},
		"crashed module": {`
    - name: It fails
      job: {result: {failed: true, module_stderr: "Shared connection to h closed.\r\n", module_stdout: "Traceback\r\nNameError"}}
`, []runstatus.Failure{func() runstatus.Failure {
			failure := at(5, "the task failed without a message")
			failure.Output = "Traceback\nNameError"
			return failure
		}()}},
		"only stdout": {`
    - name: It fails
      ansible.builtin.shell: "seq 1000; exit 4"
`, []runstatus.Failure{with(at(5, "non-zero return code"), 4, lastBytes(numbers(1000), 2048))}},
		"templated name": {`
    - name: "It {{ verb }}"
      vars: {verb: fails}
      ansible.builtin.fail: {msg: "one\ntwo"}
`, []runstatus.Failure{at(5, "one two")}},
		"loop": {`
    - name: It fails
      ansible.builtin.shell: "echo {{ item }} >&2; exit {{ item }}"
      loop: [0, 3, 4]
`, []runstatus.Failure{with(at(5, "non-zero return code"), 3, "3")}},
		"no_log": {`
    - name: It fails
      ansible.builtin.shell: "echo hunter2; exit 3"
      no_log: true
`, []runstatus.Failure{at(5, censored)}},
		"no_log in a loop": {`
    - name: It fails
      ansible.builtin.shell: "echo hunter2; exit {{ item }}"
      loop: [0, 3]
      no_log: true
`, []runstatus.Failure{at(5, censored)}},
		"no_log of one item": {`
    - name: It fails
      ansible.builtin.shell: "echo hunter2; exit {{ item }}"
      loop: [0, 3]
      no_log: "{{ item == 3 }}"
`, []runstatus.Failure{at(5, censored)}},
		"message that is not a text": {`
    - name: It fails
      ansible.builtin.fail: {msg: [a, {b: c}]}
`, []runstatus.Failure{at(5, "a; {'b': 'c'}")}},
		"endless message": {`
    - name: It fails
      ansible.builtin.fail: {msg: "{{ 'ä' * 100000 }}"}
`, []runstatus.Failure{at(5, strings.Repeat("ä", 512))}},
	}
	r := local(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.playbook("\n- hosts: all\n  gather_facts: false\n  tasks:" + test.tasks)
			got := r.run("pod")
			expectReport(t, test.want, got.report.Failures)
			if wantEnded := map[bool]string{true: "successful", false: "failed"}[len(test.want) == 0]; got.report.Ended != wantEnded {
				t.Errorf("ended %q, want %q\n%s", got.report.Ended, wantEnded, got.output)
			}
			if strings.Contains(encode(t, got.report), "hunter2") {
				t.Errorf("the report has text of a no_log task: %+v", got.report)
			}
		})
	}
}

func numbers(last int) string {
	var out strings.Builder
	for n := range last {
		fmt.Fprintln(&out, n+1)
	}
	return strings.TrimSpace(out.String())
}

func lastBytes(text string, limit int) string { return strings.TrimSpace(text[len(text)-limit:]) }

func TestReportNamesTheFile(t *testing.T) {
	r := local(t)
	r.write("opt/ansible/content/roles/writer/tasks/main.yml", "\n- name: Write\n  ansible.builtin.fail: {msg: no space}\n")
	r.write("opt/ansible/content/roles/broken/tasks/main.yml", "- ansible.builtin.debug:\n    msg: a: b\n")
	lookUp, _, _ := strings.Cut(read(t, "entry.yml"), "- name: Look up")
	tests := map[string]struct {
		playbook string
		want     runstatus.Failure
	}{
		"role": {"- hosts: all\n  gather_facts: false\n  roles: [writer]\n", runstatus.Failure{
			Message: "no space", Task: "writer : Write", File: "roles/writer/tasks/main.yml", Line: 2,
		}},
		"syntax error": {"- hosts: all\n  gather_facts: false\n  roles: [broken]\n", runstatus.Failure{
			Message: "PlaybookError: roles/broken/tasks/main.yml, line 2: ", File: "roles/broken/tasks/main.yml", Line: 2,
		}},
		"syntax error during the run": {"- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.include_role: {name: broken}}]\n", runstatus.Failure{
			Message: "PlaybookError: roles/broken/tasks/main.yml, line 2: ", File: "roles/broken/tasks/main.yml", Line: 2,
		}},
		"engine": {hello, runstatus.Failure{
			Message: "EndpointNotFound: ", Task: "Look up the endpoint by name", File: "entry.yml",
			Line: 1 + strings.Count(lookUp, "\n"),
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.playbook(test.playbook)
			got := r.run(map[bool]string{true: "nowhere", false: "pod"}[name == "engine"]).expectFailure(t, test.want.Message)
			got.Message = test.want.Message
			expectReport(t, test.want, got)
		})
	}
}

func TestReportIsBounded(t *testing.T) {
	r := local(t)
	r.playbook(fmt.Sprintf(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.add_host: {name: "h{{ item }}", groups: many, ansible_connection: local}
      loop: "{{ range(12) }}"
- hosts: many
  gather_facts: false
  tasks:
    - name: '%[1]s'
      job: {result: {failed: true, msg: '%[1]s', stderr: '%[1]s'}}
`, strings.Repeat(`"`, 10000)))
	got := r.run("pod")
	if len(got.report.Failures) != 9 || got.report.Ended != "failed" {
		t.Errorf("%d failures, want the 9 that fit\n%s", len(got.report.Failures), got.output)
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

	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - job: {result: {job_id: "JOB{{ item + 10000 }}"}}
      loop: "{{ range(21) }}"
    - job_query: {result: {job_id: JOB20000}}
`)
	got = r.run("pod")
	got.expectSuccess(t)
	if jobs := got.report.Jobs; len(jobs) != 20 || jobs[0].ID != "JOB10001" || jobs[19].ID != "JOB10020" {
		t.Errorf("want the last 20 jobs that were submitted, got %v", jobs)
	}
}

func TestReportWhileATaskRuns(t *testing.T) {
	r := local(t)
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
	run := r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "pod"}})
	report := run.waitForTask("Wait for the flag")
	if since := report.CurrentTask.Since.Time; report.Ended != "" || since.Before(started) || since.After(time.Now()) {
		t.Errorf("ended %q, task since %v", report.Ended, since)
	}
	writeFile(t, flag, "")
	run.wait().expectSuccess(t)

	if err := os.Remove(flag); err != nil {
		t.Fatal(err)
	}
	run = r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "pod"}})
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
	const playbook = `
- hosts: all
  gather_facts: false
  tasks:
    - operator_sdk.util.requeue_after: {time: 10m}
      delegate_to: localhost
    - operator_sdk.util.requeue_after: {time: 1h30m}
    - operator_sdk.util.requeue_after: {}
      ignore_errors: true
    - ansible.builtin.fail: {msg: failed later}
      when: %t
`
	for name, fails := range map[string]bool{"succeeds": false, "fails": true} {
		t.Run(name, func(t *testing.T) {
			r.playbook(fmt.Sprintf(playbook, fails))
			got := r.run("pod")
			if fails {
				got.expectFailure(t, "failed later")
			} else {
				got.expectSuccess(t)
			}
			if got.report.RequeueAfter != "1h30m" {
				t.Errorf("requeueAfter %q, want 1h30m", got.report.RequeueAfter)
			}
		})
	}
}

func TestRequeueAfterWithNoLogFails(t *testing.T) {
	r := local(t)
	r.env = append(r.env, "ANSIBLE_COLLECTIONS_PATH="+r.root+"/usr/share/ansible/collections")
	for name, task := range map[string]string{
		"task": "      no_log: true\n",
		"item": "      no_log: \"{{ item == 2 }}\"\n      loop: [1, 2]\n",
	} {
		t.Run(name, func(t *testing.T) {
			r.playbook("- hosts: all\n  gather_facts: false\n  tasks:\n    - operator_sdk.util.requeue_after: {time: 10m}\n" + task)
			got := r.run("pod").expectFailure(t, "requeue_after must not have no_log, which hides its time")
			if got.File != "playbooks/main.yml" || got.Line != 4 {
				t.Errorf("failure %+v, want one of line 4", got)
			}
		})
	}
}
