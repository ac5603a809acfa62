package playbook

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/author/playbook/jinja"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Bounds on the files of playbooks and roles that are looked into, so that memory does not grow with the collection.
// One file that is larger is not looked into; none is if all together are.
const (
	maxPlaybookBytes  = 256 << 10
	maxPlaybooksBytes = 8 << 20
)

// aside are the folders at the root that hold no playbooks and roles of the collection itself.
var aside = []string{"changelogs", "collections", "docs", "extensions", "plugins", "tests"}

// NewKeep makes the function that says which files of one archive [Check] reads. It is for one reading: it counts what it
// keeps.
func NewKeep() func(name string, size int64) bool {
	left := int64(maxPlaybooksBytes)
	return func(name string, size int64) bool {
		if !isPlaybookFile(name) || size > maxPlaybookBytes {
			return false
		}
		left -= size
		return left >= 0
	}
}

// isPlaybookFile reports whether a file may be a part of a playbook or role that is looked into.
func isPlaybookFile(name string) bool {
	first, _, inFolder := strings.Cut(name, "/")
	if model.Keep(name, 0) || inFolder && slices.Contains(aside, first) {
		return false
	}
	return (isYAML(name) || path.Ext(name) == jinja.Suffix) && !isHidden(name)
}

func isYAML(name string) bool { return path.Ext(name) == ".yml" || path.Ext(name) == ".yaml" }

// isHidden reports whether a file lies in a folder such as .git, which may be large on an author's machine.
func isHidden(name string) bool {
	return strings.HasPrefix(name, ".") || strings.Contains(name, "/.")
}

// playbookFiles returns the files of playbooks, roles and templates; fit is false if together they are too large to be
// looked into. All are counted, so that an archive, which keeps none beyond the bound in an order of its own, and the
// folder it was made of agree. A folder that cannot be read counts as empty.
func playbookFiles(fsys fs.FS) (names []string, fit bool) {
	left, entries := int64(maxPlaybooksBytes), archive.DefaultLimits.Entries
	_ = fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		entries--
		switch {
		case left < 0 || entries < 0:
			return fs.SkipAll
		case err != nil || d.IsDir() && name != "." && (isHidden(name) || slices.Contains(aside, name)):
			return fs.SkipDir
		case d.Type().IsRegular() && isPlaybookFile(name):
			names = append(names, name)
			if info, err := d.Info(); err == nil && info.Size() <= maxPlaybookBytes {
				left -= info.Size()
			}
		}
		return nil
	})
	return names, left >= 0 && entries >= 0
}
