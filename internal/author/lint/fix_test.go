package lint_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
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
			old:  withVar + "      - {name: datasetSize, displayName: A, type: number, required: true}\n",
			new:  withVar + "      - {name: datasetSize, displayName: A, type: number, required: true}\n",
			more: map[string]string{"thing.yml": usesSize}},
		{name: "a text with a colon", file: "operator-config.yml",
			old: config + "description: Files: all\n",
			new: config + "description: Files: all\n"},
		{name: "a template with a colon after it", file: "thing.yml",
			old: "- hosts: all\n  vars:\n    a: {{ b }} c: d\n",
			new: "- hosts: all\n  vars:\n    a: {{ b }} c: d\n"},
		{name: "a tab before a comment", file: "thing.yml",
			old: "- hosts: all\n  vars:\n    a: {{ b }}\t# why\n",
			new: "- hosts: all\n  vars:\n    a: {{ b }}\t# why\n"},
		{name: "a missing line end", file: "thing.yml",
			old: "- hosts: all tasks: []\n",
			new: "- hosts: all tasks: []\n"},
		{name: "a key whose value would be refused, beside a template without quotes", file: "operator-config.yml",
			old:  config + "    finaliser: absent.yml\n",
			new:  config + "    finaliser: absent.yml\n",
			more: map[string]string{"thing.yml": "- hosts: all\n  vars:\n    a: {{ b }}\n"}},
		{name: "a key whose value would break a rule that is hidden", file: "operator-config.yml",
			old:  config + "    finaliser: absent.yml\n",
			new:  config + "    finaliser: absent.yml\n",
			more: map[string]string{".oc-lint": "skip_list: [missing-finalizer]\n"}},
		{name: "hidden by what is misspelt in .oc-lint", file: "operator-config.yml",
			old:  config + "    finaliser: thing.yml\n",
			new:  config + "    finaliser: thing.yml\n",
			more: map[string]string{".oc-lint": "skiplist: [unknown-key]\n"}},
		{name: "two keys that mean the same", file: "operator-config.yml",
			old: config + "    finaliser: thing.yml\n    finalizr: thing.yml\n",
			new: config + "    finaliser: thing.yml\n    finalizr: thing.yml\n"},
		{name: "corrections of which one needs another", file: "operator-config.yml",
			old:  withVar + "      - {name: a, displayName: A, required: true, objectVariabels: [{name: b, displayName: B, type: string, required: true}], type: objekt}\n    finaliser: absent.yml\n",
			new:  withVar + "      - {name: a, displayName: A, required: true, objectVariables: [{name: b, displayName: B, type: string, required: true}], type: object}\n    finaliser: absent.yml\n",
			more: map[string]string{"thing.yml": strings.ReplaceAll(usesSize, "dataset_size", "a.b")}},
		{name: "beside a playbook that no archive keeps for a check", file: "operator-config.yml",
			old:  strings.ReplaceAll(config, "thing.yml", "thing") + "    finaliser: thing\n",
			new:  strings.ReplaceAll(config, "thing.yml", "thing") + "    finalizer: thing\n",
			more: map[string]string{"thing": usesSize}},
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
		{name: "group beside a play that adds to it", file: "thing.yml",
			old:  "- hosts: localhost\n  tasks:\n    - ansible.builtin.add_host: {name: helper, groups: lpars}\n- hosts: lpars\n",
			new:  "- hosts: localhost\n  tasks:\n    - ansible.builtin.add_host: {name: helper, groups: lpars}\n- hosts: lpars\n",
			more: map[string]string{"operator-config.yml": config + "inventoryName: lpars\n"}},
		{name: "hosts that a playbook of another kind adds", file: "thing.yml",
			old: "- hosts: zos\n", new: "- hosts: zos\n",
			more: map[string]string{
				"operator-config.yml": config + "  - kind: Other\n    displayName: Other\n    description: Other\n    playbook: other.yml\n",
				"other.yml":           "- hosts: localhost\n  tasks:\n    - ansible.builtin.add_host: {name: a, groups: zos}\n- import_playbook: thing.yml\n"}},
		{name: "hosts beside an import that is not there", file: "thing.yml",
			old: "- import_playbook: absent.yml\n- hosts: zos\n", new: "- import_playbook: absent.yml\n- hosts: zos\n"},
		{name: "condition", file: "thing.yml",
			old:  "- hosts: all\n  tasks:\n    - ansible.builtin.ping:\n      when: \"{{ a }} == 'x'\"\n",
			new:  "- hosts: all\n  tasks:\n    - ansible.builtin.ping:\n      when: \"{{ a }} == 'x'\"\n",
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

func TestFixRefusesUnpackedArchives(t *testing.T) {
	for _, name := range []string{"MANIFEST.json", "FILES.json"} {
		unpacked := folder(map[string]string{"operator-config.yml": config + "    finaliser: thing.yml\n", name: "{}"})
		if changed, err := lint.Fix(unpacked); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, %v", name, changed, err)
		}
	}
}

// What is reached by a link is another file, too.
func TestFixFollowsNoLinks(t *testing.T) {
	linked := folder(map[string]string{"real.yml": "- hosts: zos\n"})
	linked["thing.yml"] = &fstest.MapFile{Data: []byte("real.yml"), Mode: fs.ModeSymlink | 0o777}
	if changed, err := lint.Fix(linked); err != nil || len(changed) > 0 {
		t.Errorf("got %v, %v", changed, err)
	}
}

// edited is a folder whose operator-config somebody saves again after each reading.
type edited struct {
	fs.FS
	saved *int
}

func (e edited) Open(name string) (fs.File, error) {
	if name != "operator-config.yml" {
		return e.FS.Open(name)
	}
	*e.saved++
	return folder(map[string]string{name: e.config()}).Open(name)
}

func (e edited) config() string {
	return fmt.Sprintf("%s    finaliser: thing.yml # %06d\n", config, *e.saved)
}

// What is written is made of what was read, so that an edit in between is seen.
func TestFixReadsOnce(t *testing.T) {
	saved := 0
	changed, err := lint.Fix(edited{folder(map[string]string{"operator-config.yml": config + "    finaliser: thing.yml # 000000\n"}), &saved})
	if err != nil || len(changed) != 1 {
		t.Fatalf("got %v, %v", changed, err)
	}
	if diff := cmp.Diff(strings.ReplaceAll(string(changed[0].Old), "finaliser", "finalizer"), string(changed[0].New)); diff != "" {
		t.Errorf("(-old +new):\n%s", diff)
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
