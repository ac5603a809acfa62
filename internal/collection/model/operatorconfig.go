package model

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// playbookPath cleans the path of a playbook and says what is wrong with it, "" for nothing.
func playbookPath(p string) (clean, problem string) {
	clean = path.Clean(p)
	switch {
	case strings.HasPrefix(p, "/"):
		return "", "must be relative to the collection's root, without a leading /"
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", "must not lead out of the collection"
	case clean == "." || strings.HasSuffix(p, "/"):
		return "", "must name a file"
	case strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`{}\`, r) }):
		return "", `must not hold control characters, braces or backslashes`
	}
	return clean, ""
}

// Keys of the operator-config: those of the specification; in rootExtensions those that IBM's schema and
// collections have besides, of which collectionPath means nothing here, and ours; in resourceExtensions ours.
var (
	rootKeys       = []string{"domain", "name", "version", "displayName", "description", "resources", "clusterRoles", "roles", "icon"}
	rootExtensions = []string{"provider", "inventoryName", "replaces", "migrationPlaybook", "collectionPath", "migrationReversible", "capabilities", "categories", "support"}
	resourceKeys   = []string{"kind", "displayName", "description", "playbook", "finalizer", "vars", "hideResource"}

	resourceExtensions = []string{"supportsCheckMode", "showDiff", "reconcilePeriod", "maxRunnerArtifacts"}
)

var (
	pascalCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	// operatorVersion is the end of a ClusterServiceVersion's name, which IBM's collections have in replaces.
	operatorVersion = regexp.MustCompile(`\.v[0-9]+\.[0-9]+\.[0-9]+`)
)

// readOperatorConfig fills c with what the operator-config says ("OperatorHub Integration" and the sections after it).
// What is reported as an error is left empty in c.
func (l *loader) readOperatorConfig(c *Collection, doc findings.Value, content []byte) {
	root, ok := doc.Mapping()
	if !ok {
		return
	}
	root.WarnUnknown(slices.Concat(rootKeys, rootExtensions)...)
	c.Domain = readSubdomain(root.Get("domain"))
	c.Name = readSubdomain(root.Get("name"))
	c.Version = readVersion(root.Get("version"))
	c.DisplayName = readDisplayName(root.Get("displayName"), c.Name)
	c.Description = root.Get("description").Text()
	checkHeadings(root.Get("description"), content)
	c.Provider, c.ProviderURL = readProvider(root.Get("provider"))
	c.InventoryName = readInventoryName(root.Get("inventoryName"))
	c.MigrationPlaybook = readMigrationPlaybook(root.Get("migrationPlaybook"))
	c.MigrationReversible = readMigrationReversible(root.Get("migrationReversible"))
	c.Capabilities = readCapabilities(root.Get("capabilities"))
	c.Categories = readCategories(root.Get("categories"))
	c.Support = readSupport(root.Get("support"))
	if c.ReplacesVersion = c.olderVersion(root.Get("replaces")); c.ReplacesVersion == "" {
		c.Replaces = readReplaces(root.Get("replaces"), c.ID())
	}
	c.Icons = readIcons(root.Get("icon"))
	c.Roles = readRules(root.Get("roles"), false)
	c.ClusterRoles = readRules(root.Get("clusterRoles"), true)
	c.Resources = readResources(root.Get("resources"))
}

func readSubdomain(v findings.Value) string {
	s := v.RequiredText()
	if s == "" {
		return ""
	}
	if len(s) > validation.LabelValueMaxLength {
		v.Report(ruleIdentity, "must be at most %d characters long, is %d", validation.LabelValueMaxLength, len(s))
		return ""
	}
	if len(validation.IsDNS1123Subdomain(s)) > 0 {
		v.Report(ruleIdentity, "%s is not a DNS subdomain (RFC 1123): use lower-case letters, digits, - and ., beginning and ending with a letter or digit", findings.Quote(s))
		return ""
	}
	return s
}

func readVersion(v findings.Value) *semver.Version {
	s := v.RequiredText()
	if s == "" {
		return nil
	}
	version, err := semver.StrictNewVersion(s)
	if err != nil {
		v.Report(ruleVersion, "%s is not a semantic version such as 1.2.0 (major.minor.patch)", findings.Quote(s))
		return nil
	}
	if pre := version.Prerelease(); pre != strings.ToLower(pre) {
		v.Report(ruleVersionClash, "the API version and the operator have the pre-release %s in small letters: versions that differ in it alone clash", findings.Quote(pre))
	}
	if pre := version.Prerelease(); strings.Contains(pre, "-") {
		v.Report(ruleVersionClash, "the API version has hyphens where the pre-release %s has hyphens or dots: versions that differ in it alone clash; use dots", findings.Quote(pre))
	}
	if version.Metadata() != "" {
		v.Report(ruleVersionClash, "the build metadata +%s has no part in the names of the API version and the operator: versions that differ in it alone clash", version.Metadata())
	}
	return version
}

// readProvider accepts a name, or the {name, url} that operator bundles use.
func readProvider(v findings.Value) (name, address string) {
	if m, ok := v.Keyed(); ok {
		return m.Get("name").Text(), m.Get("url").Text()
	}
	return v.Text(), ""
}

// groupName also takes hyphens: Ansible warns about them, and collections use them (hosts: some-host).
var groupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

func readInventoryName(v findings.Value) string {
	s := v.Text()
	switch {
	case s == "":
		return ""
	case !groupName.MatchString(s):
		v.Report(ruleInventoryName, "%s is not an Ansible group name: use letters, digits, _ and -, beginning with a letter or _", findings.Quote(s))
		return ""
	case s == "all" || s == "ungrouped":
		v.Report(ruleInventoryName, "%s is a group that Ansible makes itself; leave the key out or choose another name", findings.Quote(s))
		return ""
	}
	return s
}

// readMigrationPlaybook reads a key that IBM's schema has as a text without a meaning: what is no path is reported, and ignored.
func readMigrationPlaybook(v findings.Value) string {
	if v.Blank() {
		return ""
	}
	s, ok := v.Scalar()
	if !ok {
		v.Report(ruleMigrationPlaybook, "must be a text, not %s; it is ignored", v.What())
		return ""
	}
	clean, problem := playbookPath(s)
	if problem != "" {
		v.Report(ruleMigrationPlaybook, "%s %s; it is ignored", findings.Quote(s), problem)
	}
	return clean
}

func readMigrationReversible(v findings.Value) bool {
	if v.Blank() {
		return false
	}
	s, _ := v.Scalar()
	reversible, ok := findings.ParseBoolean(s)
	if !ok {
		v.Report(ruleMigrationReversible, "must be true or false, not %s; it is ignored", v.What())
	}
	return reversible
}

// readSupport reads a key that archives may have had before it meant something: what is no text is reported, and ignored.
func readSupport(v findings.Value) string {
	s, ok := v.Scalar()
	if !ok && !v.Blank() {
		v.Report(ruleSupport, "must be a text, not %s; it is ignored", v.What())
	}
	return s
}

// olderVersion returns the name of the ClusterServiceVersion of an older version of the collection, if a text is that, else "". IBM's collections
// leave out the suffix of the operator where their own name ends in it.
func (c *Collection) olderVersion(v findings.Value) string {
	s, _ := v.Scalar()
	label, own := strings.CutPrefix(s, c.OperatorName()+".v")
	if !own {
		label, own = strings.CutPrefix(s, c.Domain+"-"+c.Name+".v")
	}
	if !own || c.Version == nil || c.Domain == "" || c.Name == "" {
		return ""
	}
	if older, err := semver.StrictNewVersion(label); err != nil || !older.LessThan(c.Version) || label != strings.ToLower(label) {
		return ""
	}
	return c.OperatorName() + ".v" + label
}

// readReplaces reads the collection that this one replaces: domain/name, or a name in its own domain. IBM's schema has the key as any
// text, so that an archive with another text is no worse.
func readReplaces(v findings.Value, own ID) ID {
	if v.Blank() {
		return ID{}
	}
	s, isText := v.Scalar()
	replaced := ID{Domain: own.Domain, Name: s}
	if domain, name, qualified := strings.Cut(s, "/"); qualified {
		replaced = ID{Domain: domain, Name: name}
	}
	switch {
	case !isText:
		v.Report(ruleReplaces, "%s is not the domain/name of a collection, and is ignored", v.What())
		return ID{}
	case !isIdentity(replaced.Domain) || !isIdentity(replaced.Name):
		v.Report(ruleReplaces, "%s is not the domain/name of a collection, nor a name in the same domain, and is ignored", findings.Quote(s))
		return ID{}
	case replaced.Domain == own.Domain && replaced.Name == s && operatorVersion.MatchString(s):
		v.Report(ruleReplaces, "%s is the name of a version of an operator, but of no older one of this collection (%s.v...), and is ignored", findings.Quote(s), own.OperatorName())
		return ID{}
	case replaced == own:
		v.Report(ruleReplaces, "%s is this collection, and is ignored: a newer version needs no replaces", findings.Quote(s))
		return ID{}
	}
	return replaced
}

func isIdentity(s string) bool {
	return len(s) <= validation.LabelValueMaxLength && len(validation.IsDNS1123Subdomain(s)) == 0
}

func readResources(v findings.Value) []Resource {
	items := v.List()
	if v.Blank() || v.Node.Kind == yaml.SequenceNode && len(items) == 0 {
		v.Report(findings.RuleRequired, "at least one resource is required")
	}
	resources := make([]Resource, 0, len(items))
	for _, item := range items {
		resources = append(resources, readResource(item))
	}
	return resources
}

// readResource reads "Operator Resources".
func readResource(v findings.Value) Resource {
	m, ok := v.Mapping()
	if !ok {
		return Resource{}
	}
	m.WarnUnknown(slices.Concat(resourceKeys, resourceExtensions, slices.Sorted(maps.Keys(notOffered)))...)
	checkNotOffered(m)
	r := Resource{
		Kind:        readKind(m.Get("kind")),
		DisplayName: m.Get("displayName").Text(),
		Description: m.Get("description").Text(),
		Hidden:      m.Get("hideResource").Boolean(),
		Vars:        readVars(m.Get("vars"), resourceVar),
		Place:       m.Get("kind").Place(),

		SupportsCheckMode: m.Get("supportsCheckMode").Boolean(),
		ShowDiff:          m.Get("showDiff").Boolean(),
		ReconcilePeriod:   readReconcilePeriod(m.Get("reconcilePeriod")),
		MaxArtifacts:      readMaxArtifacts(m.Get("maxRunnerArtifacts")),
	}
	if playbook := m.Get("playbook"); playbook.Blank() {
		playbook.Report(findings.RuleRequired, "is required: the path of the playbook that manages this kind")
	} else {
		r.Playbook = readPlaybook(playbook, rulePlaybookPath)
	}
	if finalizer := m.Get("finalizer"); !finalizer.Blank() {
		r.Finalizer = readPlaybook(finalizer, ruleFinalizerPath)
	}
	if r.DisplayName == "" {
		r.DisplayName = r.Kind
	}
	return r
}

// minReconcilePeriod is the shortest interval at which playbooks run without a change, here as for administrators.
const minReconcilePeriod = 5 * time.Minute

func readReconcilePeriod(v findings.Value) time.Duration {
	if v.Blank() {
		return 0
	}
	s, _ := v.Scalar()
	period, err := time.ParseDuration(s)
	if err != nil || period != 0 && period < minReconcilePeriod {
		v.Report(ruleReconcilePeriod, "must be a duration of at least 5m, such as 12h or 1h30m, not %s; it is ignored", v.What())
		return 0
	}
	return period
}

// maxArtifacts is the highest number of runs of a resource whose files are kept, here as for administrators.
const maxArtifacts = 20

func readMaxArtifacts(v findings.Value) int {
	if v.Blank() {
		return 0
	}
	s, _ := v.Scalar()
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxArtifacts {
		v.Report(ruleMaxArtifacts, "must be a number from 1 to %d, not %s; it is ignored", maxArtifacts, v.What())
		return 0
	}
	return n
}

// notOffered are the options of ansible-operator's watches.yaml that authors cannot set, with the reason.
var notOffered = map[string]string{
	"role":                        "use a playbook with hosts: all and roles: [name]",
	"selector":                    "a resource that no operator serves would look like one that waits; use namespaces",
	"manageStatus":                "the operator reports each run in the status, and only what changed; playbooks add fields with k8s_status",
	"watchDependentResources":     "objects that playbooks create have no owner reference that could be watched",
	"watchClusterScopedResources": "an operator watches its own namespace only",
	"watchAnnotationsChanges":     "annotations that ask for a run are always watched",
	"snakeCaseParameters":         "variables always keep their names",
	"markUnsafe":                  "texts of resources are never evaluated as templates",
	"blacklist":                   "what playbooks create is not watched",
}

func checkNotOffered(m findings.Mapping) {
	for _, key := range slices.Sorted(maps.Keys(notOffered)) {
		if v := m.Get(key); v.Present() {
			v.Report(ruleNotOffered, "%s of ansible-operator is not offered, and is ignored: %s", key, notOffered[key])
		}
	}
}

func readKind(v findings.Value) string {
	s := v.RequiredText()
	switch {
	case s == "":
		return ""
	case !kindName.MatchString(s):
		v.Report(ruleKindName, "%s is not legal in Kubernetes: use letters and digits only, beginning with a letter, as in SomeMiddleware", findings.Quote(s))
		return ""
	case len(s) > maxKindLength:
		v.Report(ruleKindName, "must be at most %d characters long, is %d", maxKindLength, len(s))
		return ""
	case !pascalCase.MatchString(s):
		v.Report(ruleKindCase, "%s is not in Pascal case: begin with a capital letter, as in SomeMiddleware", findings.Quote(s))
	}
	return s
}

func readPlaybook(v findings.Value, rule findings.Rule) string {
	s := v.Text()
	if s == "" {
		return ""
	}
	clean, problem := playbookPath(s)
	if problem != "" {
		v.Report(rule, "%s %s", findings.Quote(s), problem)
	}
	return clean
}
