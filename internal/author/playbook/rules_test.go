package playbook

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// head is a sound beginning of an operator-config of 5 lines; what follows begins in line 6.
const head = `domain: acme
name: demo
version: 1.2.3
displayName: Demo
resources:
`

const (
	configName = "operator-config.yml"
	sound      = head + "- {kind: Thing, playbook: run.yml}\n"
)

func withVars(vars string) string {
	return head + "- kind: Thing\n  playbook: run.yml\n  vars:\n" + vars
}

// folderOf is an author's folder with an operator-config.
func folderOf(config string) fstest.MapFS {
	return fstest.MapFS{
		configName:                {Data: []byte(config)},
		"galaxy.yml":              {Data: []byte("namespace: acme\nname: demo\nversion: 1.2.3\n")},
		"run.yml":                 {Data: []byte("- hosts: all\n")},
		"playbooks/provision.yml": {Data: []byte("- hosts: all\n")},
	}
}

// problemsOf returns what Check finds in a collection that loads.
func problemsOf(t *testing.T, fsys fs.FS) findings.Problems {
	t.Helper()
	c, err := model.Load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return Check(fsys, c)
}

// ruleCase is a collection that keeps or breaks one rule. What it does to other rules does not matter.
type ruleCase struct {
	rule findings.Rule
	name string
	// files are laid over a sound collection; an empty one is taken away.
	files map[string]string
	// want is where the rule is broken, nothing if it is kept.
	want []place
}

type place struct {
	file         string
	line, column int
}

func (c ruleCase) fsys() fstest.MapFS {
	fsys := folderOf(sound)
	for name, content := range c.files {
		if content == "" {
			delete(fsys, name)
			continue
		}
		fsys[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return fsys
}

func TestRuleCases(t *testing.T) {
	for _, c := range playbookCases {
		t.Run(c.rule.Name+"/"+c.name, func(t *testing.T) {
			var got []place
			for _, p := range problemsOf(t, c.fsys()) {
				if p.Rule != c.rule.Name {
					continue
				}
				got = append(got, place{p.File, p.Line, p.Column})
				if p.Severity != c.rule.Severity || p.Refused || p.Message == "" {
					t.Errorf("problem %+v does not agree with rule %+v", p, c.rule)
				}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("places differ (-want +got):\n%s\nof %v", diff, problemsOf(t, c.fsys()))
			}
		})
	}
}

func TestEveryRuleHasCases(t *testing.T) {
	kept, broken := map[findings.Rule]bool{}, map[findings.Rule]bool{}
	for _, c := range playbookCases {
		if len(c.want) == 0 {
			kept[c.rule] = true
		} else {
			broken[c.rule] = true
		}
	}
	for _, rule := range Rules() {
		if !kept[rule] || !broken[rule] {
			t.Errorf("rule %q has a case that keeps it: %v, and one that breaks it: %v; want both", rule.Name, kept[rule], broken[rule])
		}
		if rule.Refused {
			t.Errorf("rule %q makes a cluster refuse a collection, and clusters do not check it", rule.Name)
		}
	}
}

// varsOfThing are the variables of the kind whose playbook the cases put into run.yml. Their names stand in lines 9 to
// 13, column 12.
var varsOfThing = withVars(`  - {name: state, displayName: State, type: string, required: true}
  - {name: count, displayName: Count, type: integer, default: 1}
  - {name: comment, displayName: Comment, type: string}
  - {name: names, displayName: Names, type: string, array: true, required: true}
  - {name: flag, displayName: Flag, type: boolean, required: true}
`)

// hyphened is the Galaxy metadata of a collection that Ansible does not find by name.
const hyphened = "namespace: acme\nname: my-demo\nversion: 1.2.3\n"

// everyVar is the beginning of a playbook, 7 lines long, that uses all variables of the kind, and those without a value
// as they should.
const everyVar = `- hosts: all
  tasks:
    - ansible.builtin.debug:
        msg: "{{ state }} {{ count }} {{ comment | default('') }} {{ names }}"
    - ansible.builtin.command: ls
      when: flag
      register: listing
`

// inPlaybook makes a case of a kind with variables and the playbook run.yml.
func inPlaybook(rule findings.Rule, name, content string, places ...[2]int) ruleCase {
	c := ruleCase{rule: rule, name: name, files: map[string]string{"run.yml": content, configName: varsOfThing}}
	for _, p := range places {
		c.want = append(c.want, place{"run.yml", p[0], p[1]})
	}
	return c
}

// more is a variable that no case uses.
const more = "  - {name: more, displayName: More, type: string}\n"

// unsure makes a case of a variable that is not found, and of tasks for which that proves nothing.
func unsure(name, tasks string) ruleCase {
	return inPlaybook(ruleUnseenVar, name, everyVar+tasks).with(configName, varsOfThing+more).at(configName, 14, 12)
}

// with lays a further file over the case's collection.
func (c ruleCase) with(file, content string) ruleCase {
	c.files[file] = content
	return c
}

// at says that the rule is broken in another file.
func (c ruleCase) at(file string, line, column int) ruleCase {
	c.want = append(c.want, place{file, line, column})
	return c
}

// checkable is varsOfThing of a kind that can be checked for drift.
var checkable = varsOfThing + "  supportsCheckMode: true\n"

// task is everyVar with one more task, which begins in line 8, column 7.
func task(lines string) string { return everyVar + "    - " + lines + "\n" }

var playbookCases = []ruleCase{
	inPlaybook(rulePlaybookSyntax, "one play", everyVar),
	inPlaybook(rulePlaybookSyntax, "tags of Ansible", "- hosts: all\n  vars:\n    a: !vault |\n      $ANSIBLE_VAULT;1.1;AES256\n      3031\n    b: !unsafe '{{ x'\n  tasks: !whatever []\n"),
	inPlaybook(rulePlaybookSyntax, "JSON", `[{"hosts": "all", "tasks": []}]`),
	inPlaybook(rulePlaybookSyntax, "key twice, anchors, unknown keys", "- &p\n  hosts: all\n  hosts: all\n  frobnicate: [1]\n- <<: *p\n- *p\n"),
	inPlaybook(rulePlaybookSyntax, "what another parser takes", "%YAML 1.2\n---\n- hosts: all\n  vars: {prompt: Why?, url: http://x/y?z=1, slash: \"a\\/b\"}\n"),
	inPlaybook(rulePlaybookSyntax, "encrypted", "$ANSIBLE_VAULT;1.1;AES256\n30313233: [\n"),
	inPlaybook(rulePlaybookSyntax, "empty", "---\n", [2]int{2, 1}),
	inPlaybook(rulePlaybookSyntax, "empty list", "[]\n", [2]int{1, 1}),
	inPlaybook(rulePlaybookSyntax, "a task list's role", "hosts: all\ntasks: []\n", [2]int{1, 1}),
	inPlaybook(rulePlaybookSyntax, "no play", "- hosts: all\n- localhost\n", [2]int{2, 3}),
	inPlaybook(rulePlaybookSyntax, "no YAML", "- hosts: all\n  tasks:\n    - debug: {msg: 'x'\n", [2]int{3, 5}),
	inPlaybook(rulePlaybookSyntax, "tasks of a role", "- hosts: all\n  roles: [thing]\n").with("roles/thing/tasks/main.yml", "- debug: [\n").at("roles/thing/tasks/main.yml", 1, 1),
	inPlaybook(rulePlaybookSyntax, "tasks that no run surely reads", "- hosts: all\n  roles: [thing]\n").
		with("roles/thing/tasks/main.yml", "- include_tasks: '{{ x }}.yml'\n").with("roles/thing/tasks/other.yml", "- debug: [\n"),

	inPlaybook(rulePlaybookImport, "there", "- import_playbook: playbooks/provision.yml\n- import_playbook: '{{ x }}.yml'\n- import_playbook: other.books.run\n"),
	inPlaybook(rulePlaybookImport, "of the collection", "- ansible.builtin.import_playbook: acme.demo.provision\n"),
	inPlaybook(rulePlaybookImport, "not there", "- hosts: all\n- import_playbook: provision.yml\n", [2]int{2, 20}),

	inPlaybook(rulePlaybookSize, "256 KiB", "- hosts: all\n"+strings.Repeat("#", maxPlaybookBytes-13)),
	inPlaybook(rulePlaybookSize, "more", "- hosts: none\n"+strings.Repeat("#", maxPlaybookBytes-13), [2]int{}),
	inPlaybook(rulePlaybookSize, "deep", "- hosts: all\n  vars: "+strings.Repeat("[", 64)+strings.Repeat("]", 64)+"\n", [2]int{}),

	inPlaybook(ruleHostsAll, "all", everyVar),
	inPlaybook(ruleHostsAll, "localhost, too", "- hosts: localhost\n- hosts: [all]\n- hosts: 127.0.0.1\n"),
	inPlaybook(ruleHostsAll, "all and localhost", "- hosts: all,localhost\n- hosts: [localhost, all]\n", [2]int{1, 10}, [2]int{2, 10}),
	inPlaybook(ruleHostsAll, "imported by all", "- import_playbook: playbooks/provision.yml\n"),
	inPlaybook(ruleHostsAll, "another host", "- hosts: zos_host\n", [2]int{1, 10}),
	inPlaybook(ruleHostsAll, "among others", "- hosts: all\n- name: x\n  hosts:\n    - all\n    - other\n", [2]int{4, 5}),
	inPlaybook(ruleHostsAll, "none", "- name: x\n  tasks: []\n", [2]int{1, 3}),
	inPlaybook(ruleHostsAll, "patterns", "- hosts: '*'\n- hosts: all,!other\n- hosts: all:&other\n", [2]int{1, 10}, [2]int{2, 10}, [2]int{3, 10}),
	inPlaybook(ruleHostsAll, "empty", "- name: x\n  hosts:\n", [2]int{2, 3}),
	inPlaybook(ruleHostsAll, "imported", "- import_playbook: playbooks/provision.yml\n").with("playbooks/provision.yml", "- hosts: webservers\n").at("playbooks/provision.yml", 1, 10),
	inPlaybook(ruleHostsGroup, "no group", "- hosts: zos_host\n"),
	inPlaybook(ruleHostsGroup, "inventoryName", "- hosts: zos_host\n", [2]int{1, 10}).with(configName, sound+"inventoryName: zos_host\n"),
	inPlaybook(ruleHostsTemplate, "all", everyVar),
	inPlaybook(ruleHostsTemplate, "template", "- hosts: \"{{ target | default('all,other') }}\"\n", [2]int{1, 10}),

	inPlaybook(rulePromptedVar, "required, or with a default", "- hosts: all\n  vars_prompt:\n    - name: state\n    - {name: count, prompt: How many}\n    - {name: own, default: x}\n"),
	inPlaybook(rulePromptedVar, "optional", "- hosts: all\n  vars_prompt:\n    - {prompt: Why, name: comment}\n", [2]int{3, 27}),
	inPlaybook(rulePromptedVar, "not declared", "- hosts: all\n  vars_prompt:\n    - name: password\n      private: true\n", [2]int{3, 13}),

	inPlaybook(ruleInteractiveTask, "wait", "- hosts: all\n  tasks:\n    - ansible.builtin.pause: {seconds: 30}\n"),
	inPlaybook(ruleInteractiveTask, "prompt", "- hosts: all\n  tasks:\n    - ansible.builtin.pause: {prompt: Go on?}\n", [2]int{3, 30}),
	inPlaybook(ruleInteractiveTask, "pause with a time", "- hosts: all\n  debugger: never\n  strategy: free\n  tasks:\n    - ansible.builtin.pause: {prompt: Look, seconds: '{{ count }}'}\n"+
		"    - pause: minutes=1\n    - pause:\n      args: {seconds: 5}\n    - action: pause seconds=1\n    - pause: '{{ comment }}'\n    - debug:\n      debugger: '{{ comment }}'\n"),
	inPlaybook(ruleInteractiveTask, "pause", "- hosts: all\n  tasks:\n    - pause:\n    - action: pause prompt=x\n    - local_action: {module: pause, echo: false}\n",
		[2]int{3, 7}, [2]int{4, 15}, [2]int{5, 21}),
	inPlaybook(ruleInteractiveTask, "debugger", "- hosts: all\n  debugger: on_failed\n  roles: [{role: thing, debugger: always}]\n  tasks:\n    - block:\n        - debug:\n          debugger: on_unreachable\n      debugger: on_skipped\n",
		[2]int{2, 13}, [2]int{3, 35}, [2]int{7, 21}, [2]int{8, 17}),
	inPlaybook(ruleInteractiveTask, "strategy", "- hosts: all\n  strategy: ansible.builtin.debug\n", [2]int{2, 13}),

	inPlaybook(ruleConditionalTemplate, "without braces", task("debug:\n      when: [state == 'x', \"listing.stdout == '{{ own }}'\"]")),
	inPlaybook(ruleConditionalTemplate, "not evaluated", task("debug:\n      when: !unsafe '{{ state }}'")),
	inPlaybook(ruleConditionalTemplate, "elsewhere", task("debug: {msg: '{{ state }}'}")),
	inPlaybook(ruleConditionalTemplate, "each keyword", task(`assert:
        that:
          - "{{ comment }} > 1"
      when: "'{{ state }}' == 'x'"
      failed_when: "{{ comment }}"
      changed_when: "listing.rc == {{ names }}"
      until: "{{ state }} is defined"`), [2]int{10, 13}, [2]int{11, 13}, [2]int{12, 20}, [2]int{13, 21}, [2]int{14, 14}),
	inPlaybook(ruleConditionalTemplate, "numbers and booleans", task("debug:\n      when: [\"{{ count }} > 1\", \"{{ flag }}\", \"listing.rc == {{ count + 1 }}\"]")),
	inPlaybook(ruleConditionalTemplate, "in a block of a role", "- hosts: all\n  roles: [{role: thing, when: '{{ state }}'}]\n", [2]int{2, 31}).
		with("roles/thing/handlers/main.yml", "- block:\n    - debug:\n      when:\n        - \"{{ state }} == 'x'\"\n").at("roles/thing/handlers/main.yml", 4, 11).inOrder(),

	inPlaybook(rulePythonInterpreter, "elsewhere", "- hosts: localhost\n  vars: {ansible_python_interpreter: python3}\n- hosts: all\n  tasks:\n    - debug:\n      delegate_to: localhost\n      vars: {ansible_python_interpreter: '{{ ansible_playbook_python }}'}\n"),
	inPlaybook(rulePythonInterpreter, "in group_vars", everyVar).with("group_vars/all.yml", "ansible_python_interpreter: python3\n"),
	inPlaybook(rulePythonInterpreter, "in vars", "- hosts: all\n  vars:\n    ansible_python_interpreter: '{{ PYZ }}/bin/python3'\n", [2]int{3, 33}),
	inPlaybook(rulePythonInterpreter, "in a vars file", "- hosts: all\n  vars_files: [vars/zos.yml]\n").with("vars/zos.yml", "PYZ: /usr/lpp\nansible_python_interpreter: python3\n").at("vars/zos.yml", 2, 29),
	inPlaybook(rulePythonInterpreter, "in a role", "- hosts: all\n  roles: [thing]\n").with("roles/thing/defaults/main.yml", "ansible_python_interpreter: a\n").
		with("roles/thing/vars/main.yml", "ansible_python_interpreter: a\n").at("roles/thing/vars/main.yml", 1, 29),

	inPlaybook(ruleConnectionVar, "other variables", "- hosts: all\n  vars: {ansible_become: true, host: x}\n"),
	inPlaybook(ruleConnectionVar, "for localhost", "- hosts: localhost\n  connection: local\n  vars: {ansible_connection: local}\n  vars_files: vars/zos.yml\n").with("vars/zos.yml", "ansible_user: me\n"),
	inPlaybook(ruleConnectionVar, "in vars", "- hosts: all\n  vars:\n    ansible_user: me\n    ansible_host: zos1\n", [2]int{3, 19}, [2]int{4, 19}),
	inPlaybook(ruleConnectionVar, "keyword", "- hosts: all\n  connection: local\n", [2]int{2, 15}),

	inPlaybook(ruleRunsInChecks, "of a task", task("command: lsds\n      check_mode: false\n      changed_when: false"), [2]int{9, 19}).with(configName, checkable),
	inPlaybook(ruleRunsInChecks, "of a block and a play", task("block: [{command: lsds}]\n      check_mode: 'No'")+"  check_mode: off\n", [2]int{9, 19}, [2]int{10, 15}).with(configName, checkable),
	inPlaybook(ruleRunsInChecks, "of a role", "- hosts: all\n  roles: [thing]\n").with(configName, checkable).
		with("roles/thing/tasks/main.yml", "- command: lsds\n  check_mode: false\n").at("roles/thing/tasks/main.yml", 2, 15),
	inPlaybook(ruleRunsInChecks, "where a play names a role, and a role a dependency", "- hosts: all\n  roles: [{role: thing, check_mode: false}]\n", [2]int{2, 37}).with(configName, checkable).
		with("roles/thing/meta/main.yml", "dependencies:\n- role: other\n  check_mode: no\n").at("roles/thing/meta/main.yml", 3, 15).
		with("roles/other/tasks/main.yml", "- command: lsds\n").inOrder(),
	inPlaybook(ruleRunsInChecks, "in check mode", task("command: lsds\n      check_mode: true\n    - command: lsds\n      check_mode: '{{ ansible_check_mode }}'")).with(configName, checkable),
	inPlaybook(ruleRunsInChecks, "not checked", task("command: lsds\n      check_mode: false")),
	inPlaybook(ruleRunsInChecks, "of the finalizer", task("command: lsds")).with(configName, head+"- {kind: Thing, playbook: run.yml, finalizer: gone.yml, supportsCheckMode: true}\n").
		with("gone.yml", task("command: lsds\n      check_mode: false")),

	inPlaybook(ruleOptionalVar, "with default()", everyVar),
	inPlaybook(ruleOptionalVar, "boolean that is required", task("debug: {msg: '{{ on }}'}")).with(configName, varsOfThing+"  - {name: on, displayName: On, type: boolean, required: true}\n"),
	inPlaybook(ruleOptionalVar, "boolean that is not set", task("debug: {msg: '{{ on }}'}"), [2]int{8, 20}).with(configName, varsOfThing+"  - {name: on, displayName: On, type: boolean}\n"),
	inPlaybook(ruleOptionalVar, "tested", task("debug: {msg: '{{ comment }}'}\n      when: comment is defined")),
	inPlaybook(ruleOptionalVar, "default of a role", "- hosts: all\n  roles: [thing]\n").with("roles/thing/tasks/main.yml", "- debug: {msg: '{{ comment }}'}\n").with("roles/thing/defaults/main.yaml", "comment: ''\n"),
	inPlaybook(ruleOptionalVar, "defined by who knows what", task("debug: {msg: '{{ comment }}'}\n    - include_vars: '{{ state }}.yml'")),
	inPlaybook(ruleOptionalVar, "used as it is", task("debug: {msg: '{{ comment }}'}\n    - debug: {msg: '{{ comment }}'}"), [2]int{8, 20}),
	inPlaybook(ruleOptionalVar, "in a condition", task("debug:\n      when: comment | length > 0"), [2]int{9, 13}),

	inPlaybook(ruleOptionalVar, "object that the API server completes", task("debug: {msg: '{{ box.a }}'}")).
		with(configName, varsOfThing+"  - {name: box, displayName: B, type: object, objectVariables: [{name: a, displayName: A, type: string, default: x}]}\n"),
	inPlaybook(ruleOptionalVar, "object that only a user completes", task("debug: {msg: '{{ box.a }}'}"), [2]int{8, 20}).
		with(configName, varsOfThing+"  - {name: box, displayName: B, type: object, objectVariables: [{name: a, displayName: A, type: boolean, required: true}]}\n"),

	inPlaybook(ruleOwnName, "legal", task("acme.demo.make: {}\n    - include_role: {name: acme.demo.thing}")),
	inPlaybook(ruleOwnName, "of others", task("ibm.ibm_zos_core.zos_copy: {}\n    - make: {}\n    - include_role: {name: thing}")).with("galaxy.yml", hyphened),
	inPlaybook(ruleOwnName, "another collection is called so", task("acme.my_demo.make: {}")).with("galaxy.yml", hyphened).
		with("requirements.yml", "collections: [{name: acme.my_demo}]\n"),
	inPlaybook(ruleOwnName, "a required file may be called so", task("acme.my_demo.make: {}")).with("galaxy.yml", hyphened).
		with("requirements.yml", "collections: [{name: 'https://acme.example/a.tar.gz', type: url}]\n"),
	inPlaybook(ruleOwnName, "with hyphens, and with _ instead", task("acme.my-demo.make: {}\n    - acme.my_demo.make:\n    - include_role:\n        name: acme.my_demo.thing\n    - action: acme.my-demo.make x=1")+"- import_playbook: acme.my_demo.provision\n",
		[2]int{8, 26}, [2]int{9, 7}, [2]int{11, 9}, [2]int{12, 15}, [2]int{13, 20}).with("galaxy.yml", hyphened),

	inPlaybook(ruleMissingPermission, "own kind, other modules and clusters, known in a run only", task(`kubernetes.core.k8s_info: {api_version: suboperator.zoscb.ibm.com/v1minor2patch3, kind: Thing}
    - k8s_info: {api_version: '{{ k8s_cr_version }}', kind: '{{ k8s_cr_kind }}'}
    - kubernetes.core.k8s: {kind: ConfigMap, kubeconfig: x}
    - kubernetes.core.k8s: {kind: ConfigMap, state: '{{ state }}'}
    - kubernetes.core.k8s_info: {kind: Pod, name: x}
    - k8s_exec: {kind: ConfigMap}`)),
	inPlaybook(ruleMissingPermission, "asked for", task("k8s_info: {kind: Secret, name: x}\n    - k8s_info: {kind: NetworkPolicy, api_version: networking.k8s.io/v1}")).
		with(configName, varsOfThing+"roles:\n- rules: [{apiGroups: [''], resources: [secrets], verbs: [get]}]\nclusterRoles: [{apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: ['*']}]\n"),
	inPlaybook(ruleMissingPermission, "not asked for", task("kubernetes.core.k8s_info: {kind: Secret, name: x}\n    - k8s:\n        definition: {apiVersion: v1, kind: ConfigMap}"),
		[2]int{8, 33}, [2]int{10, 9}),
	inPlaybook(ruleMissingPermission, "one verb of two", task("k8s: {kind: ConfigMap, state: absent}"), [2]int{8, 12}).
		with(configName, varsOfThing+"roles:\n- rules: [{apiGroups: [''], resources: [configmaps], verbs: [get]}]\n"),

	inPlaybook(ruleWholeResource, "its spec", task("debug: {msg: '{{ _suboperator_zoscb_ibm_com_thing_spec.state }}'}")),
	inPlaybook(ruleWholeResource, "whole", task("debug: {msg: '{{ _suboperator_zoscb_ibm_com_thing.metadata.name }}'}"), [2]int{8, 20}),
	inPlaybook(ruleWholeResource, "of a group of its own", task("debug:\n      when: _demo_acme_suboperator_zoscb_ibm_com_thing.spec is defined"), [2]int{9, 13}),

	inPlaybook(ruleUnusedVar, "all used", everyVar),
	inPlaybook(ruleUnusedVar, "nothing to see yet", "- hosts: all\n"),
	inPlaybook(ruleUnusedVar, "in the migration playbook", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ state }} {{ names }} {{ flag }} {{ count }}'}\n").
		with(configName, varsOfThing+"migrationPlaybook: migrate.yml\n").with("migrate.yml", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ comment }}'}\n"),
	inPlaybook(ruleUnusedVar, "in a template", "- hosts: all\n  roles: [thing]\n").with("roles/thing/tasks/main.yml", "- template: {src: a.j2, dest: /tmp/a}\n").
		with("roles/thing/templates/a.j2", "{{ state }}{% for x in names if flag %}{{ vars['count'] }}{{ hostvars.x.comment }}{% endfor %}"),
	inPlaybook(ruleUnusedVar, "role from elsewhere", "- hosts: all\n  tasks: [debug: ]\n  roles: [other.roles.thing]\n"),
	inPlaybook(ruleUnusedVar, "whole resource", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ _suboperator_zoscb_ibm_com_thing_spec }}'}\n"),
	inPlaybook(ruleUnseenVar, "all used", everyVar),
	inPlaybook(ruleUnseenVar, "certainly unused", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ state }} {{ names[count] if flag }}'}\n"),
	inPlaybook(ruleUnseenVar, "nothing to see yet", "- hosts: all\n").
		at(configName, 9, 12).at(configName, 10, 12).at(configName, 11, 12).at(configName, 12, 12).at(configName, 13, 12),
	inPlaybook(ruleUnseenVar, "role from elsewhere", everyVar+"  roles: [other.roles.thing]\n").
		with(configName, varsOfThing+"  - {name: more, displayName: More, type: string}\n").at(configName, 14, 12),
	unsure("template of zos_job_submit", "    - ibm.ibm_zos_core.zos_job_submit: {src: job.jcl, location: local, use_template: true}\n"),
	unsure("template of zos_copy", "    - zos_copy: {src: files/a.cfg, dest: /a, use_template: '{{ flag }}'}\n"),
	unsure("template of zos_copy in one line", "    - zos_copy: src=a.cfg dest=/a use_template=yes\n"),
	unsure("template of k8s", "    - kubernetes.core.k8s: {template: manifest.yaml}\n"),
	unsure("templates of k8s", "    - kubernetes.core.k8s: {template: [{path: a.j2}, {path: b.yml}]}\n"),
	unsure("folder of variables", "    - include_vars: {dir: vars, name: more}\n"),
	unsure("variables of a group", "").with("group_vars/all", "x: '{{ more }}'\n"),
	unsure("part of a template", "    - template: {src: a.j2, dest: /a}\n").with("templates/a.j2", "{% include 'part.cfg' %}"),
	unsure("own lookup", "").with("plugins/lookup/mine.py", "pass\n"),
	unsure("own filter beside the playbook", "").with("filter_plugins/mine.py", "pass\n"),
	inPlaybook(ruleUnusedVar, "own module and *.j2 files", everyVar+"    - zos_copy: {src: a.j2, dest: /a, use_template: true}\n    - zos_copy: {src: a.cfg, dest: /a, use_template: false}\n    - k8s: {template: a.j2}\n").
		with(configName, varsOfThing+more).with("plugins/modules/mine.py", "pass\n").with("plugins/lookup/__init__.py", "pass\n").
		with("templates/a.j2", "{% include 'b.j2' %}").with("templates/b.j2", "b\n").at(configName, 14, 12),
	inPlaybook(ruleUnseenVar, "field of an object", everyVar+"    - debug: {msg: '{{ box.left }}'}\n").
		with(configName, varsOfThing+"  - {name: box, displayName: Box, type: object, required: true, objectVariables: [{name: left, displayName: L, type: string}, {name: right, displayName: R, type: string}]}\n").at(configName, 14, 134),
	inPlaybook(ruleUnusedVar, "unused", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ state }} {{ names[count] if flag }}'}\n    - debug: {comment: x}\n").at(configName, 11, 12),

	inPlaybook(ruleUndeclaredVar, "all have values", task(`debug: {msg: "{{ listing.stdout }}{{ item }}{{ ansible_facts.os }}{{ k8s_cr_kind }}{{ zosendpoint }}{{ a }}{{ other | default(c) }}{{ range(3) }}{{ d }}"}
      loop: [1]
      vars: {a: '{{ lazy }}'}
    - set_fact: {d: 1}`)),
	inPlaybook(ruleUndeclaredVar, "no value", task("debug:\n        msg: '{{ listing.stdout }} {{ unheard.of }} {{ unheard }}'\n      when: other == 'x'"), [2]int{9, 14}, [2]int{10, 13}),
	inPlaybook(ruleUndeclaredVar, "role from elsewhere", task("debug: {msg: '{{ unheard }}'}\n    - include_role: {name: other.roles.thing}")),
	inPlaybook(ruleUndeclaredVar, "facts", task("debug: {msg: '{{ unheard }}'}\n    - ansible.builtin.service_facts:")),
	inPlaybook(ruleUndeclaredVar, "files by template", task("debug: {msg: '{{ unheard }}'}\n    - import_tasks: '{{ state }}.yml'")),
	inPlaybook(ruleUndeclaredVar, "file of variables", "- hosts: all\n  vars_files: ['{{ playbook_dir }}/x.yml', [y.yml, z.yml]]\n  tasks:\n    - debug: {msg: '{{ x }}{{ y }}{{ group }}'}\n").
		with("x.yml", "x: 1\n").with("y.yml", "y: 1\n").with("z.yml", "z: 1\n").with("group_vars/zos/all.yml", "group: x\n"),
	inPlaybook(ruleUndeclaredVar, "in the tasks of a role beside the playbook", "- import_playbook: playbooks/provision.yml\n").
		with("playbooks/provision.yml", "- hosts: all\n  tasks:\n    - import_role: {name: thing, tasks_from: create}\n").
		with("playbooks/roles/thing/tasks/create.yml", "- include_tasks: more.yml\n").
		with("playbooks/roles/thing/tasks/main.yml", "- debug: {msg: '{{ not_read }}'}\n").
		with("playbooks/roles/thing/tasks/more.yml", "- block:\n    - debug: {msg: '{{ needed }}'}\n").at("playbooks/roles/thing/tasks/more.yml", 2, 20),
}

// inOrder sorts what is wanted as problems are sorted: by file.
func (c ruleCase) inOrder() ruleCase {
	c.want = append(c.want[1:], c.want[0])
	return c
}

func messagesOf(t *testing.T, rule findings.Rule, fsys fstest.MapFS) []string {
	t.Helper()
	var out []string
	for _, p := range problemsOf(t, fsys) {
		if p.Rule == rule.Name {
			out = append(out, p.Message)
		}
	}
	return out
}

// A message about a condition holds the line to write instead.
func TestConditionIsCorrected(t *testing.T) {
	tests := map[string]string{
		`when: "{{ state }} == 'x'"`:                                  `when: state == 'x'`,
		`when: "'{{ state }}' == 'x'"`:                                `when: state == 'x'`,
		`when: "{{ comment }}"`:                                       `when: comment`,
		`until: "'{{ state | upper }}' == 'X'"`:                       `until: (state | upper) == 'X'`,
		`when: "'{{ count }}' == '{{ state }}'"`:                      `when: (count | string) == state`,
		`when: "'a-{{ state }}-b' in listing"`:                        `when: ('a-' ~ state ~ '-b') in listing`,
		`when: ["{{ state }} > 1"]`:                                   `- state > 1`,
		`failed_when: "not {{ flag and state }}"`:                     `failed_when: not (flag and state)`,
		`changed_when: "'it''s {{ state }}' == b"`:                    "write the condition without braces",
		`when: "{% if flag %}1{% endif %}{{ state }}"`:                "write the condition without braces",
		`when: "{{ lookup('env', 'HOME') }} == {{ state['a b'].c }}"`: "when: (lookup('env', 'HOME')) == (state['a b'].c)",
		`when: "'{{ state }}: {{ count }}' == own"`:                   `when: '(state ~ '': '' ~ (count | string)) == own'`,
	}
	for condition, want := range tests {
		t.Run(condition, func(t *testing.T) {
			c := inPlaybook(findings.Rule{}, "", "- hosts: all\n  tasks:\n    - debug:\n      "+condition+"\n")
			got := messagesOf(t, ruleConditionalTemplate, c.fsys())
			if len(got) != 1 || !strings.HasSuffix(got[0], want) {
				t.Errorf("got %q, want one message that ends with %q", got, want)
			}
		})
	}
}

// What two kinds lack at the same place is said once for both, and once for a playbook and its finalizer.
func TestHintsAreGivenOnce(t *testing.T) {
	fsys := inPlaybook(findings.Rule{}, "", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ unheard }}'}\n").
		with(configName, head+"- {kind: A, playbook: run.yml, finalizer: run.yml}\n- {kind: B, playbook: run.yml}\n- {kind: C, playbook: playbooks/provision.yml, finalizer: run.yml}\n").
		with("playbooks/provision.yml", "- hosts: all\n  tasks:\n    - debug: {msg: '{{ unheard }}'}\n").fsys()
	want := []string{
		"unheard is needed here for kind C and gets no value in the collection; declare it in vars, give it a default in the role, or have every endpoint set it",
		"unheard is needed here for kinds A, B and gets no value in the collection; declare it in vars, give it a default in the role, or have every endpoint set it",
	}
	if diff := cmp.Diff(want, messagesOf(t, ruleUndeclaredVar, fsys)); diff != "" {
		t.Errorf("hints differ (-want +got):\n%s", diff)
	}
}

// archived is what is left of a collection in memory when its archive is read.
func archived(t *testing.T, fsys fstest.MapFS) *archive.Files {
	t.Helper()
	var content bytes.Buffer
	if err := archive.Write(&content, fsys, nil); err != nil {
		t.Fatal(err)
	}
	keep := NewKeep()
	files, err := archive.Read(&content, archive.Limits{}, func(name string, size int64) bool { return model.Keep(name, size) || keep(name, size) })
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// A folder and its archive have the same problems, whatever of it is kept in memory.
func TestFolderAndArchiveAgree(t *testing.T) {
	for _, c := range playbookCases {
		t.Run(c.rule.Name+"/"+c.name, func(t *testing.T) {
			fsys := c.fsys()
			if diff := cmp.Diff(problemsOf(t, fsys).Error(), problemsOf(t, archived(t, fsys)).Error()); diff != "" {
				t.Errorf("problems differ (-folder +archive):\n%s", diff)
			}
		})
	}
}

// Beyond the bound on all files no playbook is looked into, and one hint says so.
func TestManyPlaybooksAreNotLookedInto(t *testing.T) {
	files := func(n int) fstest.MapFS {
		fsys := folderOf(sound)
		fsys["run.yml"] = &fstest.MapFile{Data: []byte("- hosts: other\n")}
		for i := range n {
			fsys[fmt.Sprintf("roles/a/tasks/%d.yml", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte("#"), maxPlaybookBytes)}
			fsys[fmt.Sprintf("docs/%d.yml", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte("#"), maxPlaybookBytes)}
			fsys[fmt.Sprintf(".git/%d.yml", i)] = &fstest.MapFile{Data: bytes.Repeat([]byte("#"), maxPlaybookBytes)}
		}
		return fsys
	}
	most := maxPlaybooksBytes / maxPlaybookBytes
	for n, want := range map[int]string{most - 1: ruleHostsAll.Name, most: rulePlaybookSize.Name} {
		folder := files(n)
		got, fromArchive := problemsOf(t, folder), problemsOf(t, archived(t, folder))
		if len(got) != 1 || got[0].Rule != want {
			t.Errorf("%d files: got %v, want one problem of rule %s", n, got, want)
		}
		if got.Error() != fromArchive.Error() {
			t.Errorf("%d files: the archive has %v", n, fromArchive)
		}
	}
}

// A playbook that imports itself, or aliases that grow without end, end.
func TestPlaybooksInCircles(t *testing.T) {
	c := inPlaybook(findings.Rule{}, "", "- import_playbook: run.yml\n- hosts: all\n  roles: [a]\n").
		with("roles/a/meta/main.yml", "dependencies: [b]\n").with("roles/b/meta/main.yml", "dependencies: [{role: a}]\n").
		with("roles/a/tasks/main.yml", "- include_tasks: main.yml\n- include_role: {name: a}\n").
		with("roles/b/vars/main.yml", "a: &a [*a]\n")
	for _, p := range problemsOf(t, c.fsys()) {
		if p.Severity == findings.SeverityError && p.Rule != rulePlaybookSyntax.Name {
			t.Errorf("unexpected: %v", p)
		}
	}
}

func FuzzPlaybook(f *testing.F) {
	for _, dir := range []string{"../../collection/model/testdata", "../lint/testdata", "../../../test/collections"} {
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !isYAML(name) {
				return err
			}
			content, err := os.ReadFile(name)
			f.Add(content)
			return err
		})
		if err != nil {
			f.Fatal(err)
		}
	}
	for _, c := range playbookCases {
		for name, content := range c.files {
			if name != configName && len(content) < 1<<12 {
				f.Add([]byte(content))
			}
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		fsys := folderOf(varsOfThing)
		for _, name := range []string{"run.yml", "roles/a/tasks/main.yml", "roles/a/vars/main.yml", "roles/a/meta/main.yml", "roles/a/templates/a.yml"} {
			fsys[name] = &fstest.MapFile{Data: content}
		}
		fsys["other.yml"] = &fstest.MapFile{Data: []byte("- hosts: all\n  roles: [a]\n- import_playbook: run.yml\n")}
		fsys[configName].Data = append(fsys[configName].Data, "- {kind: Other, playbook: other.yml}\n"...)
		c, err := model.Load(fsys)
		if err != nil {
			t.Fatal(err)
		}
		if refused := Check(fsys, c).Refused(); len(refused) > 0 {
			t.Errorf("a playbook made the cluster refuse the collection: %v", refused)
		}
	})
}
