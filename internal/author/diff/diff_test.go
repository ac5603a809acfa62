package diff

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/explain"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

const operatorConfig = `domain: acme
name: regions
version: 1.2.0
displayName: Regions
resources:
  - kind: Region
    displayName: Region
    playbook: playbooks/create.yml
    finalizer: playbooks/delete.yml
    vars:
      - {name: applid, displayName: APPLID, type: string, required: true}
      - {name: mode, displayName: Mode, type: string, options: [cold, auto], default: auto}
      - {name: size, displayName: Size, type: integer, default: 3}
      - {name: secured, displayName: Secured, type: boolean}
      - {name: hosts, displayName: Hosts, type: string, array: true}
      - name: logs
        displayName: Logs
        type: object
        array: true
        objectVariables:
          - {name: dsn, displayName: Name, type: string}
  - kind: Backup
    displayName: Backup
    playbook: playbooks/backup.yml
    vars: []
roles:
  - rules:
      - {apiGroups: [""], resources: [configmaps], verbs: [get, create]}
`

const galaxyYML = "namespace: acme\nname: regions\nversion: 1.2.0\nreadme: README.md\nauthors: [me]\n"

func baseFiles() map[string]string {
	return map[string]string{
		"operator-config.yml":            operatorConfig,
		"galaxy.yml":                     galaxyYML,
		"meta/runtime.yml":               "requires_ansible: '>=2.15.0'\n",
		"README.md":                      "# Regions\n",
		"requirements.yml":               "collections: [{name: ibm.ibm_zos_core, version: '>=1.9.0'}]\n",
		"requirements.txt":               "jmespath>=1.0\n",
		"playbooks/create.yml":           "- {hosts: all, tasks: []}\n",
		"playbooks/delete.yml":           "- {hosts: all, tasks: []}\n",
		"playbooks/backup.yml":           "- {hosts: all, tasks: []}\n",
		"playbooks/vars/a.yml":           "{}\n",
		"roles/region/tasks/main.yml":    "[]\n",
		"plugins/filter/deep/regions.py": "\n",
	}
}

func side(t *testing.T, files map[string]string) Side {
	t.Helper()
	folder, sums := fstest.MapFS{}, map[string]string{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		sums[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
	}
	c, err := model.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	return Side{Collection: c, Files: sums}
}

// lines are changes as short text, without those that every new version has.
func lines(changes []Change) []string {
	var lines []string
	for _, c := range changes {
		if c.Area == Identity && (c.Subject == "version" || c.Subject == "API version") && !c.Breaking {
			continue
		}
		mark := " "
		if c.Breaking {
			mark = "!"
		}
		lines = append(lines, mark+signs[c.Type]+" "+string(c.Area)+" "+c.text())
	}
	return lines
}

// TestCompare changes one thing at a time, in version 1.3.0 unless the change is about versions.
func TestCompare(t *testing.T) {
	const next = "version: 1.3.0"
	for name, test := range map[string]struct {
		// edits are pairs of old and new text of the operator-config.
		edits []string
		// files replace others, or remove them if they are empty.
		files map[string]string
		want  []string
		// note is part of the first wanted change's note.
		note string
	}{
		"only the version": {},
		"downgrade": {edits: []string{next, "version: 1.1.9"},
			want: []string{"!~ collection version 1.2.0 -> 1.1.9"}, note: "downgrade"},
		"same version, other content": {edits: []string{next, "version: 1.2.0"}, files: map[string]string{"README.md": "more"},
			want: []string{"!~ collection version 1.2.0", " ~ content README.md"}, note: "publish it under another version"},
		"same version, tightened": {edits: []string{next, "version: 1.2.0", "options: [cold, auto]", "options: [auto]"},
			want: []string{"!~ collection version 1.2.0", "!~ kind Region", "!~ field Region spec.mode: options cold, auto -> auto"}},
		"a collection that replaces it": {edits: []string{"name: regions", "name: systems\nreplaces: regions", "options: [cold, auto]", "options: [auto]"},
			want: []string{" ~ collection domain and name acme/regions -> acme/systems", "!~ field Region spec.mode: options cold, auto -> auto"}, note: "takes over the kinds"},
		"other collection": {edits: []string{"name: regions", "name: systems"},
			want: []string{"!~ collection domain and name acme/regions -> acme/systems"}, note: "two collections"},
		"inventory group": {edits: []string{"displayName: Regions", "displayName: Regions\ninventoryName: zos"},
			want: []string{" ~ collection inventoryName none -> zos"}},
		"texts": {edits: []string{"displayName: Regions", "displayName: All regions\ndescription: New", "displayName: Backup", "displayName: Copy", "displayName: APPLID", "displayName: Name"},
			want: []string{" ~ text displayName", " ~ text description", " ~ text Region spec.applid: displayName", " ~ text Backup: displayName"}},

		"removed kind": {edits: []string{"  - kind: Backup\n    displayName: Backup\n    playbook: playbooks/backup.yml\n    vars: []\n", ""},
			want: []string{"!- kind Backup"}, note: "no operator serves them any more"},
		"added kind": {edits: []string{"  - kind: Backup", "  - {kind: Restore, displayName: Restore, playbook: playbooks/backup.yml}\n  - kind: Backup"},
			want: []string{" + kind Restore"}},
		"type": {edits: []string{"type: integer, default: 3", "type: string"},
			want: []string{"!~ kind Region", "!~ field Region spec.size: type integer -> string"}, note: "SchemaConflict"},
		"type to array": {edits: []string{"name: applid, displayName: APPLID, type: string,", "name: applid, displayName: APPLID, type: string, array: true,"},
			want: []string{"!~ kind Region", "!~ field Region spec.applid: type string -> array of string"}, note: "SchemaConflict"},
		"type that only we know": {edits: []string{"name: applid, displayName: APPLID, type: string", "name: applid, displayName: APPLID, type: password"},
			want: []string{"!~ field Region spec.applid: type string -> password", " + permission in the namespace: get secrets of API group core"}},
		"type of a member": {edits: []string{"{name: dsn, displayName: Name, type: string}", "{name: dsn, displayName: Name, type: number}"},
			want: []string{"!~ kind Region", "!~ field Region spec.logs[].dsn: type string -> number"}, note: "spec.logs[].dsn"},

		"removed field":               {edits: []string{"      - {name: size, displayName: Size, type: integer, default: 3}\n", ""}, want: []string{"!- field Region spec.size: integer"}},
		"added optional field":        {edits: []string{"      - {name: size,", "      - {name: more, displayName: More, type: string}\n      - {name: size,"}, want: []string{" + field Region spec.more: string"}},
		"added required field":        {edits: []string{"      - {name: size,", "      - {name: more, displayName: More, type: string, required: true}\n      - {name: size,"}, want: []string{"!+ field Region spec.more: string"}, note: "must be set"},
		"added required with default": {edits: []string{"      - {name: size,", "      - {name: more, displayName: More, type: string, required: true, default: x}\n      - {name: size,"}, want: []string{" + field Region spec.more: string"}},
		"added required switch":       {edits: []string{"      - {name: size,", "      - {name: more, displayName: More, type: boolean, required: true}\n      - {name: size,"}, want: []string{"!+ field Region spec.more: boolean"}, note: "must be set"},
		"added optional switch":       {edits: []string{"      - {name: size,", "      - {name: more, displayName: More, type: boolean}\n      - {name: size,"}, want: []string{" + field Region spec.more: boolean"}},
		"added required member": {edits: []string{"          - {name: dsn,", "          - {name: more, displayName: More, type: string, required: true}\n          - {name: dsn,"},
			want: []string{"!+ field Region spec.logs[].more: string"}},
		"now required":              {edits: []string{"{name: hosts, displayName: Hosts, type: string, array: true}", "{name: hosts, displayName: Hosts, type: string, array: true, required: true}"}, want: []string{"!~ field Region spec.hosts: required false -> true"}},
		"now required with default": {edits: []string{"type: integer, default: 3", "type: integer, default: 3, required: true"}, want: []string{" ~ field Region spec.size: required false -> true"}},
		"now optional":              {edits: []string{"type: string, required: true", "type: string"}, want: []string{" ~ field Region spec.applid: required true -> false"}},
		"other default":             {edits: []string{"default: 3", "default: 4"}, want: []string{" ~ field Region spec.size: default 3 -> 4"}},
		"no default":                {edits: []string{", default: auto", ""}, want: []string{` ~ field Region spec.mode: default "auto" -> none`}},
		"removed option":            {edits: []string{"options: [cold, auto]", "options: [warm, auto]"}, want: []string{"!~ field Region spec.mode: options cold, auto -> warm, auto"}, note: "no longer allowed: cold"},
		"added option":              {edits: []string{"options: [cold, auto]", "options: [cold, warm, auto]"}, want: []string{" ~ field Region spec.mode: options cold, auto -> cold, warm, auto"}},
		"options where there were none": {edits: []string{"displayName: APPLID, type: string", "displayName: APPLID, type: string, options: [a]"},
			want: []string{"!~ field Region spec.applid: options none -> a"}, note: "any text"},
		"no more options": {edits: []string{"options: [cold, auto], ", ""}, want: []string{" ~ field Region spec.mode: options cold, auto -> none"}},
		"reference":       {edits: []string{"displayName: APPLID, type: string", "displayName: APPLID, type: string, kindReference: Backup"}, want: []string{"!~ field Region spec.applid: kindReference none -> Backup"}, note: "another meaning"},

		"playbook's content": {files: map[string]string{"playbooks/create.yml": "- {hosts: all, tasks: [], gather_facts: false}\n"},
			want: []string{" ~ playbook Region: playbook playbooks/create.yml"}, note: "its content changed"},
		"playbook's path":   {edits: []string{"playbook: playbooks/create.yml", "playbook: playbooks/backup.yml"}, want: []string{" ~ playbook Region: playbook playbooks/create.yml -> playbooks/backup.yml"}, note: "with the same content"},
		"removed finalizer": {edits: []string{"    finalizer: playbooks/delete.yml\n", ""}, want: []string{"!- playbook Region: finalizer playbooks/delete.yml"}, note: "runs nothing any more"},
		"added finalizer":   {edits: []string{"playbook: playbooks/backup.yml", "playbook: playbooks/backup.yml\n    finalizer: playbooks/delete.yml"}, want: []string{" + playbook Backup: finalizer playbooks/delete.yml"}},
		"other content": {files: map[string]string{
			"roles/region/tasks/main.yml": "[] # more\n", "roles/region/vars/main.yml": "{}", "playbooks/vars/a.yml": "", "plugins/filter/deep/regions.py": "1\n", "run.sh": "#!",
		}, want: []string{" ~ content playbooks/vars", " ~ content plugins/filter", " ~ content roles/region", " ~ content run.sh"}, note: "files: 1 removed"},

		"permissions": {edits: []string{"verbs: [get, create]}", "verbs: [get]}\nclusterRoles:\n  - rules:\n      - {nonResourceURLs: [/version], verbs: [get]}"},
			want: []string{" - permission in the namespace: create and get configmaps of API group core", " + permission in the namespace: get configmaps of API group core", " + permission in the whole cluster: get the API server's /version"}},
		"permissions in another order": {edits: []string{"verbs: [get, create]", "verbs: [create, get, get]"}},
		"dependencies": {files: map[string]string{
			"requirements.yml": "collections: [{name: ibm.ibm_zos_core, version: '>=1.10.0'}, {name: acme.tools, source: 'https://hub.example'}]\n",
			"requirements.txt": "jmespath>=1.1\n", "meta/runtime.yml": "requires_ansible: '>=2.16.0'\n",
		}, want: []string{
			" ~ dependency ansible-core >=2.15.0 -> >=2.16.0", " ~ dependency collection ibm.ibm_zos_core >=1.9.0 -> >=1.10.0", " + dependency collection acme.tools: * from https://hub.example",
			" - dependency Python requirements.txt: jmespath>=1.0", " + dependency Python requirements.txt: jmespath>=1.1",
			" ~ content meta", " ~ content requirements.txt", " ~ content requirements.yml",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			files := baseFiles()
			config := strings.Replace(files["operator-config.yml"], "version: 1.2.0", next, 1)
			for i := 0; i < len(test.edits); i += 2 {
				if !strings.Contains(config, test.edits[i]) {
					t.Fatalf("the operator-config does not hold %q", test.edits[i])
				}
				config = strings.Replace(config, test.edits[i], test.edits[i+1], 1)
			}
			files["operator-config.yml"] = config
			for file, content := range test.files {
				if files[file] = content; content == "" {
					delete(files, file)
				}
			}
			was, is := side(t, baseFiles()), side(t, files)
			changes := Compare(was, is)
			if diff := cmp.Diff(test.want, lines(changes)); diff != "" {
				t.Fatalf("changes differ (-want +got):\n%s", diff)
			}
			if test.note != "" && !strings.Contains(notesOf(changes), test.note) {
				t.Errorf("the notes are\n%s\nand do not hold %q", notesOf(changes), test.note)
			}
			if again := Compare(was, is); !cmp.Equal(changes, again) {
				t.Error("a second comparison has another result")
			}
		})
	}
}

func TestWithin(t *testing.T) {
	rule := func(groups, resources, names, verbs string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: strings.Split(groups, ","), Resources: strings.Fields(resources), ResourceNames: strings.Fields(names), Verbs: strings.Fields(verbs),
		}
	}
	urls := rbacv1.PolicyRule{NonResourceURLs: []string{"/version"}, Verbs: []string{"get"}}
	for _, test := range []struct {
		rule, other rbacv1.PolicyRule
		want        bool
	}{
		{rule("", "pods", "", "get"), rule("", "pods nodes", "", "get list"), true},
		{rule("", "pods", "", "get list"), rule("", "pods", "", "get"), false},
		{rule("", "pods", "", "get"), rule("*", "*", "", "*"), true},
		{rule("", "pods", "", "get"), rule("apps", "pods", "", "get"), false},
		{rule("", "pods", "a", "get"), rule("", "pods", "", "get"), true},
		{rule("", "pods", "a", "get"), rule("", "pods", "a b", "get"), true},
		{rule("", "pods", "", "get"), rule("", "pods", "a", "get"), false},
		{rule("", "pods", "a c", "get"), rule("", "pods", "a b", "get"), false},
		{urls, urls, true},
		{urls, rule("*", "*", "", "*"), false},
		{rule("", "pods", "", "get"), urls, false},
	} {
		if got := within(test.rule, test.other); got != test.want {
			t.Errorf("%v within %v: got %t", test.rule, test.other, got)
		}
	}
}

func notesOf(changes []Change) string {
	var notes []string
	for _, c := range changes {
		notes = append(notes, c.Note)
	}
	return strings.Join(notes, "\n")
}

func TestCompareOfTheSame(t *testing.T) {
	files := baseFiles()
	was := side(t, files)
	files["operator-config.yml"] += "# a comment\n"
	for _, name := range []string{"MANIFEST.json", "FILES.json"} {
		was.Files[name] = "another order"
	}
	is := side(t, files)
	if changes := Compare(was, is); len(changes) > 0 {
		t.Errorf("got %v", changes)
	}
	if got := Report(nil); got != "No differences.\n" {
		t.Errorf("got %q", got)
	}
}

func TestReportFitsOnATerminal(t *testing.T) {
	long := strings.Repeat("x", 2*explain.Width) + "\x1b[2J"
	got := Report([]Change{
		{Area: Kind, Type: Removed, Subject: long, Breaking: true, Note: long},
		{Area: Field, Type: Changed, Subject: "Region spec.mode", Property: "default", Old: long, New: ""},
		{Area: Field, Type: Added, Subject: "Region spec.size", New: "integer"},
	})
	for line := range strings.Lines(got) {
		if len([]rune(line)) > explain.Width+1 || strings.Contains(line, "\x1b") {
			t.Errorf("line %q", line)
		}
	}
	for _, want := range []string{"Kinds\n\n! - xxx", "\n  ~ Region spec.mode: default\n", "\n  + Region spec.size: integer\n\n1 of 3 changes can break something (!).\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the report:\n%s", want, got)
		}
	}
}
