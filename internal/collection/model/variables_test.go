package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// withVars is a sound operator-config up to the vars of its only resource; the first variable stands in line 9.
func withVars(vars string) string {
	return head + "- kind: Thing\n  playbook: run.yml\n  vars:\n" + vars
}

func TestLoadVars(t *testing.T) {
	tests := map[string]struct {
		vars string
		want []expect
	}{
		"required keys": {"  - description: x\n", []expect{
			{9, 5, "resources[0].vars[0].displayName", findings.SeverityError, "display-name", "the name is shown instead"},
			{9, 5, "resources[0].vars[0].name", findings.SeverityError, "required", "is required"},
			{9, 5, "resources[0].vars[0].type", findings.SeverityError, "required", "is required"}}},
		"name twice": {"  - {name: a, displayName: A, type: string}\n  - {name: a, displayName: A, type: number}\n", []expect{
			{10, 12, "resources[0].vars[1].name", findings.SeverityError, "var-unique", `"a" is given twice, first in line 9`}}},
		"names differ in case": {"  - {name: a, displayName: A, type: string}\n  - {name: A, displayName: A, type: number}\n", nil},
		"illegal name": {"  - {name: a-b, displayName: A, type: string}\n", []expect{
			{9, 12, "resources[0].vars[0].name", findings.SeverityError, "var-name", "not an Ansible variable name"}}},
		"unknown type": {"  - {name: a, displayName: A, type: String}\n", []expect{
			{9, 37, "resources[0].vars[0].type", findings.SeverityError, "var-type", `"String" is not a type`}}},
		"array of booleans": {"  - {name: a, displayName: A, type: boolean, array: true}\n", []expect{
			{9, 53, "resources[0].vars[0].array", findings.SeverityError, "array-type", "no arrays of type boolean"}}},
		"array of passwords": {"  - {name: a, displayName: A, type: password, array: true}\n", []expect{
			{9, 54, "resources[0].vars[0].array", findings.SeverityError, "array-type", "no arrays of type password"}}},
		"options": {"  - {name: a, displayName: A, type: number, options: ['1']}\n  - {name: b, displayName: B, type: string, options: [x, x, '']}\n", []expect{
			{9, 54, "resources[0].vars[0].options", findings.SeverityError, "options-type", "string variables only"},
			{10, 58, "resources[0].vars[1].options[1]", findings.SeverityWarning, "option-unique", "given twice"},
			{10, 61, "resources[0].vars[1].options[2]", findings.SeverityWarning, "option-empty", "left out"}}},
		"kindReference": {"  - {name: a, displayName: A, type: string, kindReference: other thing}\n  - {name: b, displayName: B, type: string, kindReference: ''}\n", []expect{
			{9, 60, "resources[0].vars[0].kindReference", findings.SeverityError, "kind-reference", "not the name of a kind"}}},
		"object without fields": {"  - {name: a, displayName: A, type: object}\n", []expect{
			{9, 5, "resources[0].vars[0].objectVariables", findings.SeverityError, "object-variables", "at least one"}}},
		"fields without object": {"  - {name: a, displayName: A, type: string, objectVariables: [{name: b}]}\n", []expect{
			{9, 62, "resources[0].vars[0].objectVariables", findings.SeverityWarning, "object-variables-unused", "type is not object"}}},
		"object in object": {`  - name: a
    displayName: A
    type: object
    objectVariables:
    - {name: b, displayName: B, type: object, objectVariables: [{name: c}]}
    - {name: d, displayName: D, type: string, array: true}
    - {name: ansible_host, displayName: a field is no variable, type: string}
`, []expect{
			{13, 39, "resources[0].vars[0].objectVariables[0].type", findings.SeverityError, "nested-object", "objects inside objects"},
			{13, 64, "resources[0].vars[0].objectVariables[0].objectVariables", findings.SeverityError, "nested-object", "objects inside objects"},
			{14, 54, "resources[0].vars[0].objectVariables[1].array", findings.SeverityError, "nested-array", "no arrays in objects"}}},
		"unknown key": {"  - {name: a, displayName: A, type: string, defualt: b}\n", []expect{
			{9, 54, "resources[0].vars[0].defualt", findings.SeverityWarning, "unknown-key", "ignored"}}},
		"secret text as default": {"  - {name: a, displayName: A, type: password, default: 'Hush! Hush'}\n", []expect{
			{9, 56, "resources[0].vars[0].default", findings.SeverityWarning, "default-secret", "never a password"}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := problemsOf(t, archiveOf(withVars(test.vars)))
			checkProblems(t, got, test.want)
			if strings.Contains(got.Error(), "Hush") {
				t.Errorf("a secret is shown: %v", got)
			}
		})
	}
}

// What an earlier version of the manager has imported can still be loaded, and means the same.
func TestLoadTakesWhatRanBefore(t *testing.T) {
	files := archiveOf(withVars("  - {name: a, displayName: A, type: boolean, array: true}\n" +
		"  - {name: b, displayName: B, type: password, array: true, kindReference: Other}\n" +
		"  - {name: c, displayName: C, type: string, options: [x], kindReference: Other}\n"))
	c, err := Load(sealed(files))
	if err != nil {
		t.Fatal(err)
	}
	if errors := c.Problems.WithSeverity(findings.SeverityError); len(errors) != 2 {
		t.Errorf("arrays of booleans and passwords conform to the specification: %v", errors)
	}
	want := []Var{
		{Name: "a", DisplayName: "A", Type: Boolean, Array: true},
		{Name: "b", DisplayName: "B", Type: Password, Array: true, KindReference: "Other"},
		{Name: "c", DisplayName: "C", Type: String, Options: []string{"x"}, KindReference: "Other"},
	}
	if diff := cmp.Diff(want, c.Resources[0].Vars, cmpopts.IgnoreFields(Var{}, "Place")); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
}

func TestReservedVars(t *testing.T) {
	for name, refused := range map[string]bool{
		"ansible_connection": true, "ansible_operator_meta": true, "zoscb_playbook": true, "k8s_cr_kind": true, "k8s_managed": true,
		"zosendpoint": true, "_suboperator_zoscb_ibm_com_thing": true, "_suboperator_zoscb_ibm_com_thing_spec": true,
		"_demo_acme_suboperator_zoscb_ibm_com_thing": true,
		"ansible": false, "zosendpoints": false, "k8s": false, "_x": false, "names": false, "my_ansible_host": false,
	} {
		got := problemsOf(t, archiveOf(withVars("  - {name: "+name+", displayName: A, type: string}\n")))
		if refused {
			checkProblems(t, got, []expect{{9, 12, "resources[0].vars[0].name", findings.SeverityError, "reserved-var", `"` + name + `" is reserved`}})
		} else {
			checkProblems(t, got, nil)
		}
	}
}

func TestDefaults(t *testing.T) {
	const object = ", objectVariables: [{name: s, displayName: S, type: string, required: true}, {name: n, displayName: N, type: integer, default: '7'}, {name: b, displayName: B, type: boolean}]"
	tests := []struct {
		variable string
		want     any
		fragment string // of the problem
	}{
		{`type: string, default: text`, "text", ""},
		{`type: string, default: ""`, nil, ""},
		{`type: string, default: `, nil, ""},
		{`type: string, default: null`, nil, ""},
		{`type: string, default: true`, "true", ""},
		{`type: string, default: 0123`, "0123", ""},
		{`type: string, default: 6.10`, "6.10", ""},
		{`type: string, default: 2025-01-01`, "2025-01-01", ""},
		{`type: string, default: [a]`, nil, "must be a single string, not a list"},
		{`type: string, default: b, options: [a, b]`, "b", ""},
		{`type: string, default: c, options: [a, b]`, nil, `"c" is not one of the options`},
		{`type: password, default: my-secret`, "my-secret", ""},
		{`type: number, default: "9800"`, int64(9800), ""},
		{`type: number, default: 9800`, int64(9800), ""},
		{`type: number, default: "-0.5"`, -0.5, ""},
		{`type: number, default: 1e3`, 1000.0, ""},
		{`type: number, default: ""`, nil, ""},
		{`type: number, default: 0644`, nil, "without leading zeros"},
		{`type: number, default: 1e999`, nil, "too large"},
		{`type: number, default: .inf`, nil, "must be a decimal number"},
		{`type: number, default: "{{ port }}"`, nil, "templates are not evaluated here"},
		{`type: string, default: "{{ port }}"`, "{{ port }}", "gets {{ and what follows as text"},
		{`type: integer, default: " 10 "`, int64(10), ""},
		{`type: integer, default: 1.5`, nil, "whole number"},
		{`type: integer, default: 9223372036854775808`, nil, "at most 64 bits"},
		{`type: boolean, default: "true"`, true, ""},
		{`type: boolean, default: false`, false, ""},
		{`type: boolean, default: "Yes"`, true, ""},
		{`type: boolean, default: 1`, nil, "must be true or false"},
		{`type: string, array: true, default: [a, 1, ""]`, []any{"a", "1", ""}, ""},
		{`type: string, array: true, default: '["a", "b"]'`, []any{"a", "b"}, ""},
		{`type: string, array: true, default: []`, []any{}, ""},
		{`type: string, array: true, default: a`, nil, "must be a list"},
		{`type: string, array: true, default: "[a"`, nil, "must be a list"},
		{`type: string, array: true, default: [a, null]`, nil, "must not hold null"},
		{`type: string, array: true, default: [a, c], options: [a, b]`, nil, `"c" is not one of the options`},
		{`type: integer, array: true, default: "[1, 2]"`, []any{int64(1), int64(2)}, ""},
		{`type: integer, array: true, default: [x]`, nil, `"x" does not fit type integer`},
		{`type: object, default: {s: x, n: 1}` + object, map[string]any{"s": "x", "n": int64(1)}, ""},
		{`type: object, default: '{"s": "x", "b": "true"}'` + object, map[string]any{"s": "x", "n": int64(7), "b": true}, ""},
		{`type: object, default: {n: 1}` + object, nil, `lacks "s", which is required`},
		{`type: object, default: {s: x, other: 1}` + object, nil, "is not one of the objectVariables"},
		{`type: object, default: {s: x, s: y}` + object, nil, "given twice"},
		{`type: object, default: x` + object, nil, "must be a mapping of the objectVariables"},
		{`type: object, array: true, default: [{s: x}]` + object, []any{map[string]any{"s": "x", "n": int64(7)}}, ""},
		{`type: object, array: true, default: '[{"s": x}]'` + object, []any{map[string]any{"s": "x", "n": int64(7)}}, ""},
		{`type: object, array: true, default: [x]` + object, nil, "must be a mapping of the objectVariables"},
	}
	for _, test := range tests {
		t.Run(test.variable, func(t *testing.T) {
			fsys := archiveOf(withVars("  - {name: a, displayName: A, " + test.variable + "}\n"))
			problems := problemsOf(t, fsys)
			if len(problems) > 0 != (test.fragment != "") || !strings.Contains(problems.Error(), test.fragment) {
				t.Errorf("got %v, want %q", problems, test.fragment)
			}
			if len(problems.Refused()) > 0 {
				return
			}
			c, err := Load(sealed(fsys))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, c.Resources[0].Vars[0].Default); diff != "" {
				t.Errorf("default differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultInTextHasPlaceOfText(t *testing.T) {
	got := problemsOf(t, archiveOf(withVars("  - name: a\n    displayName: A\n    type: integer\n    array: true\n    default: |\n      - 1\n      - x\n")))
	checkProblems(t, got, []expect{{13, 14, "resources[0].vars[0].default[1]", findings.SeverityError, "default-type", `"x" does not fit`}})
}

func TestLoadPermissions(t *testing.T) {
	const resources = "- {kind: Thing, playbook: run.yml}\n"
	get := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get"}}
	}
	t.Run("shapes", func(t *testing.T) {
		c, err := Load(sealed(archiveOf(head + resources + `roles:
- rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
- {apiGroups: [apps], resources: [deployments], verbs: [get]}
- rules:
clusterRoles:
  rules: [{apiGroups: [""], resources: [nodes], verbs: [get]}]
`)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]rbacv1.PolicyRule{get("", "pods"), get("apps", "deployments")}, c.Roles); diff != "" {
			t.Errorf("roles differ (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]rbacv1.PolicyRule{get("", "nodes")}, c.ClusterRoles); diff != "" {
			t.Errorf("clusterRoles differ (-want +got):\n%s", diff)
		}
	})
	tests := map[string]struct {
		role string
		want expect
	}{
		"unknown key":    {"{apiGroups: [a], resources: [b], verbs: [get], resourceName: [c]}", expect{8, 64, "roles[0].resourceName", findings.SeverityError, "permission-key", "unknown key"}},
		"no verbs":       {"{apiGroups: [a], resources: [b]}", expect{8, 3, "roles[0]", findings.SeverityError, "permission", "needs verbs"}},
		"no apiGroups":   {"{resources: [b], verbs: [get]}", expect{8, 3, "roles[0]", findings.SeverityError, "permission", "needs apiGroups"}},
		"no resources":   {"{apiGroups: [a], verbs: [get]}", expect{8, 3, "roles[0]", findings.SeverityError, "permission", "needs resources"}},
		"URLs in a role": {"{nonResourceURLs: [/version], verbs: [get]}", expect{8, 21, "roles[0].nonResourceURLs", findings.SeverityError, "permission", "clusterRoles only"}},
		"empty resource": {"{apiGroups: [a], resources: [b, ''], verbs: [get]}", expect{8, 35, "roles[0].resources[1]", findings.SeverityError, "type", "must not be empty"}},
		"text as list":   {"{apiGroups: [a], resources: [b], verbs: get}", expect{8, 43, "roles[0].verbs", findings.SeverityError, "type", "must be a list"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := problemsOf(t, archiveOf(head+resources+"roles:\n- "+test.role+"\n"))
			checkProblems(t, got, []expect{test.want})
		})
	}
	t.Run("resources and URLs", func(t *testing.T) {
		got := problemsOf(t, archiveOf(head+resources+"clusterRoles:\n- {apiGroups: [a], nonResourceURLs: [/version], verbs: [get]}\n"))
		checkProblems(t, got, []expect{{8, 3, "clusterRoles[0]", findings.SeverityError, "permission", "not of both"}})
	})
}

func TestDerivedNames(t *testing.T) {
	fsys := archiveOf("domain: acme.tools\nname: zos-demo\nversion: 1.0.0-Beta.1\ndisplayName: Demo\nresources: [{kind: SomeMiddleware, playbook: run.yml, vars: [{name: o, displayName: O, type: object, objectVariables: [{name: p, displayName: P, type: password}]}]}]\n")
	c, err := Load(sealed(fsys))
	if err != nil {
		t.Fatal(err)
	}
	resource, found := c.Resource("SomeMiddleware")
	got := map[string]any{
		"operator": c.OperatorName(), "csv": c.CSVName(), "version": c.APIVersion(), "label": c.VersionLabel(),
		"shared": c.Group(false), "own": c.Group(true),
		"plural": resource.Plural(), "list": resource.ListKind(), "found": found, "passwords": c.UsesPasswords(),
	}
	want := map[string]any{
		"operator": "acme-tools-zos-demo-operator", "csv": "acme-tools-zos-demo-operator.v1.0.0-beta.1",
		"version": "v1minor0patch0-beta-1", "label": "1.0.0-beta.1",
		"shared": "suboperator.zoscb.ibm.com", "own": "zos-demo.acme.tools.suboperator.zoscb.ibm.com",
		"plural": "somemiddlewares", "list": "SomeMiddlewareList", "found": true, "passwords": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names differ (-want +got):\n%s", diff)
	}
	if _, found := c.Resource("Other"); found {
		t.Error("found a kind that is not there")
	}
}

// FuzzLoad: whatever the files hold, Load returns, and a collection that it accepts keeps its promises.
func FuzzLoad(f *testing.F) {
	for _, config := range []string{
		head + "- {kind: Thing, playbook: run.yml}\n",
		withVars("  - &v {name: a, displayName: A, type: object, array: true, default: '[{s: x}]', objectVariables: [{name: s, displayName: S, type: string}]}\n  - {<<: *v, name: b}\n"),
		withVars("  - {name: a, displayName: A, type: number, default: '1e3'}\n") + "roles: [{rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}]\nicon: [{base64data: YQ==, mediatype: image/png}]\n",
		"a: &a [*a]\n", "? [a]\n: b\n", "--- !x\n...\n---\n", "\xef\xbb\xbfdomain: \"\\u0000\"\n",
	} {
		f.Add([]byte(config), []byte(testManifest))
	}
	files, err := filepath.Glob("testdata/*/operator-config.y*")
	shapes, shapesErr := filepath.Glob("../../author/lint/testdata/shapes/*/operator-config.y*")
	if err != nil || shapesErr != nil || len(files)*len(shapes) == 0 {
		f.Fatal("no seeds", err, shapesErr)
	}
	for _, file := range append(files, shapes...) {
		config, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config, manifestOfRegion(f))
	}
	f.Fuzz(func(t *testing.T, config, manifest []byte) {
		fsys := archiveOf(string(config))
		fsys["MANIFEST.json"].Data = manifest
		_ = problemsOf(t, fsys)
		if c, err := Load(sealed(fsys)); err == nil {
			checkPromises(t, c)
		}
	})
}

// manifestOfRegion is the MANIFEST.json of a real collection.
func manifestOfRegion(f *testing.F) []byte {
	f.Helper()
	content, err := os.ReadFile("../../author/galaxy/testdata/region.MANIFEST.golden.json")
	if err != nil {
		f.Fatal(err)
	}
	return content
}

// FuzzManifest: whatever MANIFEST.json says, Load refuses it or knows the collection's name in Ansible.
func FuzzManifest(f *testing.F) {
	f.Add(manifestOfRegion(f))
	f.Add([]byte(testManifest))
	f.Add([]byte(manifestWith(`"dependencies": {"a.b": ">=1", "a": "x", "c.d": null}, "tags": "x", "authors": [1]`)))
	f.Add([]byte("{\"collection_info\": [\n\"\\ud800\"]}"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		fsys := archiveOf(sound)
		fsys["MANIFEST.json"].Data = manifest
		_ = problemsOf(t, fsys)
		if c, err := Load(sealed(fsys)); err == nil {
			checkPromises(t, c)
		}
	})
}

func checkPromises(t *testing.T, c *Collection) {
	t.Helper()
	if len(c.OperatorName()) > 63 || len(c.APIVersion()) > 63 || len(c.Resources) == 0 || c.DisplayName == "" ||
		c.Galaxy.Namespace == "" || c.Galaxy.Name == "" {
		t.Errorf("a promise is broken: %+v", c)
	}
	for _, r := range c.Resources {
		if r.Kind == "" || r.Playbook == "" || r.DisplayName == "" {
			t.Errorf("resource without a required field: %+v", r)
		}
		for _, v := range r.Vars {
			if v.Name == "" || v.Type == "" || IsReservedVar(v.Name) || (v.Type == Object) != (len(v.Fields) > 0) {
				t.Errorf("variable that breaks a rule: %+v", v)
			}
			if _, err := json.Marshal(v.Default); err != nil {
				t.Errorf("default of %s: %v", v.Name, err)
			}
		}
	}
}
