package model

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

const (
	pythonFile = "requirements.txt"
	// maxRequirements bounds the requirements of each kind, maxPythonFiles the files with pip requirements.
	maxRequirements = 500
	maxPythonFiles  = 100
)

// requirementsFiles list needed collections: where ansible-galaxy expects them, and where many authors put them.
var requirementsFiles = []string{"collections/requirements.yml", "requirements.yml"}

var (
	requirementKeys = []string{"name", "version", "source", "type", "signatures"}
	collectionName  = regexp.MustCompile(`^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$`)
	// collectionRange is one condition of a version range, as ansible-galaxy compares versions.
	collectionRange = regexp.MustCompile(`^(==|!=|>=|<=|=|>|<)?(\*|[0-9]+(\.[0-9]+)*([-+][0-9A-Za-z.+-]+)?)$`)
	httpURL         = regexp.MustCompile(`^https?://[^\s/]+`)
	gitAddress      = regexp.MustCompile(`^(git\+|git@|ssh://)|\.git(,|$)`)
)

// readCollectionRequirements reads the files that list needed collections, and the Galaxy metadata.
func readCollectionRequirements(l *loader, c *Collection) error {
	for _, file := range requirementsFiles {
		content, _, err := l.readOptional(file)
		if err != nil {
			return err
		}
		if content == nil {
			continue
		}
		if doc, ok := l.ParseDocument(file, content); ok {
			addRequirements(l, c, doc)
		}
	}
	addGalaxyDependencies(l, c)
	own := c.Galaxy.Namespace + "." + c.Galaxy.Name
	others := slices.DeleteFunc(c.Dependencies.Collections, func(r Requirement) bool { return r.Name == own })
	c.Dependencies.Collections = others
	if len(others) == 0 {
		c.Dependencies.Collections = nil
	}
	if len(c.Dependencies.Collections) > maxRequirements {
		l.ReportFile(c.Dependencies.Collections[0].File, ruleRequirements, "the collection needs more than %d collections", maxRequirements)
	}
	return nil
}

// addRequirements reads a document that is a list, or a mapping with the list at "collections".
func addRequirements(l *loader, c *Collection, doc findings.Value) {
	if !doc.Present() {
		return
	}
	items := doc
	if root, ok := doc.Keyed(); ok {
		root.WarnUnknown("collections", "roles")
		if roles := root.Get("roles"); roles.Present() {
			roles.Report(ruleRequirementsRole, "roles are not installed: put them into the collection's folder roles/")
		}
		items = root.Get("collections")
	}
	for _, item := range items.List() {
		if r, ok := readRequirement(l, item); ok {
			c.Dependencies.Collections = append(c.Dependencies.Collections, r)
		}
	}
}

// readRequirement reads one item: a text, or a mapping. ok is false, and the reason reported, if it cannot be used.
func readRequirement(l *loader, v findings.Value) (r Requirement, ok bool) {
	at, kind := v, findings.Value{}
	if m, ok := v.Keyed(); ok {
		if m.Get("src").Present() || m.Get("scm").Present() {
			v.Report(ruleRequirementsRole, "is a role, which is not installed: put it into the collection's folder roles/")
			return r, false
		}
		m.WarnUnknown(requirementKeys...)
		at, kind = m.Get("name"), m.Get("type")
		r.Version, r.Source = m.Get("version").Text(), m.Get("source").Text()
		if r.Source != "" && !httpURL.MatchString(r.Source) {
			m.Get("source").Report(ruleRequirementsSource, "%s is not an http or https address: the configured server is asked", findings.Quote(r.Source))
			r.Source = ""
		}
	}
	r.Name, r.File = at.RequiredText(), v.File
	if r.Name == "" {
		return r, false
	}
	if r.Type = RequirementType(kind.Text()); kind.Blank() {
		r.Type = guessType(r.Name)
	}
	if name, version, found := strings.Cut(r.Name, ":"); found && r.Type == FromGalaxy && r.Version == "" {
		r.Name, r.Version = name, version
	}
	return r, completeRequirement(l, &r, at)
}

// guessType is what ansible-galaxy takes a requirement without a type for.
func guessType(name string) RequirementType {
	switch {
	case gitAddress.MatchString(name):
		return FromGit
	case httpURL.MatchString(name):
		return FromURL
	case strings.Contains(name, "/") || strings.HasSuffix(name, ".tar.gz"):
		return FromFile
	}
	return FromGalaxy
}

// completeRequirement checks a requirement against its type and makes its path relative to the collection's root.
func completeRequirement(l *loader, r *Requirement, at findings.Value) bool {
	problem := ""
	switch r.Type {
	case FromGalaxy:
		r.Version, problem = checkCollection(r.Name, r.Version)
	case FromFile, FromFolder:
		r.Name, problem = requiredPath(l, r.File, r.Name)
	case FromURL:
		if !httpURL.MatchString(r.Name) {
			problem = "is not an http or https address"
		}
	case FromGit:
		if strings.HasPrefix(r.Name, "-") {
			problem = "is not the address of a git repository"
		}
	default:
		problem = "has a type that is not supported: use galaxy, file, dir, url or git"
	}
	if problem != "" {
		at.Report(ruleRequirements, "%s %s", findings.Quote(at.Text()), problem)
	}
	return problem == ""
}

// checkCollection checks name and version range of a collection on a Galaxy server; it returns the range without spaces.
func checkCollection(name, version string) (versionRange, problem string) {
	if !collectionName.MatchString(name) || len(name) > findings.MaxQuoted {
		return "", "is not the name of a collection, such as ibm.ibm_zos_core"
	}
	if version == "" {
		return "*", ""
	}
	version = strings.Join(strings.Fields(version), "")
	for _, condition := range strings.Split(version, ",") {
		if !collectionRange.MatchString(condition) {
			return "", "has the version " + findings.Quote(version) + ", which is not a range such as >=1.0.0,<2.0.0"
		}
	}
	return version, ""
}

// requiredPath finds a file or folder: beside the file that names it or below the root, as authors write both. An
// absolute path is one of the runtime image.
func requiredPath(l *loader, from, name string) (clean, problem string) {
	if path.IsAbs(name) {
		return path.Clean(name), ""
	}
	for _, candidate := range []string{path.Join(path.Dir(from), name), path.Clean(name)} {
		if exists, err := l.exists(candidate); err == nil && exists {
			return candidate, ""
		}
	}
	return "", "is not in the collection, neither beside this file nor below the root"
}

// addGalaxyDependencies adds the dependencies of MANIFEST.json or galaxy.yml, sorted by name.
func addGalaxyDependencies(l *loader, c *Collection) {
	if len(c.Galaxy.Dependencies) > maxRequirements {
		l.ReportFile(l.galaxySource, ruleRequirements, "dependencies: the collection needs more than %d collections", maxRequirements)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.Galaxy.Dependencies)) {
		version, problem := checkCollection(name, c.Galaxy.Dependencies[name])
		if problem != "" {
			if l.galaxySource == ManifestFile {
				l.manifest.report([]string{"dependencies", name}, ruleRequirements, "%s %s", findings.Quote(name), problem)
			} else {
				l.At(GalaxyFile, findings.JoinPath("dependencies", name)).Report(ruleRequirements, "%s %s", findings.Quote(name), problem)
			}
			continue
		}
		c.Dependencies.Collections = append(c.Dependencies.Collections, Requirement{
			Name: name, Type: FromGalaxy, Version: version, File: l.galaxySource,
		})
	}
}

// ansibleRange is a version range as Python's packaging library reads it.
var ansibleRange = regexp.MustCompile(`^\s*(===|==|~=|!=|<=|>=|<|>)\s*[0-9][0-9A-Za-z.*+!_-]*\s*$`)

// checkRequiresAnsible drops a range that Ansible cannot read, as Ansible does.
func checkRequiresAnsible(v findings.Value) string {
	text := strings.TrimSpace(v.Text())
	if text == "" {
		return ""
	}
	for _, condition := range strings.Split(strings.TrimSuffix(text, ","), ",") {
		if !ansibleRange.MatchString(condition) {
			v.Report(ruleRequiresAnsible, "%s is not a version range such as >=2.15.0,<2.19.0; it is ignored", findings.Quote(text))
			return ""
		}
	}
	return text
}
