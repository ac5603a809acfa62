package collection

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/Masterminds/semver/v3"
	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/archive"
)

// readGalaxy reads the metadata of MANIFEST.json, or of galaxy.yml where there is none, as Ansible does.
func (l *loader) readGalaxy(c *Collection) error {
	for _, source := range []struct {
		file string
		read func([]byte) Galaxy
	}{
		{manifestFile, l.readManifest},
		{galaxyFile, func(content []byte) Galaxy { return l.readGalaxyYAML(content).Galaxy }},
	} {
		exists, err := l.exists(source.file)
		if err != nil {
			return err
		}
		if !exists {
			continue
		}
		l.galaxySource = source.file
		content, err := l.read(source.file)
		if err != nil || content == nil {
			return err
		}
		c.Galaxy = source.read(content)
		return l.readCreated(c)
	}
	l.reportFile(manifestFile, ruleMissingGalaxy, "the collection has neither MANIFEST.json (archives have one) nor galaxy.yml (folders have one) at its root")
	return nil
}

// readCreated reads when MANIFEST.json was written into its archive: ansible-galaxy gives all other files the time that
// they had before. Times of a folder say when it was checked out or unpacked.
func (l *loader) readCreated(c *Collection) error {
	if _, isArchive := l.fsys.(*archive.Files); !isArchive || l.galaxySource != manifestFile {
		return nil
	}
	info, err := fs.Stat(l.fsys, manifestFile)
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
	exists, err := l.exists(runtimeFile)
	if err != nil || !exists {
		return err
	}
	content, err := l.read(runtimeFile)
	if err != nil || content == nil {
		return err
	}
	doc, ok := l.parseDocument(runtimeFile, content)
	if !ok || !doc.present() {
		return nil
	}
	if root, ok := doc.mapping(); ok {
		c.Galaxy.RequiresAnsible = checkRequiresAnsible(root.get("requires_ansible"))
	}
	return nil
}

// manifest is the part of MANIFEST.json that is read. Keys are looked up exactly, as Ansible does it: Go's decoding
// into structs would take "Namespace" for "namespace".
type manifest struct {
	l      *loader
	fields map[string]json.RawMessage
	// root is the same file as YAML, which it is as far as places go; nil if it is not.
	root *yaml.Node
}

// readManifest reads MANIFEST.json's collection_info. It is read as JSON, not YAML: their escapes differ.
func (l *loader) readManifest(content []byte) Galaxy {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(content, &top); err != nil {
		l.jsonError(manifestFile, content, err)
		return Galaxy{}
	}
	m := manifest{l: l}
	m.root, _ = (&reporter{nodesLeft: maxNodes}).parseYAML(content)
	l.manifest = m
	l.filesChecksum = m.readFilesChecksum(top["file_manifest_file"])
	if err := json.Unmarshal(top["collection_info"], &m.fields); err != nil || m.fields == nil {
		m.report(nil, ruleGalaxyName, "is required, and an object")
		return Galaxy{}
	}
	g := Galaxy{
		Namespace:     decode[string](m, "namespace"),
		Name:          decode[string](m, "name"),
		Version:       decode[string](m, "version"),
		Authors:       decode[[]string](m, "authors"),
		License:       decode[[]string](m, "license"),
		Tags:          decode[[]string](m, "tags"),
		Description:   decode[string](m, "description"),
		Documentation: decode[string](m, "documentation"),
		Homepage:      decode[string](m, "homepage"),
		Repository:    decode[string](m, "repository"),
		Issues:        decode[string](m, "issues"),
		Dependencies:  decode[map[string]string](m, "dependencies"),
	}
	g.check(func(key, rule, message string) { m.report([]string{key}, rule, "%s", message) })
	return g
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

// report records that a key of collection_info breaks a rule, or with no key collection_info itself.
func (m manifest) report(keys []string, rule, format string, args ...any) {
	m.reportKeys(append([]string{"collection_info"}, keys...), rule, format, args...)
}

// reportKeys records the same of a key that the others lead to.
func (m manifest) reportKeys(keys []string, rule, format string, args ...any) {
	place := Problem{File: manifestFile, Line: 1, Column: 1, Path: strings.Join(keys, ".")}
	at := m.root
	for _, key := range keys {
		if at = member(at, key); at == nil {
			break
		}
		place.Line, place.Column = at.Line, at.Column
	}
	m.l.report(place, rule, format, args...)
}

// member is the value of a key of a mapping, or nil.
func member(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

func (l *loader) jsonError(file string, content []byte, err error) {
	p := Problem{File: file}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := content[:min(int(syntax.Offset), len(content))]
		p.Line = 1 + bytes.Count(before, []byte("\n"))
		p.Column = max(1, len(before)-1-bytes.LastIndexByte(before, '\n'))
	}
	l.report(p, ruleJSON, "cannot be read as JSON: %v", err)
}

// check reports what would keep Ansible from finding the collection: its content lies at <namespace>/<name>.
func (g *Galaxy) check(report func(key, rule, message string)) {
	for _, field := range []struct {
		key   string
		value *string
	}{{"namespace", &g.Namespace}, {"name", &g.Name}} {
		switch {
		case *field.value == "":
			report(field.key, ruleGalaxyName, "is required")
		case !identifier.MatchString(*field.value) || len(*field.value) > maxQuoted:
			report(field.key, ruleGalaxyName, quote(*field.value)+" is not legal for Ansible: use letters, digits and _, not beginning with a digit")
			*field.value = ""
		}
	}
	if g.Version == "" {
		report("version", ruleGalaxyName, "is required")
	}
}

// galaxyYAML is what a galaxy.yml says: the metadata, and what matters for building alone.
type galaxyYAML struct {
	Galaxy
	readme, licenseFile string
	buildIgnore         []string
}

var galaxyKeys = []string{
	"namespace", "name", "version", "readme", "authors", "description", "license", "license_file", "tags", "dependencies",
	"repository", "documentation", "homepage", "issues", "build_ignore", "manifest",
}

func (r *reporter) readGalaxyYAML(content []byte) galaxyYAML {
	doc, ok := r.parseDocument(galaxyFile, content)
	if !ok {
		return galaxyYAML{}
	}
	root, ok := doc.mapping()
	if !ok {
		return galaxyYAML{}
	}
	root.warnUnknown(galaxyKeys...)
	g := galaxyYAML{
		Galaxy: Galaxy{
			Namespace:     root.get("namespace").text(),
			Name:          root.get("name").text(),
			Version:       root.get("version").text(),
			Authors:       readTextOrList(root.get("authors")),
			License:       readTextOrList(root.get("license")),
			Tags:          readTextOrList(root.get("tags")),
			Description:   root.get("description").text(),
			Documentation: root.get("documentation").text(),
			Homepage:      root.get("homepage").text(),
			Repository:    root.get("repository").text(),
			Issues:        root.get("issues").text(),
			Dependencies:  readDependencies(root.get("dependencies")),
		},
		readme:      root.get("readme").text(),
		licenseFile: root.get("license_file").text(),
		buildIgnore: readTextOrList(root.get("build_ignore")),
	}
	g.check(func(key, rule, message string) { root.get(key).report(rule, "%s", message) })
	g.checkBuild(root)
	return g
}

// checkBuild reports what an archive needs beyond what loading a folder needs.
func (g *galaxyYAML) checkBuild(m mapping) {
	if g.readme == "" {
		m.get("readme").report(ruleGalaxyBuild, "is required")
	}
	if len(g.Authors) == 0 {
		m.get("authors").report(ruleGalaxyBuild, "is required")
	}
	if _, err := semver.StrictNewVersion(g.Version); err != nil && g.Version != "" {
		m.get("version").report(ruleGalaxyBuild, "%s is not a semantic version such as 1.2.0", quote(g.Version))
	}
	if len(g.buildIgnore) > maxPatterns {
		m.get("build_ignore").report(ruleGalaxyBuild, "has more than %d patterns", maxPatterns)
	}
	for _, pattern := range g.buildIgnore {
		if len(pattern) > maxPatternBytes {
			m.get("build_ignore").report(ruleGalaxyBuild, "a pattern is longer than %d characters", maxPatternBytes)
		}
	}
	if m.get("manifest").present() {
		m.get("manifest").report(ruleGalaxyBuild, "manifest directives are not supported; use build_ignore")
	}
}

// readTextOrList reads a list of texts that may be written as a single text.
func readTextOrList(v value) []string {
	if isScalar(v) && !v.blank() {
		return []string{strings.TrimSpace(v.text())}
	}
	return readTexts(v, true)
}

func readDependencies(v value) map[string]string {
	if v.blank() {
		return nil
	}
	m, ok := v.mapping()
	if !ok {
		return nil
	}
	out := make(map[string]string, len(m.keys))
	for _, key := range m.keys {
		out[key] = m.fields[key].text()
	}
	return out
}
