package collection

import (
	"regexp"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Keys of the operator-config: those of the specification, and in rootExtensions those that IBM's schema and
// collections have besides. Of the latter only provider and inventoryName mean something here.
var (
	rootKeys       = []string{"domain", "name", "version", "displayName", "description", "resources", "clusterRoles", "roles", "icon"}
	rootExtensions = []string{"provider", "inventoryName", "replaces", "migrationPlaybook", "collectionPath"}
	resourceKeys   = []string{"kind", "displayName", "description", "playbook", "finalizer", "vars", "hideResource"}
	iconKeys       = []string{"base64data", "mediatype"}
)

var (
	// identifier is what Ansible accepts as a variable or group name.
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	pascalCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	kindName   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9]*$`)
)

// readOperatorConfig fills c with what the operator-config says ("OperatorHub Integration" and the sections after it).
// What is reported as an error is left empty in c.
func (l *loader) readOperatorConfig(c *Collection, doc value, content []byte) {
	root, ok := doc.mapping()
	if !ok {
		return
	}
	root.warnUnknown(slices.Concat(rootKeys, rootExtensions)...)
	c.Domain = readSubdomain(root.get("domain"))
	c.Name = readSubdomain(root.get("name"))
	c.Version = readVersion(root.get("version"))
	c.DisplayName = readDisplayName(root.get("displayName"), c.Name)
	c.Description = root.get("description").text()
	checkHeadings(root.get("description"), content)
	c.Provider, c.ProviderURL = readProvider(root.get("provider"))
	c.InventoryName = readInventoryName(root.get("inventoryName"))
	c.Icons = readIcons(root.get("icon"))
	c.Roles = readRules(root.get("roles"), false)
	c.ClusterRoles = readRules(root.get("clusterRoles"), true)
	c.Resources = readResources(root.get("resources"))
}

// readDisplayName reads a displayName that the specification asks for. The name stands in for a missing one.
func readDisplayName(v value, name string) string {
	if v.blank() {
		v.report(ruleDisplayName, "is required by the specification; the name is shown instead")
		return name
	}
	return v.text()
}

func readSubdomain(v value) string {
	s := v.requiredText()
	if s == "" {
		return ""
	}
	if len(s) > validation.LabelValueMaxLength {
		v.report(ruleIdentity, "must be at most %d characters long, is %d", validation.LabelValueMaxLength, len(s))
		return ""
	}
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		v.report(ruleIdentity, "%s is not a DNS subdomain (RFC 1123): use lower-case letters, digits, - and ., beginning and ending with a letter or digit", quote(s))
		return ""
	}
	return s
}

func readVersion(v value) *semver.Version {
	s := v.requiredText()
	if s == "" {
		return nil
	}
	version, err := semver.StrictNewVersion(s)
	if err != nil {
		v.report(ruleVersion, "%s is not a semantic version such as 1.2.0 (major.minor.patch)", quote(s))
		return nil
	}
	if pre := version.Prerelease(); pre != strings.ToLower(pre) {
		v.report(ruleVersionClash, "the API version and the operator have the pre-release %s in small letters: versions that differ in it alone clash", quote(pre))
	}
	if pre := version.Prerelease(); strings.Contains(pre, "-") {
		v.report(ruleVersionClash, "the API version has hyphens where the pre-release %s has hyphens or dots: versions that differ in it alone clash; use dots", quote(pre))
	}
	if version.Metadata() != "" {
		v.report(ruleVersionClash, "the build metadata +%s has no part in the names of the API version and the operator: versions that differ in it alone clash", version.Metadata())
	}
	return version
}

// readProvider accepts a name, or the {name, url} that operator bundles use.
func readProvider(v value) (name, address string) {
	if v.node == nil || v.node.Kind != yaml.MappingNode {
		return v.text(), ""
	}
	m, _ := v.mapping()
	return m.get("name").text(), m.get("url").text()
}

func isScalar(v value) bool {
	_, ok := v.scalar()
	return ok
}

// groupName also takes hyphens: Ansible warns about them, and collections use them (hosts: some-host).
var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func readInventoryName(v value) string {
	s := v.text()
	switch {
	case s == "":
		return ""
	case !groupName.MatchString(s):
		v.report(ruleInventoryName, "%s is not an Ansible group name: use letters, digits, _ and -, beginning with a letter or _", quote(s))
		return ""
	case s == "all" || s == "ungrouped":
		v.report(ruleInventoryName, "%s is a group that Ansible makes itself; leave the key out or choose another name", quote(s))
		return ""
	}
	return s
}

func readResources(v value) []Resource {
	items := v.list()
	if v.blank() || v.node.Kind == yaml.SequenceNode && len(items) == 0 {
		v.report(ruleRequired, "at least one resource is required")
	}
	resources := make([]Resource, 0, len(items))
	for _, item := range items {
		resources = append(resources, readResource(item))
	}
	return resources
}

// readResource reads "Operator Resources".
func readResource(v value) Resource {
	m, ok := v.mapping()
	if !ok {
		return Resource{}
	}
	m.warnUnknown(resourceKeys...)
	r := Resource{
		Kind:        readKind(m.get("kind")),
		DisplayName: m.get("displayName").text(),
		Description: m.get("description").text(),
		Hidden:      m.get("hideResource").boolean(),
		Vars:        readVars(m.get("vars"), resourceVar),
		Place:       m.get("kind").place(),
	}
	if playbook := m.get("playbook"); playbook.blank() {
		playbook.report(ruleRequired, "is required: the path of the playbook that manages this kind")
	} else {
		r.Playbook = readPlaybook(playbook, rulePlaybookPath)
	}
	if finalizer := m.get("finalizer"); !finalizer.blank() {
		r.Finalizer = readPlaybook(finalizer, ruleFinalizerPath)
	}
	if r.DisplayName == "" {
		r.DisplayName = r.Kind
	}
	return r
}

func readKind(v value) string {
	s := v.requiredText()
	switch {
	case s == "":
		return ""
	case !kindName.MatchString(s):
		v.report(ruleKindName, "%s is not legal in Kubernetes: use letters and digits only, beginning with a letter, as in SomeMiddleware", quote(s))
		return ""
	case len(s) > maxKindLength:
		v.report(ruleKindName, "must be at most %d characters long, is %d", maxKindLength, len(s))
		return ""
	case !pascalCase.MatchString(s):
		v.report(ruleKindCase, "%s is not in Pascal case: begin with a capital letter, as in SomeMiddleware", quote(s))
	}
	return s
}

func readPlaybook(v value, rule string) string {
	s := v.text()
	if s == "" {
		return ""
	}
	clean, problem := playbookPath(s)
	if problem != "" {
		v.report(rule, "%s %s", quote(s), problem)
	}
	return clean
}
