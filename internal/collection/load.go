package collection

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/collection-operator/collection-operator/internal/archive"
)

// The files that make a collection. An archive holds a MANIFEST.json, an author's folder a galaxy.yml.
const (
	manifestFile = "MANIFEST.json"
	filesFile    = "FILES.json"
	galaxyFile   = "galaxy.yml"
	runtimeFile  = "meta/runtime.yml"
)

var configFiles = []string{"operator-config.yml", "operator-config.yaml"}

// maxFileBytes bounds each file that Load reads into memory.
const maxFileBytes = 4 << 20

// Load reads the collection whose root is fsys: an unpacked archive or an author's folder.
//
// It checks what the manager must rely on to render the collection: the MUSTs of the Operator Collection
// Specification as far as breaking them cannot be rendered or would do harm, that all derived names are legal on a
// Kubernetes API server, and that no variable takes over the connection or what the manager itself gives to playbooks.
// What real collections do beyond the specification loads, with a warning where it strays.
//
// If the collection breaks a rule, the error is of type [Problems] and holds all errors and warnings at once. Any
// other error means that fsys could not be read, and trying again may help.
func Load(fsys fs.FS) (*Collection, error) {
	l := &loader{fsys: fsys, reporter: newReporter()}
	c, err := l.load()
	if err != nil {
		return nil, fmt.Errorf("read the collection: %w", err)
	}
	l.problems.sort()
	if l.failed() {
		return nil, l.problems
	}
	c.Warnings = l.problems
	return c, nil
}

// loader is one Load under way.
type loader struct {
	*reporter
	fsys fs.FS
	// configFile is the name of the operator-config, galaxySource that of the file with the Galaxy metadata.
	configFile, galaxySource string
}

func (l *loader) load() (*Collection, error) {
	c := &Collection{}
	steps := []func(*Collection) error{
		l.readConfig, l.readGalaxy, l.readRuntime, l.readCollectionRequirements, l.readPythonRequirements, l.checkPlaybooks,
	}
	for _, step := range steps {
		if err := step(c); err != nil {
			return nil, err
		}
	}
	for _, check := range rules {
		check(l, c)
	}
	return c, nil
}

func (l *loader) readConfig(c *Collection) error {
	var found []string
	for _, name := range configFiles {
		exists, err := l.exists(name)
		if err != nil {
			return err
		}
		if exists {
			found = append(found, name)
		}
	}
	l.configFile = configFiles[0]
	switch len(found) {
	case 0:
		l.fileErrorf(l.configFile, "missing-operator-config", "the collection has neither %s at its root; is it an operator collection?", strings.Join(configFiles, " nor "))
		return nil
	case 2:
		l.fileErrorf(l.configFile, "duplicate-operator-config", "the collection has both %s; keep one", strings.Join(configFiles, " and "))
		return nil
	}
	l.configFile = found[0]
	content, err := l.read(l.configFile)
	if err != nil || content == nil {
		return err
	}
	if doc, ok := l.parseDocument(l.configFile, content); ok {
		l.readOperatorConfig(c, doc)
	}
	return nil
}

// read returns the content of a file; nil if it is too large or not a file, which is reported.
func (l *loader) read(name string) ([]byte, error) {
	f, err := l.fsys.Open(name)
	if errors.Is(err, archive.ErrNotKept) {
		l.fileErrorf(name, "file", "is a link to a file of another name; replace it by the file")
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
		l.fileErrorf(name, "file", "is not a regular file")
		return nil, nil
	}
	content, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxFileBytes {
		l.fileErrorf(name, "file", "is larger than %d MiB", maxFileBytes>>20)
		return nil, nil
	}
	return content, nil
}

func (l *loader) exists(name string) (bool, error) {
	_, err := fs.Stat(l.fsys, name)
	if err == nil {
		return true, nil
	}
	if isAbsent(err) {
		return false, nil
	}
	return false, err
}

// fileErrorf reports an error of a whole file.
func (l *loader) fileErrorf(file, rule, format string, args ...any) {
	l.add(Problem{File: file, Rule: rule, Severity: SeverityError, Message: fmt.Sprintf(format, args...)})
}

// checkPlaybooks reports playbooks that the collection does not hold.
func (l *loader) checkPlaybooks(c *Collection) error {
	for i, r := range c.Resources {
		for _, playbook := range []struct{ key, rule, name string }{
			{"playbook", "missing-playbook", r.Playbook},
			{"finalizer", "missing-finalizer", r.Finalizer},
		} {
			if playbook.name == "" {
				continue
			}
			at := l.at(l.configFile, fmt.Sprintf("resources[%d].%s", i, playbook.key))
			info, err := fs.Stat(l.fsys, playbook.name)
			switch {
			case isAbsent(err):
				at.errorf(playbook.rule, "the collection holds no file %s", quote(playbook.name))
			case err != nil:
				return err
			case !info.Mode().IsRegular():
				at.errorf(playbook.rule, "%s is not a file", quote(playbook.name))
			}
		}
	}
	return nil
}

// isAbsent says whether an error means that a file cannot be there: it does not exist, its path leads through a file or
// in a circle of links, or its name is impossible.
func isAbsent(err error) bool {
	absent := []error{fs.ErrNotExist, fs.ErrInvalid, syscall.ENOTDIR, syscall.ENAMETOOLONG, syscall.ELOOP}
	return slices.ContainsFunc(absent, func(target error) bool { return errors.Is(err, target) })
}

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
