// Package archive reads and writes collection archives (tar.gz). Archives are untrusted input: no entry can leave the
// archive's tree, every read is bounded, and an archive is accepted as a whole or rejected with a Reason.
//
// An archive may contain regular files, directories, and symbolic links with a relative target that is itself a file or
// directory of the archive (`ansible-galaxy collection build` stores links inside a collection that way). Since no entry may
// lie below a link, and no link may point to or through another one, a link cannot leave the tree.
//
// There is no limit on the compression ratio. Gzip expands at most a thousandfold, so an archive of one megabyte expands to
// the gigabyte that Limits.TotalBytes allows anyway. Reading that takes a few seconds of CPU time and no memory. Repetitive
// text compresses a hundredfold: a useful limit would reject valid collections.
package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Visit is called by Walk for one entry. The name is clean, relative and slash-separated, and never ".". The mode is 0644 or
// 0755 for a file, 0755 with fs.ModeDir for a directory, 0777 with fs.ModeSymlink for a link; the content of a link is its
// target. The content need not be read, and must not be used after the call.
type Visit func(name string, mode fs.FileMode, size int64, content io.Reader) error

// Walk reads a tar.gz in one pass and calls visit for each entry, in the order of the archive. Links are visited last, after
// all of them are validated. Implied directories are not visited. It fails with *Error if the archive is rejected, or with
// the error of visit. Entries may have been visited before the error: the caller must discard them if Walk returns an error.
func Walk(r io.Reader, limits Limits, visit Visit) error {
	return walk(r, limits, func(name string, mode fs.FileMode, size int64, _ time.Time, content io.Reader) error {
		return visit(name, mode, size, content)
	})
}

// timedVisit is a Visit with the modification time of files. Other entries have no time.
type timedVisit func(name string, mode fs.FileMode, size int64, changed time.Time, content io.Reader) error

func walk(r io.Reader, limits Limits, visit timedVisit) error {
	limits = limits.withDefaults()
	compressed := bufio.NewReader(r)
	stream, err := openStream(compressed, limits.TotalBytes)
	if err != nil {
		return err
	}
	w := &walker{limits: limits, nodes: map[string]*node{}, visit: visit}
	archive := tar.NewReader(stream)
	for first := true; ; first = false {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			if first && stream.looksComplete(err) {
				return refuse(NotTar, "", "the gzip file does not hold a tar archive")
			}
			return readFailure("", err)
		}
		if err := w.entry(header, archive); err != nil {
			return err
		}
	}
	if err := stream.expectEnd(compressed); err != nil {
		return err
	}
	if len(w.nodes) == 0 {
		return refuse(Empty, "", "the archive holds no entries")
	}
	return w.visitLinks()
}

// stream reads the uncompressed archive, and fails at its limit.
type stream struct {
	gzip  *gzip.Reader
	limit int64
	read  int64
	ended bool // The gzip file is complete and its checksum is valid.
}

func openStream(compressed *bufio.Reader, limit int64) (*stream, error) {
	head, err := compressed.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, readFailure("", err)
	}
	if mistake := recognize(head); mistake != nil {
		return nil, mistake
	}
	if !bytes.HasPrefix(head, gzipMagic) {
		return nil, refuse(NotGzip, "", "the file is not a gzip file; a collection archive is a .tar.gz")
	}
	unzipped, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, readFailure("", err)
	}
	unzipped.Multistream(false)
	return &stream{gzip: unzipped, limit: limit}, nil
}

func (s *stream) Read(p []byte) (int, error) {
	if int64(len(p)) > s.limit-s.read+1 {
		p = p[:s.limit-s.read+1]
	}
	n, err := s.gzip.Read(p)
	s.read += int64(n)
	if s.read > s.limit {
		return 0, refuse(TooLarge, "", "the uncompressed archive is larger than %d bytes", s.limit)
	}
	s.ended = s.ended || errors.Is(err, io.EOF)
	return n, err
}

func (s *stream) looksComplete(err error) bool {
	return errors.Is(err, tar.ErrHeader) || s.ended
}

// expectEnd verifies that only zeros, the padding of the last tar record, follow the last entry, and nothing follows the
// gzip file: another reader might interpret data that was not validated.
func (s *stream) expectEnd(compressed *bufio.Reader) error {
	buffer := make([]byte, 32<<10)
	for {
		n, err := s.Read(buffer)
		for _, b := range buffer[:n] {
			if b != 0 {
				return refuse(TrailingData, "", "data follows the end of the tar archive")
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return readFailure("", err)
		}
	}
	switch _, err := compressed.ReadByte(); {
	case err == nil:
		return refuse(TrailingData, "", "data follows the end of the gzip file")
	case !errors.Is(err, io.EOF):
		return readFailure("", err)
	}
	return nil
}

type walker struct {
	limits  Limits
	visit   timedVisit
	nodes   map[string]*node // by collisionKey
	links   []link
	headers int
	bytes   int64
}

func (w *walker) entry(header *tar.Header, content io.Reader) error {
	w.headers++
	if w.headers > w.limits.Entries {
		return refuse(TooManyEntries, "", "the archive holds more than %d entries", w.limits.Entries)
	}
	kind, err := kindOf(header)
	if err != nil {
		return err
	}
	if kind == ignored {
		return nil
	}
	name, err := w.cleanName(header.Name, kind)
	if err != nil {
		return err
	}
	if name == "." {
		return nil
	}
	if err := w.add(name, kind); err != nil {
		return err
	}
	switch kind {
	case directory:
		return w.visit(name, fs.ModeDir|0o755, 0, time.Time{}, strings.NewReader(""))
	case symlink:
		w.links = append(w.links, link{name: name, target: header.Linkname})
		return nil
	default:
		return w.file(name, header, content)
	}
}

func (w *walker) file(name string, header *tar.Header, content io.Reader) error {
	if header.Size > w.limits.FileBytes {
		return refuse(TooLarge, name, "the file is larger than %d bytes", w.limits.FileBytes)
	}
	// A sparse file may be larger than its data in the stream.
	w.bytes += header.Size
	if w.bytes > w.limits.TotalBytes {
		return refuse(TooLarge, "", "the uncompressed archive is larger than %d bytes", w.limits.TotalBytes)
	}
	mode := fs.FileMode(0o644)
	if header.Mode&0o111 != 0 {
		mode = 0o755
	}
	return w.visit(name, mode, header.Size, header.ModTime, &fileContent{name: name, r: content})
}

func (w *walker) visitLinks() error {
	for i := range w.links {
		if err := w.checkLink(&w.links[i]); err != nil {
			return err
		}
	}
	for _, l := range w.links {
		if err := w.visit(l.name, fs.ModeSymlink|0o777, int64(len(l.target)), time.Time{}, strings.NewReader(l.target)); err != nil {
			return err
		}
	}
	return nil
}

// fileContent adds reason and entry to read errors.
type fileContent struct {
	name string
	r    io.Reader
}

func (c *fileContent) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = readFailure(c.name, err)
	}
	return n, err
}

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
