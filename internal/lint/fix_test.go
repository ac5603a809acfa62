package lint_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/findings"
	"github.com/collection-operator/collection-operator/internal/lint"
)

// withVar is the operator-config with a variable, whose line may follow it.
const withVar = config + "    vars:\n"

// usesSize is a playbook that needs a variable.
const usesSize = "- hosts: all\n  tasks:\n    - ansible.builtin.debug:\n        msg: \"{{ dataset_size }}\"\n"

func TestFix(t *testing.T) {
	for _, tt := range []struct {
		name, file, old, new string
		// more are further files of the folder.
		more map[string]string
	}{
		{name: "nothing to correct", file: "operator-config.yml", old: config, new: config},
		{name: "misspelt key, with its comment",
			file: "operator-config.yml",
			old:  config + "    finaliser:   thing.yml # the same\n",
			new:  config + "    finalizer:   thing.yml # the same\n"},
		{name: "misspelt key in quotes",
			file: "operator-config.yml",
			old:  config + "    \"display_name\": Thing\n    'descriptiom': x\n",
			new:  config + "    \"displayName\": Thing\n    'description': x\n"},
		{name: "misspelt keys in one line, with characters of several bytes",
			file: "operator-config.yml",
			old:  withVar + "      - {name: a, displayname: Größe, typ: string, requiredd: true}\n",
			new:  withVar + "      - {name: a, displayName: Größe, type: string, required: true}\n",
			more: map[string]string{"thing.yml": strings.ReplaceAll(usesSize, "dataset_size", "a")}},
		{name: "Windows line ends",
			file: "operator-config.yml",
			old:  strings.ReplaceAll(config+"    finaliser: thing.yml\n", "\n", "\r\n"),
			new:  strings.ReplaceAll(config+"    finalizer: thing.yml\n", "\n", "\r\n")},
		{name: "a key that is there already", file: "operator-config.yml",
			old: config + "    finaliser: thing.yml\n    finalizer: thing.yml\n",
			new: config + "    finaliser: thing.yml\n    finalizer: thing.yml\n"},
		{name: "a key far from all", file: "operator-config.yml", old: config + "    final: thing.yml\n", new: config + "    final: thing.yml\n"},
		{name: "a key whose value would be refused", file: "operator-config.yml",
			old: config + "    finaliser: absent.yml\n",
			new: config + "    finaliser: absent.yml\n"},
		{name: "type", file: "operator-config.yml",
			old:  withVar + "      - {name: a, displayName: A, type: 'String', required: true}\n",
			new:  withVar + "      - {name: a, displayName: A, type: 'string', required: true}\n",
			more: map[string]string{"thing.yml": strings.ReplaceAll(usesSize, "dataset_size", "a")}},
		{name: "kind in other capitals", file: "operator-config.yml",
			old:  withVar + "      - {name: a, displayName: A, type: string, required: true, kindReference: zosEndpoint}\n",
			new:  withVar + "      - {name: a, displayName: A, type: string, required: true, kindReference: ZosEndpoint}\n",
			more: map[string]string{"thing.yml": strings.ReplaceAll(usesSize, "dataset_size", "a")}},
		{name: "playbook with another ending", file: "operator-config.yml",
			old: config + "    finalizer: Thing.yaml\n", new: config + "    finalizer: thing.yml\n"},
		{name: "capabilities", file: "operator-config.yml", old: config + "capabilities: Full Lifecyle\n", new: config + "capabilities: Full Lifecycle\n"},
		{name: "galaxy.yml", file: "galaxy.yml", old: galaxyYAML + "descriptiom: Things\n", new: galaxyYAML + "description: Things\n"},
		{name: "a variable that is spelt otherwise in the playbook", file: "operator-config.yml",
			old:  withVar + "      - name: datasetSize # in tracks\n        displayName: Size\n        type: number\n        required: true\n",
			new:  withVar + "      - name: dataset_size # in tracks\n        displayName: Size\n        type: number\n        required: true\n",
			more: map[string]string{"thing.yml": usesSize}},
		{name: "two variables of which one is meant", file: "operator-config.yml",
			old:  withVar + "      - {name: datasetSize, displayName: A, type: number, required: true}\n      - {name: datasetsize, displayName: B, type: number, required: true}\n",
			new:  withVar + "      - {name: datasetSize, displayName: A, type: number, required: true}\n      - {name: datasetsize, displayName: B, type: number, required: true}\n",
			more: map[string]string{"thing.yml": usesSize}},
		{name: "a text with a colon", file: "operator-config.yml",
			old: config + "description: Files: what's in them\n", new: config + "description: 'Files: what''s in them'\n"},
		{name: "after a text with a colon, a key", file: "operator-config.yml",
			old: config + "    finaliser: thing.yml\ndescription: Files: all\n", new: config + "    finalizer: thing.yml\ndescription: 'Files: all'\n"},
		{name: "a template without quotes", file: "thing.yml",
			old: "- hosts: all\n  vars:\n    # why\n    a: {{ b }}\n", new: "- hosts: all\n  vars:\n    # why\n    a: '{{ b }}'\n"},
		{name: "a template without quotes and more", file: "thing.yml",
			old: "- hosts: all\n  vars:\n    b: c\n    a: {{ b }}/x\n", new: "- hosts: all\n  vars:\n    b: c\n    a: '{{ b }}/x'\n"},
		{name: "no YAML for another reason", file: "thing.yml", old: "- hosts: all\n  vars: {a: b\n", new: "- hosts: all\n  vars: {a: b\n"},
		{name: "hosts", file: "thing.yml", old: "- hosts: zos_host  # LPAR\n  tasks: []\n", new: "- hosts: all  # LPAR\n  tasks: []\n"},
		{name: "hosts that an earlier play adds", file: "thing.yml",
			old: "- hosts: localhost\n  tasks:\n    - ansible.builtin.add_host: {name: other}\n- hosts: other\n",
			new: "- hosts: localhost\n  tasks:\n    - ansible.builtin.add_host: {name: other}\n- hosts: other\n"},
		{name: "several hosts", file: "thing.yml", old: "- hosts: one\n- hosts: two\n", new: "- hosts: one\n- hosts: two\n"},
		{name: "a pattern", file: "thing.yml", old: "- hosts: all:!two\n", new: "- hosts: all:!two\n"},
		{name: "an alias", file: "thing.yml", old: "- hosts: &h zos\n- hosts: *h\n", new: "- hosts: &h zos\n- hosts: *h\n"},
		{name: "group", file: "thing.yml", old: "- hosts: 'lpars'\n  tasks: []\n", new: "- hosts: 'all'\n  tasks: []\n",
			more: map[string]string{"operator-config.yml": config + "inventoryName: lpars\n"}},
		{name: "condition", file: "thing.yml",
			old:  "- hosts: all\n  tasks:\n    - ansible.builtin.ping:\n      when:\n        - \"{{ a }} == 'x'\"   # only x\n        - a is defined\n",
			new:  "- hosts: all\n  tasks:\n    - ansible.builtin.ping:\n      when:\n        - \"a == 'x'\"   # only x\n        - a is defined\n",
			more: map[string]string{"operator-config.yml": withVar + "      - {name: a, displayName: A, type: string, required: true}\n"}},
		{name: "hidden by .oc-lint", file: "operator-config.yml", old: config + "    finaliser: thing.yml\n", new: config + "    finaliser: thing.yml\n",
			more: map[string]string{".oc-lint": "skip_list: [unknown-key]\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{tt.file: tt.old}
			for name, content := range tt.more {
				files[name] = content
			}
			corrected := fixed(t, folder(files))
			if diff := cmp.Diff(tt.new, string(corrected[tt.file].Data)); diff != "" {
				t.Errorf("(-want +got):\n%s\nfindings: %q", diff, lines(checkFolder(t, folder(files))))
			}
			if again, err := lint.Fix(corrected); err != nil || len(again) > 0 {
				t.Errorf("a second time changes %v, %v", again, err)
			}
		})
	}
}

// fixed returns a folder with the files that Fix corrects.
func fixed(t *testing.T, folder fstest.MapFS) fstest.MapFS {
	t.Helper()
	changed, err := lint.Fix(folder)
	if err != nil {
		t.Fatal(err)
	}
	out := fstest.MapFS{}
	for name, file := range folder {
		out[name] = file
	}
	for _, c := range changed {
		if string(c.Old) != string(folder[c.File].Data) || string(c.Old) == string(c.New) {
			t.Errorf("%s: was %q and is %q", c.File, c.Old, c.New)
		}
		out[c.File] = &fstest.MapFile{Data: c.New, Mode: 0o644}
	}
	return out
}

// Whatever a folder holds: what was readable stays so, no error and no warning is new, and a second time nothing changes.
func FuzzFix(f *testing.F) {
	f.Add(config+"    finaliser: thing.yml\n", "- hosts: zos\n")
	f.Add(withVar+"- {name: a, displayName: A, typ: string}\n", "- hosts: all\n  tasks:\n  - ping:\n    when: \"{{ a }} == 'b'\"\n")
	f.Add(config+"description: a: b\n", "- hosts: all\n  vars: {a: {{ b }}}\n")
	f.Add(config+"\"displayname\": \"\\u00e4\"\n", "- &p\n  hosts: 'z'\n- *p\n")
	f.Fuzz(func(t *testing.T, config, playbook string) {
		before := folder(map[string]string{"operator-config.yml": config, "thing.yml": playbook})
		after := fixed(t, before)
		for _, name := range []string{"operator-config.yml", "thing.yml"} {
			if readable(before, name) && !readable(after, name) {
				t.Errorf("%s cannot be read any more:\n%s", name, after[name].Data)
			}
		}
		if readable(before, "operator-config.yml") && readable(before, "thing.yml") {
			was, is := brokenRules(checkFolder(t, before)), brokenRules(checkFolder(t, after))
			for rule, count := range is {
				if count > was[rule] {
					t.Errorf("%s is broken %d times, was %d times", rule, count, was[rule])
				}
			}
		}
		if again, err := lint.Fix(after); err != nil || len(again) > 0 {
			t.Errorf("a second time changes %v, %v", again, err)
		}
	})
}

// brokenRules counts errors and warnings by rule and file.
func brokenRules(problems findings.Problems) map[string]int {
	count := map[string]int{}
	for _, p := range problems.Findings() {
		count[p.Rule+" in "+p.File]++
	}
	return count
}

func readable(folder fs.FS, name string) bool {
	content, err := fs.ReadFile(folder, name)
	if err != nil {
		return false
	}
	nodes := findings.MaxNodes
	_, err = findings.ParseYAML(content, &nodes)
	return err == nil
}
