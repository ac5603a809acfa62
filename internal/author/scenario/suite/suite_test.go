package suite

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/localrun"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/runner"
	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/ansible"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "ansible-runner" { // This program is the gate, as kubectl-collection is.
		localrun.EndWithParent(runner.KillChildren)
		os.Exit(runner.Main(context.Background(), runner.DefaultIntervals(), os.Args[1:]))
	}
	if err := os.Setenv("PATH", ansible.Path); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const config = `domain: acme
name: files
version: 1.0.0
displayName: Files
resources:
  - kind: File
    displayName: File
    playbook: playbooks/file.yml
    finalizer: playbooks/file.yml
    supportsCheckMode: true
    vars:
      - {name: path, displayName: Path, type: string, required: true}
`

// sound is the playbook of which each case changes one task.
const sound = `- hosts: all
  gather_facts: false
  tasks:
    - name: Write
      ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}
      when: k8s_cr_event == 'create'
    - name: Remove
      ansible.builtin.file: {path: "{{ path }}", state: absent}
      when: k8s_cr_event == 'delete'
    - name: Report
      operator_sdk.util.k8s_status:
        api_version: "{{ k8s_cr_version }}"
        kind: "{{ k8s_cr_kind }}"
        name: "{{ ansible_operator_meta.name }}"
        namespace: "{{ ansible_operator_meta.namespace }}"
        status: {region: {size: 2}}
      delegate_to: localhost
      when: k8s_cr_event == 'create'
    - name: Ask for another run
      operator_sdk.util.requeue_after: {time: 1h}
      delegate_to: localhost
      when: written is defined and written is not changed and k8s_cr_event == 'create'
`

const standard = `resource:
  kind: File
  metadata: {name: one}
  spec: {zosendpoint: lpar1, path: PATH}
expect:
  status: {region: {size: 2}, conditions: [{type: Successful, status: "True"}]}
`

// marker is a module that makes a file. It is honest, or it pretends to support check mode: one that is lying does its work in it, and
// one that is blind returns without looking.
const marker = `
import os
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"path": {"type": "str"}, "way": {"type": "str"}}, supports_check_mode=True)
path, way = module.params["path"], module.params["way"]
if module.check_mode and way == "blind":
    module.exit_json(changed=False)
there = os.path.exists(path)
if way == "lying" or not module.check_mode:
    open(path, "w").close()
module.exit_json(changed=not there)
`

// optionsOf are those of a collection with a playbook and one scenario.
func optionsOf(t *testing.T, playbook, text string) Options {
	t.Helper()
	dir := t.TempDir()
	text = strings.ReplaceAll(text, "PATH", filepath.Join(t.TempDir(), "file"))
	for name, content := range map[string]string{
		"operator-config.yml": config, "playbooks/file.yml": playbook, "README.md": "# Files\n", scenario.Dir + "/one.yaml": text,
		"playbooks/library/marker.py": marker,
		"galaxy.yml":                  "namespace: acme\nname: files\nversion: 1.0.0\nreadme: README.md\nauthors: [A]\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var content bytes.Buffer
	if err := galaxy.Build(os.DirFS(dir), &content); err != nil {
		t.Fatal(err)
	}
	read, err := archive.Read(bytes.NewReader(content.Bytes()), archive.Limits{}, model.Keep)
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.Load(read)
	if err != nil {
		t.Fatal(err)
	}
	scenarios, problems, err := scenario.Read(os.DirFS(dir), c)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{Folder: dir, Scenarios: scenarios, Run: localrun.Options{
		Source: localrun.Source{Collection: c, Archive: content.Bytes(), Digest: digest.FromBytes(content.Bytes())},
		Login:  localrun.Login{Local: true}, Namespace: "team", Gate: self,
	}}
}

// needAnsible skips the test if a program is missing.
func needAnsible(t *testing.T) {
	t.Helper()
	ansible.NeedVersions(t)
	if err := localrun.Requirements(); err != nil {
		ansible.Skip(t, err.Error())
	}
}

// lines are the steps of one scenario: name, and what was not as expected.
func lines(results []Result) []string {
	var out []string
	for _, r := range results {
		for _, s := range r.Steps {
			line := s.Name
			switch {
			case s.Err != nil:
				line += " error: " + s.Err.Error()
			case s.Expected != "":
				line += " expected: " + s.Expected + " got: " + s.Got
			case s.Skipped != "":
				line += " skipped"
			}
			out = append(out, line)
		}
	}
	return out
}

// Each broken promise of a playbook is found by its step, and what was made is deleted in any case.
func TestStepsFindBrokenPromises(t *testing.T) {
	needAnsible(t)
	for name, tt := range map[string]struct {
		playbook, scenario string // Another one, or OLD|NEW.
		want               []string
	}{
		"a failure that is expected": {
			playbook: `{dest: "{{ path }}", content: "x", mode: "0600"}|{dest: "{{ path }}/no/such", content: "x", mode: "0600"}`,
			scenario: "resource:\n  kind: File\n  metadata: {name: one}\n  spec: {zosendpoint: lpar1, path: PATH}\nexpect: {outcome: Failed, status: {phase: Failed}}\n",
			want:     []string{"creation", "deletion"},
		},
		"neither idempotent nor made for check mode": {
			playbook: `ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}|ansible.builtin.shell: {cmd: "echo {{ 1 / 0 if ansible_check_mode else 'x' }} >> {{ path }}"}`,
			scenario: "expect:|deletion: false\nexpect:",
			want: []string{
				"unreachable skipped", "creation", "idempotence expected: a second run succeeds and changes nothing got: Succeeded: ok ",
				"check expected: a drift check finds nothing got: CheckFailed: ",
			},
		},
		"tasks that Ansible cannot check": {
			playbook: `ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}|ansible.builtin.shell: {cmd: "echo x > {{ path }}"}` + "\n      changed_when: false",
			scenario: "expect:|recreation: false\nexpect:",
			want: []string{
				"unreachable skipped", "creation", "idempotence", "check skipped", "deletion",
				"check drift expected: a drift check finds what was deleted; if it cannot, the kind must not have supportsCheckMode " +
					"got: Unchecked: nothing is known: none of 1 task was checked; the creation changed: Report",
			},
		},
		"a module that looks in check mode": {
			playbook: `ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}|marker: {path: "{{ path }}"}`,
			scenario: "expect:|idempotence: false\nexpect:",
			want:     []string{"unreachable skipped", "creation", "check", "deletion", checkDrift, "recreation"},
		},
		"a module that returns without looking": {
			playbook: `ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}|marker: {path: "{{ path }}", way: blind}`,
			scenario: "expect:|idempotence: false\nexpect:",
			want: []string{
				"unreachable skipped", "creation", "check", "deletion",
				"check drift expected: a drift check finds what was deleted; if it cannot, the kind must not have supportsCheckMode " +
					"got: NoDrift: no difference found in 1 of 1 task; the creation changed: Write, Report",
				"recreation",
			},
		},
		"a module that ignores check mode": {
			playbook: `ansible.builtin.copy: {dest: "{{ path }}", content: "x", mode: "0600"}|marker: {path: "{{ path }}", way: lying}`,
			scenario: "expect:|idempotence: false\nrecreation: false\nexpect:",
			want: []string{
				"unreachable skipped", "creation", "check", "deletion",
				"check drift expected: a drift check changes nothing: a second one finds the same " +
					"got: NoDrift: no difference found in 1 of 1 task; the first one changed: Write",
			},
		},
		"what was made in vain is deleted": {
			scenario: "size: 2}, conditions: [{type: Successful, status: \"True\"}]}|size: 3}, zone: a, conditions: [{type: Failure, status: \"True\"}]}",
			want:     []string{"unreachable skipped", "creation expected: status.conditions: an item ", "deletion"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := optionsOf(t, replaced(sound, tt.playbook), strings.ReplaceAll(replaced(standard, tt.scenario), "PATH", filepath.Join(dir, "file")))
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			got := lines(results)
			for i, line := range got {
				if i < len(tt.want) && strings.Contains(tt.want[i], ":") && strings.HasPrefix(line, tt.want[i]) {
					got[i] = tt.want[i]
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, results[0].Steps[len(results[0].Steps)-1].Output)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 && slices.ContainsFunc(got, hasCheckedDrift) {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func hasCheckedDrift(line string) bool { return strings.HasPrefix(line, checkDrift) }

func replaced(text, change string) string {
	old, replacement, ok := strings.Cut(change, "|")
	switch {
	case change == "":
		return text
	case !ok:
		return change
	}
	return strings.Replace(text, old, replacement, 1)
}

// remote is an endpoint at which nothing is tried, because the address is replaced.
const remote = `objects:
  - apiVersion: zoscb.ibm.com/v2beta2
    kind: ZosEndpoint
    metadata: {name: lpar1}
    spec:
      endpointType: remote
      host: lpar1.example.com
      hostKeys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGk5bXk5bXk5bXk5bXk5bXk5bXk5bXk5bXk5bXk5bXk5]
      credentialName: login
  - {apiVersion: v1, kind: Secret, metadata: {name: login}, stringData: {username: u, password: p}}
`

func TestARunWithoutTheEndpointIsUnreachable(t *testing.T) {
	needAnsible(t)
	t.Parallel()
	o := optionsOf(t, sound, standard+remote)
	o.Run.Login = localrun.Login{}
	trial := &trial{Options: o, scenario: o.Scenarios[0]}
	if !trial.do(t.Context(), "unreachable", true, trial.unreachable) || !strings.HasPrefix(trial.steps[0].Summary, "Unreachable: ") {
		t.Errorf("got %+v", trial.steps)
	}
}

func TestNothingRunsIfAScenarioIsWrong(t *testing.T) {
	needAnsible(t)
	o := optionsOf(t, sound, strings.Replace(standard, "path:", "pth:", 1))
	results, err := Run(t.Context(), o)
	want := filepath.Join(o.Folder, scenario.Dir, "one.yaml") + ":4: File one: unknown field \"spec.pth\"\n"
	if results != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, %v", results, err)
	}
	o = optionsOf(t, sound, standard)
	o.Run.Login = localrun.Login{}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `no endpoint "lpar1": give --host USER@HOST, --local, or`) {
		t.Errorf("got %v", err)
	}
}
