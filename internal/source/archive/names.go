package archive

import (
	"archive/tar"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

type kind int

const (
	file kind = iota
	directory
	symlink
	ignored
)

// node is one path of the archive. A directory is not explicit while it is only implied by paths of other entries.
type node struct {
	name     string
	kind     kind
	explicit bool
}

type link struct {
	name   string
	target string
}

func kindOf(header *tar.Header) (kind, error) {
	what := "an entry of an unknown type"
	switch header.Typeflag {
	case tar.TypeReg:
		// Tar readers handle a file of which the tar contains only parts differently.
		if !hasRecord(header, func(key string) bool { return strings.HasPrefix(key, "GNU.sparse.") }) {
			return file, nil
		}
		what = "a sparse file"
	case tar.TypeDir:
		return directory, nil
	case tar.TypeSymlink:
		return symlink, nil
	case tar.TypeXGlobalHeader:
		// `git archive` records the commit in a comment.
		if !hasRecord(header, func(key string) bool { return key != "comment" }) {
			return ignored, nil
		}
		what = "a header that sets attributes of all entries, which not every reader heeds"
	case tar.TypeLink:
		what = "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		what = "a device"
	case tar.TypeFifo:
		what = "a named pipe"
	}
	return 0, refuse(UnsupportedEntry, header.Name, "is %s; only files, directories and symbolic links are supported", what)
}

func hasRecord(header *tar.Header, is func(key string) bool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(header.PAXRecords)), is)
}

// cleanName validates a path of the archive and returns its clean form, or "." for the top directory itself.
func (w *walker) cleanName(raw string, kind kind) (string, error) {
	if err := checkText(raw, raw, "path"); err != nil {
		return "", err
	}
	if strings.HasPrefix(raw, "/") {
		return "", refuse(PathEscapes, raw, "the path is absolute")
	}
	for part := range strings.SplitSeq(raw, "/") {
		if part == ".." {
			return "", refuse(PathEscapes, raw, `the path holds ".."`)
		}
	}
	name := path.Clean(raw)
	if kind != directory && (name == "." || strings.HasSuffix(raw, "/")) {
		return "", refuse(InvalidName, raw, "the path is that of a directory, but the entry is none")
	}
	if len(name) > w.limits.NameBytes {
		return "", refuse(NameTooLong, raw, "the path is longer than %d bytes", w.limits.NameBytes)
	}
	if strings.Count(name, "/") >= w.limits.Depth {
		return "", refuse(TooDeep, raw, "the path has more than %d components", w.limits.Depth)
	}
	return name, nil
}

func checkText(entry, text, what string) error {
	switch {
	case text == "":
		return refuse(InvalidName, entry, "the %s is empty", what)
	case !utf8.ValidString(text):
		return refuse(InvalidName, entry, "the %s is not valid UTF-8", what)
	case strings.Contains(text, `\`):
		return refuse(InvalidName, entry, "the %s holds a backslash", what)
	case strings.ContainsFunc(text, isInvisible):
		return refuse(InvalidName, entry, "the %s holds a control character or an invisible one", what)
	}
	return nil
}

// isInvisible reports whether a character can make a text look different: control characters, changes of the writing
// direction, zero-width characters, and line separators.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// collisionKey returns the same key for paths that some file system treats as equal, or that look the same: it ignores case,
// the composition of accents, and compatibility forms such as full width. Similar letters of different scripts have
// different keys.
func collisionKey(name string) string {
	if !strings.ContainsFunc(name, func(r rune) bool { return r >= utf8.RuneSelf }) {
		return strings.ToLower(name)
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(name)))
}

// add records an entry and the directories that its path implies.
func (w *walker) add(name string, kind kind) error {
	if parent := path.Dir(name); parent != "." {
		if err := w.addParent(name, parent); err != nil {
			return err
		}
	}
	known := w.nodes[collisionKey(name)]
	switch {
	case known == nil:
		return w.insert(&node{name: name, kind: kind, explicit: true})
	case known.name != name:
		return refuse(DuplicateEntry, name, "differs from %s only in case or in how its characters look", quote(known.name))
	case known.kind == directory && kind == directory && !known.explicit:
		known.explicit = true
		return nil
	default:
		return refuse(DuplicateEntry, name, "the archive holds this path twice")
	}
}

func (w *walker) addParent(entry, name string) error {
	known := w.nodes[collisionKey(name)]
	switch {
	case known == nil:
		if parent := path.Dir(name); parent != "." {
			if err := w.addParent(entry, parent); err != nil {
				return err
			}
		}
		return w.insert(&node{name: name, kind: directory})
	case known.name != name:
		return refuse(DuplicateEntry, entry, "its directory %s differs from %s only in case or in how its characters look", quote(name), quote(known.name))
	case known.kind == symlink:
		return refuse(UnsafeLink, entry, "lies below the symbolic link %s", quote(name))
	case known.kind != directory:
		return refuse(DuplicateEntry, entry, "lies below %s, which is a file", quote(name))
	}
	return nil
}

func (w *walker) insert(n *node) error {
	if len(w.nodes) >= w.limits.Entries {
		return refuse(TooManyEntries, "", "the archive holds more than %d entries", w.limits.Entries)
	}
	w.nodes[collisionKey(n.name)] = n
	return nil
}

// checkLink accepts a link whose target, relative to the link's directory, is a real file or directory of the archive. A
// leading ".." leaves a real directory, and all components below are real directories, so that no other link can redirect
// the target. The target is replaced by its clean form.
func (w *walker) checkLink(l *link) error {
	if err := checkText(l.name, l.target, "link target"); err != nil {
		return err
	}
	if len(l.target) > w.limits.NameBytes {
		return refuse(NameTooLong, l.name, "the link target is longer than %d bytes", w.limits.NameBytes)
	}
	if strings.HasPrefix(l.target, "/") {
		return refuse(PathEscapes, l.name, "links to the absolute path %s", quote(l.target))
	}
	down := false
	for part := range strings.SplitSeq(l.target, "/") {
		if part == ".." && down {
			return refuse(UnsafeLink, l.name, `the link target %s holds ".." after a name`, quote(l.target))
		}
		down = down || (part != ".." && part != "." && part != "")
	}
	resolved := path.Join(path.Dir(l.name), l.target)
	if resolved == ".." || strings.HasPrefix(resolved, "../") {
		return refuse(PathEscapes, l.name, "links to %s, outside the archive", quote(l.target))
	}
	if resolved == "." || strings.HasPrefix(l.name, resolved+"/") {
		return refuse(UnsafeLink, l.name, "links to %s, a directory it lies in", quote(l.target))
	}
	known := w.nodes[collisionKey(resolved)]
	if known == nil || known.name != resolved {
		return refuse(UnsafeLink, l.name, "links to %s, which the archive does not hold", quote(l.target))
	}
	if known.kind == symlink {
		return refuse(UnsafeLink, l.name, "links to %s, which is a symbolic link itself", quote(l.target))
	}
	if known.kind == file && strings.HasSuffix(l.target, "/") {
		return refuse(UnsafeLink, l.name, "links to %s, which is not a directory", quote(l.target))
	}
	l.target = path.Clean(l.target)
	return nil
}
