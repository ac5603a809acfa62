package lint

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

func configSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	raw, err := ConfigSchema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("operator-config.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("operator-config.json")
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

func validateConfig(t *testing.T, s *jsonschema.Schema, config []byte) error {
	t.Helper()
	raw, err := yaml.YAMLToJSON(config)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

func TestConfigSchemaTakesRealCollections(t *testing.T) {
	s := configSchema(t)
	var files []string
	for _, pattern := range []string{"../../collection/model/testdata/*/operator-config.y*ml", "testdata/shapes/*/operator-config.y*ml", "../../../test/collections/*/operator-config.y*ml", "../../../test/collections/*/*/operator-config.y*ml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	taken := 0
	for _, file := range files {
		_, problems, err := model.Read(os.DirFS(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		if len(problems.WithSeverity(findings.SeverityError)) > 0 {
			continue
		}
		taken++
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validateConfig(t, s, content); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	if taken < 8 {
		t.Errorf("only %d of %q are without errors", taken, files)
	}
}

func TestConfigSchema(t *testing.T) {
	const head = "domain: acme\nname: things\nversion: 1.0.0\ndisplayName: Things\n"
	const kind = head + "resources:\n- kind: Thing\n  playbook: thing.yml\n"
	variable := func(s string) string { return kind + "  vars:\n  - " + s + "\n" }
	s := configSchema(t)
	for _, tt := range []struct {
		name, config string
		valid        bool
	}{
		{"smallest", kind, true},
		{"no resources", head, false},
		{"empty resources", head + "resources: []\n", false},
		{"key of its own", kind + "maintainer: me\n", true},
		{"misspelt key of a resource", kind + "  finaliser: thing.yml\n", false},
		{"misspelt key of a variable", variable("{name: a, displayName: A, type: string, defaults: b}"), false},
		{"version with two parts", "domain: acme\nname: things\nversion: '1.0'\ndisplayName: x\nresources: [{kind: A, playbook: a.yml}]\n", false},
		{"kind in lower case", head + "resources: [{kind: thing, playbook: a.yml}]\n", false},
		{"no playbook", head + "resources: [{kind: Thing}]\n", false},
		{"number in quotes", kind + "  maxRunnerArtifacts: '3'\n", true},
		{"number that is left empty", kind + "  maxRunnerArtifacts: ''\n", true},
		{"not a number of runs", kind + "  maxRunnerArtifacts: [3]\n", false},
		{"boolean in capitals", kind + "  hideResource: 'YeS'\n", true},
		{"boolean that is left empty", kind + "  hideResource: ''\n", true},
		{"no boolean", kind + "  hideResource: maybe\n", false},
		{"array that is off", variable("{name: a, displayName: A, type: boolean, array: off}"), true},
		{"array that is off, in quotes", variable("{name: a, displayName: A, type: password, array: 'OFF'}"), true},
		{"array that is on, in quotes", variable("{name: a, displayName: A, type: password, array: 'on'}"), false},
		{"array that is left empty", variable("{name: a, displayName: A, type: boolean, array: ''}"), true},
		{"field whose array is off", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: string, array: off}]}"), true},
		{"field with an empty list of fields", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: string, objectVariables: []}]}"), false},
		{"field with fields left empty", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: string, objectVariables: ''}]}"), true},
		{"lists that are left empty", kind + "  vars: ''\nicon: ''\nroles: ''\nclusterRoles:\n", true},
		{"options that are left empty", variable("{name: a, displayName: A, type: number, options: ''}"), true},
		{"options that are a text", variable("{name: a, displayName: A, type: string, options: a}"), false},
		{"provider is a number", kind + "provider: 7\n", true},
		{"provider is a list", kind + "provider: [a]\n", false},
		{"provider with a list as name", kind + "provider: {name: [a]}\n", false},
		{"group that is left empty", kind + "inventoryName: ''\n", true},
		{"group of Ansible", kind + "inventoryName: all\n", false},
		{"domain is a number", "domain: 7\nname: things\nversion: 1.0.0\ndisplayName: x\nresources: [{kind: A, playbook: a.yml}]\n", true},
		{"domain is a negative number", "domain: -7\nname: things\nversion: 1.0.0\ndisplayName: x\nresources: [{kind: A, playbook: a.yml}]\n", false},
		{"version with a leading zero", "domain: acme\nname: things\nversion: 01.0.0\ndisplayName: x\nresources: [{kind: A, playbook: a.yml}]\n", false},
		{"version with a pre-release", "domain: acme\nname: things\nversion: 1.0.0-rc.1+7\ndisplayName: x\nresources: [{kind: A, playbook: a.yml}]\n", true},
		{"reference to a kind in small letters", variable("{name: a, displayName: A, type: string, kindReference: thing}"), true},
		{"reference to no kind", variable("{name: a, displayName: A, type: string, kindReference: a-b}"), false},
		{"name of a whole resource", variable("{name: _suboperator_zoscb_ibm_com_thing, displayName: A, type: string}"), false},
		{"icon without an image", kind + "icon: [{base64data: '', mediatype: image/png}]\n", false},
		{"roles that are no list", kind + "roles: {rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]}\n", true},
		{"one rule that is no list", kind + "roles: {apiGroups: [''], resources: [pods], verbs: [get]}\n", true},
		{"roles that are a text", kind + "roles: all\n", false},
		{"no displayName", variable("{name: a, type: string}"), false},
		{"empty displayName", variable("{name: a, displayName: '', type: string}"), false},
		{"field without displayName", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, type: number}]}"), false},
		{"array of booleans", variable("{name: a, displayName: A, type: boolean, array: true}"), false},
		{"array of passwords", variable("{name: a, displayName: A, type: password, array: true}"), false},
		{"array of numbers", variable("{name: a, displayName: A, type: number, array: true}"), true},
		{"boolean that is no array", variable("{name: a, displayName: A, type: boolean, array: false}"), true},
		{"options of a number", variable("{name: a, displayName: A, type: number, options: ['1']}"), false},
		{"options of a field", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: number, options: ['1']}]}"), false},
		{"empty objectVariables", variable("{name: a, displayName: A, type: object, objectVariables: []}"), false},
		{"no rules", kind + "roles: [{}]\n", true},
		{"rule without resources", kind + "roles: [{apiGroups: [''], verbs: [get]}]\n", false},
		{"rule without verbs", kind + "roles: [{apiGroups: [''], resources: [pods], verbs: []}]\n", false},
		{"default left empty", variable("{name: a, displayName: A, type: string, default: , required: false}"), true},
		{"default is a number", variable("{name: a, displayName: A, type: integer, default: 80}"), true},
		{"unknown type", variable("{name: a, displayName: A, type: text}"), false},
		{"reserved name", variable("{name: ansible_user, displayName: A, type: string}"), false},
		{"object", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: number}]}"), true},
		{"object without fields", variable("{name: a, displayName: A, type: object}"), false},
		{"object in an object", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: object}]}"), false},
		{"field that is a list", variable("{name: a, displayName: A, type: object, objectVariables: [{name: b, displayName: B, type: string, array: true}]}"), false},
		{"nested rules", kind + "roles:\n- rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n", true},
		{"flat rules", kind + "clusterRoles: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n", true},
		{"misspelt key of a rule", kind + "roles: [{apiGroup: [''], resources: [pods], verbs: [get]}]\n", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := validateConfig(t, s, []byte(tt.config)); (err == nil) != tt.valid {
				t.Errorf("valid is %v, want %v: %v", err == nil, tt.valid, err)
			}
			fsys := fstest.MapFS{
				"operator-config.yml": &fstest.MapFile{Data: []byte(tt.config)}, "thing.yml": &fstest.MapFile{}, "a.yml": &fstest.MapFile{},
				"galaxy.yml": &fstest.MapFile{Data: []byte("namespace: acme\nname: things\nversion: 1.0.0\n")},
			}
			_, problems, err := model.Read(fsys)
			if err != nil {
				t.Fatal(err)
			}
			unknown := slices.ContainsFunc(problems, func(p findings.Problem) bool { return p.Rule == "unknown-key" })
			ignored := slices.ContainsFunc(problems, func(p findings.Problem) bool { return strings.HasSuffix(p.Message, "it is ignored") })
			if found := problems.WithSeverity(findings.SeverityError); (len(found) == 0 && !ignored) != tt.valid && !unknown {
				t.Errorf("lint says %v, and the schema that valid is %v", found, tt.valid)
			}
		})
	}
}

func TestConfigSchemaIsJSON(t *testing.T) {
	first, err := ConfigSchema()
	if err != nil {
		t.Fatal(err)
	}
	second, err := ConfigSchema()
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(first) || !bytes.Equal(first, second) {
		t.Error("the schema is not JSON, or not the same twice")
	}
}
