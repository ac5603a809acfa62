package model

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

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

// ruleCases are the cases of all rules. A further file of rules adds a slice of its own, in a line of its own.
var ruleCases = slices.Concat(
	fileCases,
	checksumCases,
	rootCases,
	iconCases,
	kindCases,
	variableCases,
	defaultCases,
	permissionCases,
	galaxyCases,
	requirementCases,
)

const (
	configName = "operator-config.yml"
	sound      = head + "- {kind: Thing, playbook: run.yml}\n"
)

// findingsRule is one of the rules about reading YAML.
func findingsRule(name string) findings.Rule {
	rules := findings.AllRules()
	return rules[slices.IndexFunc(rules, func(r findings.Rule) bool { return r.Name == name })]
}

// config makes a case of an operator-config that breaks the rule at the given lines and columns.
func config(rule findings.Rule, name, content string, places ...[2]int) ruleCase {
	return inFile(rule, name, configName, content, places...)
}

// inFile makes a case of a sound collection with another file.
func inFile(rule findings.Rule, name, file, content string, places ...[2]int) ruleCase {
	c := ruleCase{rule: rule, name: name, files: map[string]string{file: content}}
	for _, p := range places {
		c.want = append(c.want, place{file, p[0], p[1]})
	}
	return c
}

// inGalaxyYAML makes a case of a folder, which has a galaxy.yml instead of a MANIFEST.json.
func inGalaxyYAML(rule findings.Rule, name, content string, places ...[2]int) ruleCase {
	c := inFile(rule, name, GalaxyFile, content, places...)
	c.files[ManifestFile] = ""
	return c
}

// variable is an operator-config with one variable a, whose further keys begin in line 9, column 31.
func variable(keys string) string {
	return withVars("  - {name: a, displayName: A, " + keys + "}\n")
}

// image is an operator-config with one icon; its media type stands in line 8.
func image(mediaType, content string) string {
	return sound + "icon:\n- {mediatype: " + mediaType + ", base64data: " + base64.StdEncoding.EncodeToString([]byte(content)) + "}\n"
}

var fileCases = []ruleCase{
	config(ruleMissingConfig, "yml", sound),
	{rule: ruleMissingConfig, name: "none", files: map[string]string{configName: ""}, want: []place{{configName, 0, 0}}},
	{rule: ruleDuplicateConfig, name: "yaml", files: map[string]string{configName: "", "operator-config.yaml": sound}},
	{rule: ruleDuplicateConfig, name: "both", files: map[string]string{"operator-config.yaml": sound}, want: []place{{configName, 0, 0}}},
	inGalaxyYAML(RuleMissingGalaxy, "folder", goodGalaxy),
	{rule: RuleMissingGalaxy, name: "none", files: map[string]string{ManifestFile: ""}, want: []place{{ManifestFile, 0, 0}}},
	inFile(ruleFile, "long comment", runtimeFile, "# "+strings.Repeat("x", 1<<20)),
	inFile(ruleFile, "too large", runtimeFile, strings.Repeat("#\n", maxFileBytes), [2]int{0, 0}),
	config(findingsRule("yaml"), "anchors and merges", withVars("  - &a {name: a, displayName: A, type: string}\n  - {<<: *a, name: b}\n")),
	config(findingsRule("yaml"), "unclosed list", "domain: acme\nname: [\n", [2]int{2, 1}),
	config(findingsRule("yaml"), "first line", "domain: 'acme\n", [2]int{1, 1}),
	config(findingsRule("yaml"), "tab", "domain: acme\nresources:\n\t- kind: A\n", [2]int{3, 1}),
	config(findingsRule("yaml"), "two documents", sound+"---\na: b\n", [2]int{7, 1}),
	inFile(findingsRule("yaml"), "requirements", "collections/requirements.yml", "collections:\n  - {name: a.b\n", [2]int{2, 3}),
	inFile(ruleJSON, "sound", ManifestFile, testManifest),
	inFile(ruleJSON, "bare word", ManifestFile, "{\n  x}", [2]int{2, 3}),
	config(findingsRule("duplicate-key"), "same key elsewhere", withVars("  - {name: a, displayName: A, type: string}\n  - {name: b, displayName: A, type: string}\n")),
	config(findingsRule("duplicate-key"), "twice", sound+"name: demo\n", [2]int{7, 1}),
	config(findingsRule("type"), "number as text, quoted boolean", head+"- {kind: Thing, playbook: run.yml, hideResource: 'yes', description: 7}\n"),
	config(findingsRule("type"), "mapping as text", sound+"description: {a: b}\n", [2]int{7, 14}),
	config(findingsRule("type"), "text as boolean", head+"- {kind: Thing, playbook: run.yml, hideResource: maybe}\n", [2]int{6, 50}),
	config(findingsRule("type"), "text as list", sound+"roles: all\n", [2]int{7, 8}),
	config(findingsRule("unknown-key"), "IBM's extensions", sound+"provider: A\nreplaces: b\nmigrationPlaybook: c\ncollectionPath: d\ninventoryName: e\n"),
	config(findingsRule("unknown-key"), "at the root", sound+"maturity: stable\n", [2]int{7, 11}),
	config(findingsRule("unknown-key"), "in a resource", head+"- {kind: Thing, playbook: run.yml, playbok: x}\n", [2]int{6, 45}),
	config(findingsRule("unknown-key"), "in a variable", variable("type: string, defaults: b"), [2]int{9, 55}),
	config(findingsRule("unknown-key"), "in an icon", sound+"icon:\n- {base64data: YQ==, mediatype: image/x, media: x}\n", [2]int{8, 49}),
	config(ruleMigrationPlaybook, "a file", sound+"migrationPlaybook: playbooks/provision.yml\n"),
	config(ruleMigrationPlaybook, "not there", sound+"migrationPlaybook: see the manual\n", [2]int{7, 20}),
	config(ruleMigrationPlaybook, "a folder", sound+"migrationPlaybook: playbooks\n", [2]int{7, 20}),
	config(ruleMigrationPlaybook, "outside", sound+"migrationPlaybook: ../run.yml\n", [2]int{7, 20}),
	config(ruleMigrationPlaybook, "no text", sound+"migrationPlaybook: [run.yml]\n", [2]int{7, 20}),
	config(ruleMigrationReversible, "a boolean", sound+"migrationReversible: yes\n"),
	config(ruleMigrationReversible, "another text", sound+"migrationReversible: maybe\n", [2]int{7, 22}),
	config(ruleMigrationReversible, "a list", sound+"migrationReversible: [yes]\n", [2]int{7, 22}),
	config(ruleCapabilities, "a level", sound+"capabilities: full lifecycle\n"),
	config(ruleCapabilities, "no level", sound+"capabilities: Wonderful\n", [2]int{7, 15}),
	config(ruleCapabilities, "a list", sound+"capabilities: [Auto Pilot]\n", [2]int{7, 15}),
	config(ruleCategories, "a list", sound+"categories: [Database, security]\n"),
	config(ruleCategories, "a text", sound+"categories: Database, Security\n"),
	config(ruleCategories, "two unknown ones", sound+"categories: [Mainframe, Database, Batch]\n", [2]int{7, 13}, [2]int{7, 13}),
	inGalaxyYAML(findingsRule("unknown-key"), "in galaxy.yml", goodGalaxy+"tag: x\n", [2]int{6, 6}),
	inFile(ruleAnsibleConfig, "elsewhere", "playbooks/ansible.cfg", "[defaults]\n"),
	inFile(ruleAnsibleConfig, "at the root", ansibleConfigFile, "[defaults]\n", [2]int{0, 0}),
}

// root is a sound operator-config with another value of one of the first four keys.
func root(key, value string) string {
	var b strings.Builder
	for line := range strings.Lines(sound) {
		if strings.HasPrefix(line, key+":") {
			line = key + ": " + value + "\n"
		}
		b.WriteString(line)
	}
	return b.String()
}

var rootCases = []ruleCase{
	config(findings.RuleRequired, "all there", sound),
	config(findings.RuleRequired, "nothing there", "{}\n", [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}),
	config(findings.RuleRequired, "empty name", root("name", "''"), [2]int{2, 1}),
	config(findings.RuleRequired, "no resources", head+"  []\n", [2]int{6, 3}),
	config(findings.RuleRequired, "kind and playbook", head+"- {}\n", [2]int{6, 3}, [2]int{6, 3}),
	config(findings.RuleRequired, "name and type", withVars("  - {displayName: A}\n"), [2]int{9, 5}, [2]int{9, 5}),
	config(ruleDisplayName, "there", sound),
	config(ruleDisplayName, "of a resource is optional", sound),
	config(ruleDisplayName, "empty", root("displayName", "''"), [2]int{4, 1}),
	config(ruleDisplayName, "missing in a variable", withVars("  - {name: a, type: string}\n"), [2]int{9, 5}),
	config(ruleIdentity, "dots and dashes", root("domain", "acme.zos-tools")),
	config(ruleIdentity, "capital", root("domain", "Acme"), [2]int{1, 9}),
	config(ruleIdentity, "underscore", root("name", "my_demo"), [2]int{2, 7}),
	config(ruleIdentity, "64 characters", root("name", strings.Repeat("a", 64)), [2]int{2, 7}),
	config(ruleDerivedName, "letter at the end", root("version", "1.2.3-beta")),
	config(ruleDerivedName, "hyphen at the end", root("version", "1.2.3-beta-"), [2]int{3, 10}),
	config(ruleLongName, "longest", root("name", strings.Repeat("a", 63-len("acme--operator.v1.2.3")))),
	config(ruleLongName, "one more", root("name", strings.Repeat("a", 64-len("acme--operator.v1.2.3"))), [2]int{2, 7}),
	config(ruleLongName, "operator", root("domain", strings.Repeat("a", 63)), [2]int{2, 7}),
	config(ruleVersion, "pre-release", root("version", "1.2.3-beta.1")),
	config(ruleVersion, "two parts", root("version", "1.0"), [2]int{3, 10}),
	config(ruleVersion, "leading v", root("version", "v1.0.0"), [2]int{3, 10}),
	config(ruleVersionAPI, "pre-release", root("version", "1.2.3-beta.1")),
	config(ruleVersionAPI, "final dash", root("version", "1.2.3-beta-"), [2]int{3, 10}),
	config(ruleVersionAPI, "long", root("version", "1.2.3-"+strings.Repeat("b", 63)), [2]int{3, 10}),
	config(ruleVersionClash, "pre-release", root("version", "1.2.3-beta.1")),
	config(ruleVersionClash, "build metadata", root("version", "1.2.3+7"), [2]int{3, 10}),
	config(ruleVersionClash, "hyphen", root("version", "1.2.3-rc-1"), [2]int{3, 10}),
	config(ruleVersionClash, "capitals", root("version", "1.2.3-RC.1"), [2]int{3, 10}),
	config(ruleMatchDomain, "same", sound),
	config(ruleMatchDomain, "other", root("domain", "other"), [2]int{1, 9}),
	inFile(ruleMatchName, "underscores", ManifestFile, strings.ReplaceAll(testManifest, `"demo"`, `"my_demo"`), [2]int{}).without(configName, root("name", "my-demo")),
	config(ruleMatchName, "other", root("name", "other"), [2]int{2, 7}),
	config(ruleMatchVersion, "same", sound),
	config(ruleMatchVersion, "other", root("version", "1.2.4"), [2]int{3, 10}),
	config(ruleReplaces, "domain and name", sound+"replaces: other/demo\n"),
	config(ruleReplaces, "name", sound+"replaces: old-demo\n"),
	config(ruleReplaces, "nothing", sound+"replaces:\n"),
	config(ruleReplaces, "older version", sound+"replaces: acme-demo-operator.v0.9.0\n"),
	config(ruleReplaces, "this version", sound+"replaces: acme-demo-operator.v1.2.3\n", [2]int{7, 11}),
	config(ruleReplaces, "version of another operator", sound+"replaces: acme-old-operator.v0.9.0\n", [2]int{7, 11}),
	config(ruleReplaces, "text", sound+"replaces: the old one\n", [2]int{7, 11}),
	config(ruleReplaces, "path", sound+"replaces: a/b/c\n", [2]int{7, 11}),
	config(ruleReplaces, "list", sound+"replaces: [other/demo]\n", [2]int{7, 11}),
	config(ruleReplaces, "itself", sound+"replaces: demo\n", [2]int{7, 11}),
	config(ruleReplaces, "itself, with its domain", sound+"replaces: acme/demo\n", [2]int{7, 11}),
	config(ruleInventoryName, "hyphens", sound+"inventoryName: zos-hosts\n"),
	config(ruleInventoryName, "dots", sound+"inventoryName: my.hosts\n", [2]int{7, 16}),
	config(ruleInventoryName, "all", sound+"inventoryName: all\n", [2]int{7, 16}),
	config(ruleDescriptionHeading, "literal, no blank line", sound+"description: |-\n  # Demo\n  Makes things.\n  ## More\n  And more.\n"),
	config(ruleDescriptionHeading, "folded with blank lines", sound+"description: >-\n  # Demo\n\n  Makes things\n  and more.\n\n  ## More\n"),
	config(ruleDescriptionHeading, "escapes", sound+`description: "# Demo\nMakes things.\n\n## More"`+"\n"),
	config(ruleDescriptionHeading, "not a heading", sound+"description: >-\n  Number\n  #1 of all, C#\n  #hashtag\n"),
	config(ruleDescriptionHeading, "text glued to it", sound+"description: >-\n  # Demo\n  Makes things.\n", [2]int{8, 3}),
	config(ruleDescriptionHeading, "glued to text", sound+"description: >\n  Makes things.\n  ## More\n\n  And more.\n", [2]int{9, 3}),
	config(ruleDescriptionHeading, "quoted", sound+"description: \"# Demo\n  Makes things.\"\n", [2]int{7, 15}),
	config(ruleDescriptionHeading, "one line", sound+"description: '# Demo Makes things. ## More And more.'\n", [2]int{7, 14}),
}

// without lays a further file over the case's collection and says that the rule is kept.
func (c ruleCase) without(file, content string) ruleCase {
	c.files[file], c.want = content, nil
	return c
}

var iconCases = []ruleCase{
	config(ruleIconKeys, "both", image("image/svg+xml", "<svg/>")),
	config(ruleIconKeys, "none", sound+"icon:\n- {}\n", [2]int{8, 3}, [2]int{8, 3}),
	config(ruleIconData, "folded", sound+"icon:\n- mediatype: image/svg+xml;base64\n  base64data: >-\n    PHN2\n    Zy8+\n"),
	config(ruleIconData, "no base64", sound+"icon:\n- {mediatype: image/png, base64data: '***'}\n", [2]int{8, 38}),
	config(ruleIconType, "with a parameter", image("image/jpeg;base64", "\xff\xd8\xff")),
	config(ruleIconType, "text", image("text/html", "<svg/>"), [2]int{8, 15}),
	config(ruleIconType, "not shown", image("image/webp", "RIFF\x00\x00\x00\x00WEBPVP8 "), [2]int{8, 15}),
	config(ruleIconContent, "png", image("image/png", "\x89PNG\r\n\x1a\n")),
	config(ruleIconContent, "gif", image("image/gif", "GIF89a")),
	config(ruleIconContent, "jpg", image("image/jpg", "\xff\xd8\xff\xe0")),
	config(ruleIconContent, "webp", image("image/webp", "RIFF\x00\x00\x00\x00WEBPVP8 ")),
	config(ruleIconContent, "svg after a prologue", image("image/svg+xml", "<?xml version='1.0'?>\n<!-- a -->\n<!DOCTYPE svg PUBLIC 'x' 'y'>\n<svg xmlns='x'/>")),
	config(ruleIconContent, "a type nobody sniffs", image("image/x-icon", "\x00\x00\x01\x00")),
	config(ruleIconContent, "png as svg", image("image/svg+xml", "\x89PNG\r\n\x1a\n"), [2]int{8, 15}),
	config(ruleIconContent, "text as png", image("image/png", "hello"), [2]int{8, 15}),
	config(ruleIconContent, "html as svg", image("image/svg+xml", "<html><svg/></html>"), [2]int{8, 15}),
	config(ruleIconSize, "100 KiB", image("image/gif", "GIF89a"+strings.Repeat("x", maxIconBytes-6))),
	config(ruleIconSize, "more", image("image/gif", "GIF89a"+strings.Repeat("x", maxIconBytes-5)), [2]int{8, 38}),
}

var kindCases = []ruleCase{
	config(ruleKindName, "59 characters", head+"- {playbook: run.yml, kind: "+strings.Repeat("A", 59)+"}\n"),
	config(ruleKindName, "60 characters", head+"- {playbook: run.yml, kind: "+strings.Repeat("A", 60)+"}\n", [2]int{6, 29}),
	config(ruleKindName, "underscore", head+"- {playbook: run.yml, kind: Some_Thing}\n", [2]int{6, 29}),
	config(ruleKindCase, "digits", head+"- {playbook: run.yml, kind: CICSRegion6}\n"),
	config(ruleKindCase, "small letter", head+"- {playbook: run.yml, kind: someThing}\n", [2]int{6, 29}),
	config(ruleKindUnique, "two kinds", head+"- {playbook: run.yml, kind: A}\n- {playbook: run.yml, kind: B}\n"),
	config(ruleKindUnique, "same kind", head+"- {playbook: run.yml, kind: A}\n- {playbook: run.yml, kind: A}\n", [2]int{7, 29}),
	config(ruleKindUnique, "same plural", head+"- {playbook: run.yml, kind: Ab}\n- {playbook: run.yml, kind: AB}\n", [2]int{7, 29}),
	config(ruleSupport, "text", sound+"support: ACME\n"),
	config(ruleSupport, "none", sound+"support:\n"),
	config(ruleSupport, "mapping", sound+"support: {url: x}\n", [2]int{7, 10}),
	config(ruleReconcilePeriod, "minimum", head+"- {kind: A, playbook: run.yml, reconcilePeriod: 5m}\n"),
	config(ruleReconcilePeriod, "off", head+"- {kind: A, playbook: run.yml, reconcilePeriod: 0s}\n"),
	config(ruleReconcilePeriod, "too short", head+"- {kind: A, playbook: run.yml, reconcilePeriod: 1m}\n", [2]int{6, 49}),
	config(ruleReconcilePeriod, "no duration", head+"- {kind: A, playbook: run.yml, reconcilePeriod: daily}\n", [2]int{6, 49}),
	config(ruleMaxArtifacts, "highest", head+"- {kind: A, playbook: run.yml, maxRunnerArtifacts: 20}\n"),
	config(ruleMaxArtifacts, "too many", head+"- {kind: A, playbook: run.yml, maxRunnerArtifacts: 21}\n", [2]int{6, 52}),
	config(ruleMaxArtifacts, "none", head+"- {kind: A, playbook: run.yml, maxRunnerArtifacts: 0}\n", [2]int{6, 52}),
	config(ruleNotOffered, "offered", head+"- {kind: A, playbook: run.yml, maxRunnerArtifacts: 3}\n"),
	config(ruleNotOffered, "role and selector", head+"- {kind: A, playbook: run.yml, role: a, selector: {}}\n", [2]int{6, 38}, [2]int{6, 51}),
	config(ruleNotOffered, "manageStatus", head+"- {kind: A, playbook: run.yml, manageStatus: false}\n", [2]int{6, 46}),
	config(rulePlaybookPath, "not clean", head+"- {kind: A, playbook: ./playbooks/../run.yml}\n"),
	config(rulePlaybookPath, "absolute", head+"- {kind: A, playbook: /run.yml}\n", [2]int{6, 23}),
	config(rulePlaybookPath, "outside", head+"- {kind: A, playbook: a/../../run.yml}\n", [2]int{6, 23}),
	config(ruleFinalizerPath, "same as the playbook", head+"- {kind: A, playbook: run.yml, finalizer: run.yml}\n"),
	config(ruleFinalizerPath, "absolute", head+"- {kind: A, playbook: run.yml, finalizer: /run.yml}\n", [2]int{6, 43}),
	config(ruleMissingPlaybook, "in a folder", head+"- {kind: A, playbook: playbooks/provision.yml}\n"),
	config(ruleMissingPlaybook, "not there", head+"- {kind: A, playbook: no.yml}\n", [2]int{6, 23}),
	config(ruleMissingPlaybook, "a folder", head+"- {kind: A, playbook: playbooks}\n", [2]int{6, 23}),
	config(ruleMissingFinalizer, "in a folder", head+"- {kind: A, playbook: run.yml, finalizer: playbooks/provision.yml}\n"),
	config(ruleMissingFinalizer, "not there", head+"- {kind: A, playbook: run.yml, finalizer: no.yml}\n", [2]int{6, 43}),
}

var variableCases = []ruleCase{
	config(ruleVarName, "capitals and mixed case", withVars("  - {name: DFH_REGION_APPLID, displayName: A, type: string}\n  - {name: DFS_IMSPlex, displayName: B, type: string}\n")),
	config(ruleVarName, "hyphen", withVars("  - {name: a-b, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleVarName, "of a field", variable("type: object, objectVariables: [{name: 1x, displayName: X, type: string}]"), [2]int{9, 70}),
	config(ruleVarUnique, "case matters", withVars("  - {name: a, displayName: A, type: string}\n  - {name: A, displayName: A, type: string}\n")),
	config(ruleVarUnique, "twice", withVars("  - {name: a, displayName: A, type: string}\n  - {name: a, displayName: A, type: string}\n"), [2]int{10, 12}),
	config(ruleVarUnique, "field twice", variable("type: object, objectVariables: [{name: x, displayName: X, type: string}, {name: x, displayName: X, type: string}]"), [2]int{9, 111}),
	config(ruleReservedVar, "nearly", withVars("  - {name: my_ansible_host, displayName: A, type: string}\n")),
	config(ruleReservedVar, "a field is no variable", variable("type: object, objectVariables: [{name: ansible_host, displayName: X, type: string}]")),
	config(ruleReservedVar, "connection", withVars("  - {name: ansible_connection, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleReservedVar, "meta", withVars("  - {name: ansible_operator_meta, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleReservedVar, "event", withVars("  - {name: k8s_cr_event, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleReservedVar, "ours", withVars("  - {name: zoscb_x, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleReservedVar, "endpoint", withVars("  - {name: zosendpoint, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "nearly", withVars("  - {name: names, displayName: A, type: string}\n")),
	config(ruleAnsibleKeyword, "a field is no variable", variable("type: object, objectVariables: [{name: name, displayName: X, type: string}]")),
	config(ruleAnsibleKeyword, "name", withVars("  - {name: name, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "async_val", withVars("  - {name: async_val, displayName: A, type: integer}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "what Ansible sets itself", withVars("  - {name: groups, displayName: A, type: string, array: true}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "word of Jinja", withVars("  - {name: none, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "function of templates", withVars("  - {name: namespace, displayName: A, type: string}\n"), [2]int{9, 12}),
	config(ruleAnsibleKeyword, "port", withVars("  - {name: port, displayName: A, type: integer}\n"), [2]int{9, 12}),
	config(ruleVarType, "integer", variable("type: integer")),
	config(ruleVarType, "unknown", variable("type: list"), [2]int{9, 37}),
	config(ruleArrayType, "of numbers", variable("type: number, array: true")),
	config(ruleArrayType, "false is nothing", variable("type: boolean, array: false")),
	config(ruleArrayType, "of booleans", variable("type: boolean, array: true"), [2]int{9, 53}),
	config(ruleArrayType, "of passwords", variable("type: password, array: true"), [2]int{9, 54}),
	config(ruleArrayType, "of booleans in an object", variable("type: object, objectVariables: [{name: x, displayName: X, type: boolean, array: true}]"), [2]int{9, 111}),
	config(ruleNestedArray, "of a resource", variable("type: string, array: true")),
	config(ruleNestedArray, "in an object", variable("type: object, objectVariables: [{name: x, displayName: X, type: string, array: true}]"), [2]int{9, 110}),
	config(ruleNestedObject, "one level", variable("type: object, objectVariables: [{name: x, displayName: X, type: string}]")),
	config(ruleNestedObject, "two levels", variable("type: object, objectVariables: [{name: x, displayName: X, type: object}]"), [2]int{9, 95}),
	config(ruleObjectVariables, "there", variable("type: object, objectVariables: [{name: x, displayName: X, type: string}]")),
	config(ruleObjectVariables, "missing", variable("type: object"), [2]int{9, 5}),
	config(ruleObjectVariables, "empty", variable("type: object, objectVariables: []"), [2]int{9, 62}),
	config(ruleObjectVariablesUnused, "of an object", variable("type: object, objectVariables: [{name: x, displayName: X, type: string}]")),
	config(ruleObjectVariablesUnused, "of a text", variable("type: string, objectVariables: [{name: x}]"), [2]int{9, 62}),
	config(ruleOptionalObject, "required", variable("type: object, required: true, objectVariables: [{name: x, displayName: X, type: string, required: true}, {name: y, displayName: Y, type: string, default: z}]")),
	config(ruleOptionalObject, "default for the required field", variable("type: object, objectVariables: [{name: x, displayName: X, type: string, required: true, default: z}]")),
	config(ruleOptionalObject, "no defaults", variable("type: object, objectVariables: [{name: x, displayName: X, type: string, required: true}]")),
	config(ruleOptionalObject, "optional", variable("type: object, objectVariables: [{name: x, displayName: X, type: string, required: true}, {name: y, displayName: Y, type: string, default: z}]"), [2]int{9, 62}),
	config(ruleOptionsType, "of a text", variable("type: string, options: [a, 6.1]")),
	config(ruleOptionsType, "of a number", variable("type: number, options: ['1']"), [2]int{9, 54}),
	config(ruleOptionUnique, "differ in case", variable("type: string, options: [a, A]")),
	config(ruleOptionUnique, "twice", variable("type: string, options: [a, a]"), [2]int{9, 58}),
	config(ruleOptionEmpty, "all there", variable("type: string, options: [a, b]")),
	config(ruleOptionEmpty, "empty text", variable("type: string, options: [a, '']"), [2]int{9, 58}),
	config(ruleKindReference, "a kind", variable("type: string, kindReference: ZosEndpoint")),
	config(ruleKindReference, "no kind", variable("type: string, kindReference: some thing"), [2]int{9, 60}),
	config(ruleKindReferenceUnused, "of an array", variable("type: string, array: true, kindReference: Thing")),
	config(ruleKindReferenceUnused, "of a number", variable("type: number, kindReference: Thing"), [2]int{9, 60}),
	config(ruleKindReferenceUnused, "of a boolean in an object", variable("type: object, objectVariables: [{name: x, displayName: X, type: boolean, kindReference: Thing}]"), [2]int{9, 119}),
	config(ruleKindReferenceUnused, "beside options", variable("type: string, options: [a], kindReference: Thing"), [2]int{9, 74}),
	config(ruleKindReferenceUnknown, "of this collection", variable("type: string, kindReference: Thing")),
	config(ruleKindReferenceUnknown, "endpoint", variable("type: string, kindReference: ZosEndpoint")),
	config(ruleKindReferenceUnknown, "of another", variable("type: string, kindReference: Other"), [2]int{9, 60}),
	config(ruleKindReferenceUnknown, "of another, in an object", variable("type: object, objectVariables: [{name: x, displayName: X, type: string, kindReference: Other}]"), [2]int{9, 118}),
}

const object = ", objectVariables: [{name: s, displayName: S, type: string, required: true}, {name: n, displayName: N, type: integer, default: '7'}]"

var defaultCases = []ruleCase{
	config(ruleDefaultType, "number as text", variable("type: number, default: '9800'")),
	config(ruleDefaultType, "date as text", variable("type: string, default: 2025-01-01")),
	config(ruleDefaultType, "empty", variable("type: number, default: ''")),
	config(ruleDefaultType, "null", variable("type: boolean, default: ")),
	config(ruleDefaultType, "list as text", variable(`type: string, array: true, default: '["a", "b"]'`)),
	config(ruleDefaultType, "text for a number", variable("type: number, default: many"), [2]int{9, 54}),
	config(ruleDefaultType, "number for a boolean", variable("type: boolean, default: 1"), [2]int{9, 55}),
	config(ruleDefaultType, "text for a list", variable("type: string, array: true, default: a"), [2]int{9, 67}),
	config(ruleDefaultType, "element of a list", variable("type: integer, array: true, default: [1, x]"), [2]int{9, 72}),
	config(ruleDefaultType, "text for an object", variable("type: object, default: x"+object), [2]int{9, 54}),
	config(ruleDefaultOption, "one of them", variable("type: string, options: [a, b], default: b")),
	config(ruleDefaultOption, "another", variable("type: string, options: [a, b], default: c"), [2]int{9, 71}),
	config(ruleDefaultObject, "as text", variable(`type: object, default: '{"s": "x"}'`+object)),
	config(ruleDefaultObject, "unknown field", variable("type: object, default: {s: x, other: 1}"+object), [2]int{9, 68}),
	config(ruleDefaultObject, "missing field", variable("type: object, default: {n: 1}"+object), [2]int{9, 54}),
	config(ruleDefaultTemplate, "braces that are none", variable("type: string, default: '{a}'")),
	config(ruleDefaultTemplate, "text", variable("type: string, default: '{{ b }}'"), [2]int{9, 54}),
	config(ruleDefaultTemplate, "number", variable("type: number, default: '{{ b }}'"), [2]int{9, 54}),
	config(ruleDefaultSecret, "name", variable("type: password, default: my-secret")),
	config(ruleDefaultSecret, "password", variable("type: password, default: 'Hush! Hush'"), [2]int{9, 56}),
}

var permissionCases = []ruleCase{
	config(rulePermissionKey, "nested and flat", sound+"roles:\n- rules: [{apiGroups: [a], resources: [b], verbs: [get]}]\n- {apiGroups: [a], resources: [b], verbs: [get]}\n"),
	config(rulePermissionKey, "misspelt", sound+"roles:\n- {apiGroups: [a], resources: [b], verbs: [get], resourceName: [c]}\n", [2]int{8, 64}),
	config(rulePermission, "nested and flat", sound+"clusterRoles:\n- rules: [{apiGroups: [''], resources: [b], verbs: [get]}]\n- {nonResourceURLs: [/version], verbs: [get]}\n"),
	config(rulePermission, "no rules, which are optional", sound+"roles: [{}]\nclusterRoles:\n- rules:\n"),
	config(rulePermission, "no verbs", sound+"roles:\n- {apiGroups: [a], resources: [b]}\n", [2]int{8, 3}),
	config(rulePermission, "no verbs, nested", sound+"clusterRoles:\n- rules:\n  - {apiGroups: [a], resources: [b]}\n", [2]int{9, 5}),
	config(rulePermission, "URLs in a role", sound+"roles:\n- {nonResourceURLs: [/version], verbs: [get]}\n", [2]int{8, 21}),
	config(rulePermissionWildcard, "none", sound+"roles:\n- {apiGroups: [a], resources: [b], verbs: [get]}\n"),
	config(rulePermissionWildcard, "each list", sound+"clusterRoles:\n- {apiGroups: ['*'], resources: [b, '*/status'], verbs: ['*']}\n- {nonResourceURLs: [/a/*], verbs: [get]}\n",
		[2]int{8, 16}, [2]int{8, 37}, [2]int{8, 58}, [2]int{9, 22}),
}

// goodGalaxy is a sound galaxy.yml of 5 lines.
const goodGalaxy = "namespace: acme\nname: demo\nversion: 1.2.3\nreadme: README.md\nauthors: [Acme]\n"

// manifestWith is a MANIFEST.json of the sound collection with further keys in line 2.
func manifestWith(keys string) string {
	return "{\"collection_info\": {\"namespace\": \"acme\", \"name\": \"demo\", \"version\": \"1.2.3\",\n" + keys + "}}"
}

var galaxyCases = []ruleCase{
	inFile(ruleGalaxyName, "manifest", ManifestFile, testManifest),
	inFile(ruleGalaxyName, "illegal", ManifestFile, "{\"collection_info\":\n {\"namespace\": \"../x\", \"name\": \"demo\", \"version\": \"1.0.0\"}}", [2]int{2, 16}),
	inFile(ruleGalaxyName, "no collection_info", ManifestFile, "{}", [2]int{1, 1}),
	inGalaxyYAML(ruleGalaxyName, "hyphen", strings.Replace(goodGalaxy, "demo", "my-demo", 1)),
	inGalaxyYAML(ruleGalaxyName, "blank", strings.Replace(goodGalaxy, "demo", "my demo", 1), [2]int{2, 7}),
	inGalaxyYAML(ruleGalaxyName, "path", strings.Replace(goodGalaxy, "demo", "-demo", 1), [2]int{2, 7}),
	inGalaxyYAML(ruleGalaxyHyphen, "none", goodGalaxy),
	inGalaxyYAML(ruleGalaxyHyphen, "name", strings.Replace(goodGalaxy, "demo", "my-demo", 1), [2]int{2, 7}),
	inFile(ruleGalaxyHyphen, "namespace", ManifestFile, "{\"collection_info\":\n {\"namespace\": \"x-y\", \"name\": \"demo\", \"version\": \"1.0.0\"}}", [2]int{2, 16}),
	inGalaxyYAML(ruleGalaxyName, "no version", strings.Replace(goodGalaxy, "version: 1.2.3\n", "", 1), [2]int{1, 1}),
	inFile(ruleGalaxyMetadata, "null", ManifestFile, manifestWith(`"tags": null, "license": []`)),
	inFile(ruleGalaxyMetadata, "text as list", ManifestFile, manifestWith(`"tags": "a"`), [2]int{2, 9}),
	inFile(ruleRequiresAnsible, "range", runtimeFile, "requires_ansible: '>=2.15.0,<2.19'\n"),
	inFile(ruleRequiresAnsible, "word", runtimeFile, "requires_ansible: new\n", [2]int{1, 19}),
}

var requirementCases = []ruleCase{
	inFile(ruleRequirements, "names", "collections/requirements.yml", "collections:\n- ibm.ibm_zos_core\n- {name: a.b, version: '>=1.0.0,<2'}\n"),
	inFile(ruleRequirements, "dependencies", ManifestFile, manifestWith(`"dependencies": {"ibm.ibm_zos_core": ">=1.9.0"}`)),
	inFile(ruleRequirements, "no name", "collections/requirements.yml", "collections:\n- {name: zos}\n", [2]int{2, 10}),
	inFile(ruleRequirements, "absent archive", "requirements.yml", "- ../a-b-1.0.0.tar.gz\n", [2]int{1, 3}),
	inFile(ruleRequirements, "dependency in an archive", ManifestFile, manifestWith(`"dependencies": {"zos": "*"}`), [2]int{2, 25}),
	inGalaxyYAML(ruleRequirements, "dependency in a folder", goodGalaxy+"dependencies:\n  zos: '*'\n", [2]int{7, 8}),
	inFile(ruleRequirementsRole, "collections only", "requirements.yml", "collections: [a.b]\n"),
	inFile(ruleRequirementsRole, "roles", "requirements.yml", "roles:\n- x\ncollections: [a.b]\n", [2]int{2, 1}),
	inFile(ruleRequirementsSource, "address", "requirements.yml", "- {name: a.b, source: 'https://hub.example/api/'}\n"),
	inFile(ruleRequirementsSource, "name of a server", "requirements.yml", "- {name: a.b, source: galaxy}\n", [2]int{1, 23}),
	inFile(rulePythonRequirements, "offline", "collections/requirements.txt", "--no-index\n--find-links ../wheels\nrequests>=2.31,<3 # why\n"),
	inFile(rulePythonRequirements, "unknown option", "requirements.txt", "a\n\n--user\n", [2]int{3, 1}),
}

func (c ruleCase) fsys() fstest.MapFS {
	fsys := archiveOf(sound)
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
	for _, c := range ruleCases {
		t.Run(c.rule.Name+"/"+c.name, func(t *testing.T) {
			var got []place
			for _, p := range problemsOf(t, c.fsys()) {
				if p.Rule != c.rule.Name {
					continue
				}
				got = append(got, place{p.File, p.Line, p.Column})
				if p.Severity != c.rule.Severity || p.Refused != c.rule.Refused || p.Message == "" {
					t.Errorf("problem %+v does not agree with rule %+v", p, c.rule)
				}
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("places differ (-want +got):\n%s\nof %v", diff, problemsOf(t, c.fsys()))
			}
		})
	}
}

// A sound collection breaks no rule at all, so that the cases stand for themselves.
func TestSoundCollection(t *testing.T) {
	checkProblems(t, problemsOf(t, archiveOf(sound)), nil)
}

// The rules about reading YAML are tried here, too: they need files.
func TestEveryRuleHasCases(t *testing.T) {
	kept, broken := map[findings.Rule]bool{}, map[findings.Rule]bool{}
	for _, c := range ruleCases {
		if len(c.want) == 0 {
			kept[c.rule] = true
		} else {
			broken[c.rule] = true
		}
	}
	for _, rule := range slices.Concat(findings.AllRules(), Rules()) {
		if !kept[rule] || !broken[rule] {
			t.Errorf("rule %q has a case that keeps it: %v, and one that breaks it: %v; want both", rule.Name, kept[rule], broken[rule])
		}
	}
}
