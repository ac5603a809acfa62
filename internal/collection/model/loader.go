package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// The files that make a collection. An archive holds a MANIFEST.json, an author's folder a galaxy.yml.
const (
	ManifestFile = "MANIFEST.json"
	FilesFile    = "FILES.json"
	GalaxyFile   = "galaxy.yml"

	runtimeFile       = "meta/runtime.yml"
	ansibleConfigFile = "ansible.cfg"
)

// maxFileBytes bounds each file that Load reads into memory, but FILES.json.
const maxFileBytes = 4 << 20

// maxConfigBytes bounds the operator-config, which is read again whenever the collection is not in memory: many large ones would
// delay others. Those of published collections have at most some hundred KiB, icons included.
const maxConfigBytes = 1 << 20

// loader is one Load under way.
type loader struct {
	*findings.Reporter
	fsys fs.FS
	// configFile is the name of the operator-config, galaxySource that of the file with the Galaxy metadata.
	configFile, galaxySource string
	// manifest is MANIFEST.json, if that is the file with the Galaxy metadata.
	manifest manifest
	// filesChecksum is what MANIFEST.json says of FILES.json.
	filesChecksum string
}

func newLoader(fsys fs.FS) *loader { return &loader{Reporter: findings.NewReporter(), fsys: fsys} }

// readOptional is readAtMost for a file that may be missing.
func (l *loader) readOptional(name string) (content []byte, exists bool, err error) {
	if exists, err = l.exists(name); err == nil && exists {
		content, err = l.readAtMost(name, maxFileBytes)
	}
	return content, exists, err
}

// readAtMost returns the content of a file; nil if it is too large or not a file, which is reported.
func (l *loader) readAtMost(name string, limit int64) ([]byte, error) {
	f, err := l.fsys.Open(name)
	if errors.Is(err, archive.ErrNotKept) {
		l.ReportFile(name, ruleFile, "is a link to a file of another name; replace it by the file")
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		l.ReportFile(name, ruleFile, "is not a regular file")
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		l.ReportFile(name, ruleFile, "is larger than %d MiB", limit>>20)
		return nil, nil
	}
	return content, nil
}

func (l *loader) exists(name string) (bool, error) {
	_, err := fs.Stat(l.fsys, name)
	if err == nil {
		return true, nil
	}
	if IsAbsent(err) {
		return false, nil
	}
	return false, err
}

// IsAbsent reports whether an error means that a file cannot be there: it does not exist, its path leads through a file or
// in a circle of links, or its name is impossible.
func IsAbsent(err error) bool {
	absent := []error{fs.ErrNotExist, fs.ErrInvalid, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP}
	return slices.ContainsFunc(absent, func(target error) bool { return errors.Is(err, target) })
}

// manifest is the part of MANIFEST.json that is read. Keys are looked up exactly, as Ansible does it: Go's decoding
// into structs would take "Namespace" for "namespace".
type manifest struct {
	l      *loader
	fields map[string]json.RawMessage
	// root is the same file as YAML, which it is as far as places go; nil if it is not.
	root *yaml.Node
}

// report records that a key of collection_info breaks a rule, or with no key collection_info itself.
func (m manifest) report(keys []string, rule findings.Rule, format string, args ...any) {
	m.reportKeys(append([]string{"collection_info"}, keys...), rule, format, args...)
}

// reportKeys records the same of a key that the others lead to.
func (m manifest) reportKeys(keys []string, rule findings.Rule, format string, args ...any) {
	place := findings.Problem{File: ManifestFile, Line: 1, Column: 1, Path: strings.Join(keys, ".")}
	at := m.root
	for _, key := range keys {
		if at = member(at, key); at == nil {
			break
		}
		place.Line, place.Column = at.Line, at.Column
	}
	m.l.Report(place, rule, format, args...)
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
	p := findings.Problem{File: file}
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := content[:min(int(syntax.Offset), len(content))]
		p.Line = 1 + bytes.Count(before, []byte("\n"))
		p.Column = max(1, len(before)-1-bytes.LastIndexByte(before, '\n'))
	}
	l.Report(p, ruleJSON, "cannot be read as JSON: %v", err)
}
