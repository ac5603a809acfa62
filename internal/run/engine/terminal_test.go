package engine

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What would ask somebody at a terminal fails at once. A playbook that takes a terminal's place, such as a pause with a time, runs.
func TestPlaybooksHaveNoTerminal(t *testing.T) {
	r := local(t)
	tests := map[string]struct {
		playbook string
		want     []string // The beginnings of the messages; none means success.
		line     int
	}{
		"pause": {`- hosts: all
  gather_facts: false
  tasks:
    - name: Ask the operator on call
      ansible.builtin.pause: {prompt: Continue with the change?}
`, []string{"the task waits for an answer, and playbooks have no terminal: give pause seconds or minutes"}, 4},
		"pause without arguments": {`- hosts: all
  gather_facts: false
  tasks:
    - pause:
`, []string{"the task waits for an answer, and playbooks have no terminal"}, 4},
		"pause with a time": {"- hosts: all\n  gather_facts: false\n  tasks: [{ansible.builtin.pause: {prompt: Look, seconds: 1}}]\n", nil, 0},
		"vars_prompt": {`- hosts: all
  gather_facts: false
  vars_prompt:
    - {name: known, prompt: Known, default: all right}
    - {name: ticket, prompt: Change ticket, private: false}
  tasks: [{ansible.builtin.debug: {msg: "{{ ticket }}"}}]
`, []string{"PlaybookError: playbooks/main.yml, line 5: vars_prompt asks for ticket, and playbooks have no terminal: declare ticket"}, 5},
		"vars_prompt as a mapping": {`- hosts: all
  gather_facts: false
  vars_prompt:
    name: ticket
    prompt: Change ticket
  tasks: [{ansible.builtin.debug: }]
`, []string{"PlaybookError: playbooks/main.yml, line 4: vars_prompt asks for ticket, and playbooks have no terminal"}, 4},
		"vars_prompt with a default": {`- hosts: all
  gather_facts: false
  vars_prompt: [{name: ticket, prompt: Change ticket, default: none}]
  tasks: [{ansible.builtin.assert: {that: ticket == "none"}}]
`, nil, 0},
		"vars_prompt with a value": {`- hosts: all
  gather_facts: false
  vars_prompt: [{name: zosendpoint}]
  tasks: [{ansible.builtin.debug: }]
`, nil, 0},
		"debugger": {`- hosts: all
  gather_facts: false
  debugger: on_failed
  tasks:
    - name: Fail
      ansible.builtin.fail: {msg: no space}
`, []string{"PlaybookError: playbooks/main.yml, line 5: Ansible's debugger starts at this task, and playbooks have no terminal", "no space"}, 5},
		"debugger of a task that succeeds": {`- hosts: all
  gather_facts: false
  tasks:
    - {ansible.builtin.debug: , debugger: always}
`, []string{"PlaybookError: playbooks/main.yml, line 4: Ansible's debugger starts at this task"}, 4},
		"strategy debug": {`- hosts: all
  gather_facts: false
  strategy: debug
  tasks:
    - ansible.builtin.fail: {msg: no space}
`, []string{"PlaybookError: playbooks/main.yml, line 5: Ansible's debugger starts at this task", "no space"}, 5},
		"program that opens the terminal": {`- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.shell: read answer </dev/tty
`, []string{"non-zero return code"}, 4},
		"program that reads its input": {`- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.shell: "! read answer"
`, nil, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r.playbook(test.playbook)
			got := r.run("pod")
			if len(test.want) == 0 {
				got.expectSuccess(t)
				return
			}
			if len(got.report.Failures) != len(test.want) {
				t.Fatalf("failures %+v, want %q\n%s", got.report.Failures, test.want, got.output)
			}
			for i, want := range test.want {
				if f := got.report.Failures[i]; !strings.HasPrefix(f.Message, want) || f.File != "playbooks/main.yml" || i == 0 && f.Line != test.line {
					t.Errorf("failure %+v, want %q in line %d\n%s", f, want, test.line, got.output)
				}
			}
		})
	}
}

// The end of the terminal would have ended it.
func TestPlaybookEndsWithAnsibleRunner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere Ansible keeps its terminal")
	}
	r := local(t)
	lock := filepath.Join(r.root, "lock")
	r.playbook(`- hosts: all
  gather_facts: false
  tasks:
    - name: Wait
      ansible.builtin.shell: exec 9>` + lock + `; flock 9; echo >&9; exec sleep 120
`)
	run := r.start(resource{name: "one", spec: map[string]any{"zosendpoint": "pod"}})
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	waitFor(t, "the task starts", func() bool {
		info, err := file.Stat()
		return err == nil && info.Size() > 0
	})
	if err := run.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = run.cmd.Wait()
	waitFor(t, "the task ends", func() bool { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil })
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); <-time.After(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
