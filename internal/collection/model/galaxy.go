package model

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"time"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// readGalaxy reads the metadata of MANIFEST.json, or of galaxy.yml where there is none, as Ansible does.
func (l *loader) readGalaxy(c *Collection) error {
	for _, source := range []struct {
		file string
		read func([]byte) Galaxy
	}{
		{ManifestFile, l.readManifest},
		{GalaxyFile, func(content []byte) Galaxy { g, _ := l.readGalaxyYAML(content); return g }},
	} {
		content, exists, err := l.readOptional(source.file)
		if err == nil && !exists {
			continue
		}
		l.galaxySource = source.file
		if err != nil || content == nil {
			return err
		}
		c.Galaxy = source.read(content)
		return l.readCreated(c)
	}
	l.ReportFile(ManifestFile, RuleMissingGalaxy, "the collection has neither MANIFEST.json (archives have one) nor galaxy.yml (folders have one) at its root")
	return nil
}

// readCreated reads when MANIFEST.json was written into its archive: ansible-galaxy gives all other files the time that
// they had before. Times of a folder say when it was checked out or unpacked.
func (l *loader) readCreated(c *Collection) error {
	if _, isArchive := l.fsys.(*archive.Files); !isArchive || l.galaxySource != ManifestFile {
		return nil
	}
	info, err := fs.Stat(l.fsys, ManifestFile)
	if err != nil {
		return err
	}
	// Reproducible builds, ours among them, say 1970. Years of five digits have no place in a timestamp.
	if created := info.ModTime().UTC().Truncate(time.Second); created.Year() > 1970 && created.Year() <= 9999 {
		c.Created = created
	}
	return nil
}

// readRuntime reads meta/runtime.yml, which a collection may leave out.
func (l *loader) readRuntime(c *Collection) error {
	content, _, err := l.readOptional(runtimeFile)
	if err != nil || content == nil {
		return err
	}
	doc, ok := l.ParseDocument(runtimeFile, content)
	if !ok || !doc.Present() {
		return nil
	}
	if root, ok := doc.Mapping(); ok {
		c.Galaxy.RequiresAnsible = checkRequiresAnsible(root.Get("requires_ansible"))
	}
	return nil
}

// readManifest reads MANIFEST.json's collection_info. It is read as JSON, not YAML: their escapes differ.
func (l *loader) readManifest(content []byte) Galaxy {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(content, &top); err != nil {
		l.jsonError(ManifestFile, content, err)
		return Galaxy{}
	}
	m := manifest{l: l}
	nodes := findings.MaxNodes
	m.root, _ = findings.ParseYAML(content, &nodes)
	l.manifest = m
	l.filesChecksum = m.readFilesChecksum(top["file_manifest_file"])
	if err := json.Unmarshal(top["collection_info"], &m.fields); err != nil || m.fields == nil {
		m.report(nil, ruleGalaxyName, "is required, and an object")
		return Galaxy{}
	}
	text := func(key string) string { return decode[string](m, key) }
	g := newGalaxy(text, func(key string) []string { return decode[[]string](m, key) })
	g.Dependencies = decode[map[string]string](m, "dependencies")
	g.check(func(key string, rule findings.Rule, message string) { m.report([]string{key}, rule, "%s", message) })
	return g
}

func newGalaxy(text func(key string) string, list func(key string) []string) Galaxy {
	return Galaxy{
		Namespace: text("namespace"), Name: text("name"), Version: text("version"),
		Authors: list("authors"), License: list("license"), Tags: list("tags"), Description: text("description"),
		Documentation: text("documentation"), Homepage: text("homepage"), Repository: text("repository"), Issues: text("issues"),
	}
}

// decode reads one field; null and absent give the zero value.
func decode[T any](m manifest, key string) T {
	var out T
	raw, ok := m.fields[key]
	if !ok {
		return out
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		var zero T
		m.report([]string{key}, ruleGalaxyMetadata, "is not of the expected type (%s)", typeName(out))
		return zero
	}
	return out
}

func typeName(v any) string {
	switch v.(type) {
	case []string:
		return "list of texts"
	case map[string]string:
		return "texts by name"
	}
	return "text"
}

// galaxyName also takes hyphens: Ansible finds no collection with such a name, but its playbooks run as files.
var galaxyName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)

// check reports what would keep Ansible from finding the collection: its content lies at <namespace>/<name>.
func (g *Galaxy) check(report func(key string, rule findings.Rule, message string)) {
	for _, field := range []struct {
		key   string
		value *string
	}{{"namespace", &g.Namespace}, {"name", &g.Name}} {
		switch {
		case *field.value == "":
			report(field.key, ruleGalaxyName, "is required")
		case !galaxyName.MatchString(*field.value) || len(*field.value) > findings.MaxQuoted:
			report(field.key, ruleGalaxyName, findings.Quote(*field.value)+" is not legal for Ansible: use letters, digits and _, not beginning with a digit")
			*field.value = ""
		case !identifier.MatchString(*field.value):
			report(field.key, ruleGalaxyHyphen, findings.Quote(*field.value)+" has a hyphen, which is not legal for Ansible: playbooks run, but no module, role or playbook is found by its full name; use _ instead")
		}
	}
	if g.Version == "" {
		report("version", ruleGalaxyName, "is required")
	}
}

var galaxyKeys = []string{
	"namespace", "name", "version", "readme", "authors", "description", "license", "license_file", "tags", "dependencies",
	"repository", "documentation", "homepage", "issues", "build_ignore", "manifest",
}

// ReadGalaxyYAML reads the galaxy.yml of an author's folder: the metadata, and the whole document with what else is in it.
// The document is empty if it cannot be read. Problems are those of the Reporter.
func ReadGalaxyYAML(fsys fs.FS) (Galaxy, findings.Mapping, *findings.Reporter, error) {
	l := newLoader(fsys)
	content, exists, err := l.readOptional(GalaxyFile)
	if err == nil && !exists {
		l.ReportFile(GalaxyFile, RuleMissingGalaxy, "the folder has no galaxy.yml at its root")
	}
	if err != nil || content == nil {
		return Galaxy{}, findings.Mapping{}, l.Reporter, err
	}
	g, root := l.readGalaxyYAML(content)
	return g, root, l.Reporter, nil
}

func (l *loader) readGalaxyYAML(content []byte) (Galaxy, findings.Mapping) {
	var root findings.Mapping
	doc, ok := l.ParseDocument(GalaxyFile, content)
	if ok {
		root, ok = doc.Mapping()
	}
	if !ok {
		return Galaxy{}, findings.Mapping{}
	}
	root.WarnUnknown(galaxyKeys...)
	text := func(key string) string { return root.Get(key).Text() }
	g := newGalaxy(text, func(key string) []string { return root.Get(key).TextOrList() })
	g.Dependencies = readDependencies(root.Get("dependencies"))
	g.check(func(key string, rule findings.Rule, message string) { root.Get(key).Report(rule, "%s", message) })
	return g, root
}

func readDependencies(v findings.Value) map[string]string {
	if v.Blank() {
		return nil
	}
	m, ok := v.Mapping()
	if !ok {
		return nil
	}
	out := make(map[string]string, len(m.Keys))
	for _, key := range m.Keys {
		out[key] = m.Fields[key].Text()
	}
	return out
}
