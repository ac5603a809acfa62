package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/opencontainers/go-digest"
	kjson "sigs.k8s.io/json"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Bounds on FILES.json, which has two keys: as many files as an archive may hold take about 10 MiB.
const (
	maxListBytes = 16 << 20
	maxListKeys  = 100
)

// What a FileEntry is about.
const (
	TypeFile   = "file"
	TypeFolder = "dir"
)

// FileEntry is an entry of FILES.json, and in MANIFEST.json the one of FILES.json. The order of the fields is that of
// ansible-galaxy.
type FileEntry struct {
	Name         string  `json:"name"`
	Type         string  `json:"ftype"`
	ChecksumType *string `json:"chksum_type"`
	SHA256       *string `json:"chksum_sha256"`
	Format       int     `json:"format"`
}

// hasher is a file system that knows the checksums of its files, as [archive.Files] does. Files of others are read.
type hasher interface {
	SHA256(name string) (sum [sha256.Size]byte, ok bool)
}

// readFilesChecksum returns the checksum that MANIFEST.json gives FILES.json, "" if it gives none, which is reported.
func (m manifest) readFilesChecksum(raw json.RawMessage) string {
	key := []string{"file_manifest_file"}
	if len(raw) == 0 {
		m.reportKeys(key, ruleManifestChecksum, "is required; build the archive with ansible-galaxy")
		return ""
	}
	entry, problem := decodeEntry(raw)
	if problem == "" && (entry.Name != FilesFile || entry.Type != TypeFile) {
		problem = "must be about the file FILES.json, not " + findings.Quote(entry.Name)
	}
	if problem != "" {
		m.reportKeys(key, ruleManifestChecksum, "%s", problem)
		return ""
	}
	return *entry.SHA256
}

// checkFiles follows the checksums from MANIFEST.json to FILES.json and from there to every file, as `ansible-galaxy
// collection verify` does. An author's folder has none of them and is not checked. A link counts as what it leads to:
// ansible-galaxy lists it as a file with the checksum of that file, or as a folder. It lists no modes.
func (l *loader) checkFiles(*Collection) error {
	if l.galaxySource != ManifestFile {
		return nil
	}
	if exists, err := l.exists(FilesFile); err != nil {
		return err
	} else if !exists {
		l.ReportFile(FilesFile, ruleFilesMissing, "is missing: it lists the files of the archive; build the archive with ansible-galaxy")
		return nil
	}
	content, err := l.readAtMost(FilesFile, maxListBytes)
	if err != nil || content == nil {
		return err
	}
	if sum := sha256.Sum256(content); l.filesChecksum != "" && l.filesChecksum != hex.EncodeToString(sum[:]) {
		l.ReportFile(FilesFile, ruleManifestChecksum, "its checksum is not the one in MANIFEST.json: one of the two was changed; build the archive anew")
	}
	r := newListReader(l, content)
	if !r.read() {
		return nil
	}
	for _, entry := range r.entries {
		if err := checkEntry(l, entry); err != nil {
			return err
		}
	}
	return checkUnlisted(l, r.known)
}

// checkEntry compares an entry of FILES.json with what is there.
func checkEntry(l *loader, e listedFile) error {
	info, err := fs.Stat(l.fsys, e.Name)
	switch {
	case IsAbsent(err):
		l.Report(e.place, ruleFilesMissing, "%s is listed and not there; build the archive anew", findings.Quote(e.Name))
		return nil
	case err != nil:
		return err
	case info.IsDir() != (e.Type == TypeFolder) || !info.IsDir() && !info.Mode().IsRegular():
		l.Report(e.place, ruleFilesMissing, "%s is listed with ftype %s, and is something else; build the archive anew", findings.Quote(e.Name), e.Type)
		return nil
	case info.IsDir():
		return nil
	}
	sum, err := checksum(l.fsys, e.Name)
	if err != nil {
		return err
	}
	if hex.EncodeToString(sum) != *e.SHA256 {
		l.Report(e.place, ruleFilesChecksum, "the checksum of %s is not the listed one: the file was changed; build the archive anew", findings.Quote(e.Name))
	}
	return nil
}

func checksum(fsys fs.FS, name string) ([]byte, error) {
	if known, ok := fsys.(hasher); ok {
		if sum, ok := known.SHA256(name); ok {
			return sum[:], nil
		}
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, io.LimitReader(f, archive.DefaultLimits.FileBytes))
	return hash.Sum(nil), err
}

// checkUnlisted reports files that FILES.json does not list.
func checkUnlisted(l *loader, known map[string]int) error {
	unlisted := 0
	return fs.WalkDir(l.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if _, listed := known[name]; listed || name == "." || name == ManifestFile || name == FilesFile {
			return nil
		}
		if unlisted++; unlisted > findings.MaxProblems {
			return fs.SkipAll
		}
		l.ReportFile(FilesFile, ruleFilesExtra, "does not list %s, which is there; build the archive anew", findings.Quote(name))
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

// listReader reads FILES.json piece by piece: all at once, a hostile one would take many times its own size of memory.
type listReader struct {
	l       *loader
	decoder *json.Decoder
	lines   lineCounter
	entries []listedFile
	known   map[string]int // the line of each name
	failed  bool
}

// listedFile is an entry of FILES.json and where it stands.
type listedFile struct {
	FileEntry
	place findings.Problem
}

func newListReader(l *loader, content []byte) *listReader {
	return &listReader{
		l: l, decoder: json.NewDecoder(bytes.NewReader(content)), lines: lineCounter{content: content, line: 1}, known: map[string]int{},
	}
}

// read reports what is wrong with FILES.json itself, and reports whether it can be relied on.
func (r *listReader) read() bool {
	if err := json.Unmarshal(r.lines.content, new(json.RawMessage)); err != nil {
		r.l.jsonError(FilesFile, r.lines.content, err)
		return false
	}
	if token, err := r.decoder.Token(); err != nil || token != json.Delim('{') {
		r.fail(findings.Problem{}, "must be an object")
		return false
	}
	lists := 0
	for keys := 1; r.decoder.More(); keys++ {
		key, err := r.decoder.Token()
		if keys > maxListKeys {
			err = fmt.Errorf("there are more than %d keys", maxListKeys)
		}
		if err == nil && key == "files" {
			lists++
			err = r.readFiles()
		} else if err == nil {
			err = r.decoder.Decode(new(json.RawMessage))
		}
		if err != nil {
			r.fail(findings.Problem{}, "%v", err)
			return false
		}
	}
	if lists != 1 {
		r.fail(findings.Problem{}, "must hold one list of files, not %d", lists)
	}
	return !r.failed
}

func (r *listReader) fail(place findings.Problem, format string, args ...any) {
	place.File = FilesFile
	r.l.Report(place, ruleFilesList, format, args...)
	r.failed = true
}

func (r *listReader) readFiles() error {
	if token, err := r.decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.New("files must be a list")
	}
	for i := 0; r.decoder.More(); i++ {
		if i > archive.DefaultLimits.Entries {
			return fmt.Errorf("files lists more than %d files", archive.DefaultLimits.Entries)
		}
		var raw json.RawMessage
		if err := r.decoder.Decode(&raw); err != nil {
			return err
		}
		place := findings.Problem{File: FilesFile, Path: fmt.Sprintf("files[%d]", i)}
		place.Line, place.Column = r.lines.position(int(r.decoder.InputOffset()) - len(raw))
		r.readFile(raw, place)
	}
	_, err := r.decoder.Token()
	return err
}

func (r *listReader) readFile(raw json.RawMessage, place findings.Problem) {
	entry, problem := decodeEntry(raw)
	if problem != "" {
		r.fail(place, "%s", problem)
		return
	}
	if first, twice := r.known[entry.Name]; twice {
		r.fail(place, "%s is listed twice, first in line %d", findings.Quote(entry.Name), first)
		return
	}
	r.known[entry.Name] = place.Line
	r.entries = append(r.entries, listedFile{entry, place})
}

// decodeEntry reads an entry of FILES.json, or the one of MANIFEST.json, and says what is wrong with it. Keys are looked
// up exactly, and none may be there twice: two readers must not read two things.
func decodeEntry(raw json.RawMessage) (entry FileEntry, problem string) {
	strict, err := kjson.UnmarshalStrict(raw, &entry, kjson.DisallowDuplicateFields)
	switch {
	case err != nil:
		return entry, "must be an object with the texts name, ftype, chksum_type and chksum_sha256"
	case len(strict) > 0:
		return entry, strict[0].Error()
	case !fs.ValidPath(entry.Name) || strings.Contains(entry.Name, `\`):
		return entry, fmt.Sprintf("the name %s is not a path inside the collection", findings.Quote(entry.Name))
	case entry.Type == TypeFolder:
		return entry, ""
	case entry.Type != TypeFile:
		return entry, fmt.Sprintf("the ftype of %s is %s, not file or dir", findings.Quote(entry.Name), findings.Quote(entry.Type))
	case entry.ChecksumType == nil || *entry.ChecksumType != "sha256" || entry.SHA256 == nil || digest.SHA256.Validate(*entry.SHA256) != nil:
		return entry, fmt.Sprintf("%s has no checksum of type sha256 in lower-case hexadecimal digits", findings.Quote(entry.Name))
	}
	return entry, ""
}

// lineCounter finds the lines of growing offsets.
type lineCounter struct {
	content            []byte
	offset, line, last int // last is where the line begins
}

// position counts from 1, columns in bytes.
func (c *lineCounter) position(offset int) (line, column int) {
	for ; c.offset < offset; c.offset++ {
		if c.content[c.offset] == '\n' {
			c.line, c.last = c.line+1, c.offset+1
		}
	}
	return c.line, offset - c.last + 1
}
