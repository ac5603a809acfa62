package archive

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// ErrNotKept is returned when a file is opened whose content was not kept.
var ErrNotKept = errors.New("the archive holds this file, but its content was not kept")

// Files is the content of an archive in memory. It has the names, sizes, times, links and checksums of all files, and the
// content of those that were kept. Opening any other file fails with ErrNotKept. Links are followed as in os.DirFS. It is
// safe for concurrent use.
type Files struct {
	nodes map[string]*entry
}

var (
	_ fs.StatFS     = (*Files)(nil)
	_ fs.ReadLinkFS = (*Files)(nil)
)

// Read reads a whole tar.gz and keeps the content of the regular files that keep selects, up to Limits.KeptBytes in total.
// All regular files are hashed. It fails with *Error if the archive is rejected.
func Read(r io.Reader, limits Limits, keep func(name string, size int64) bool) (*Files, error) {
	limits = limits.withDefaults()
	files := &Files{nodes: map[string]*entry{".": {name: ".", mode: fs.ModeDir | 0o755}}}
	left := limits.KeptBytes
	hash, buffer := sha256.New(), make([]byte, 64<<10)
	err := walk(r, limits, func(name string, mode fs.FileMode, size int64, changed time.Time, content io.Reader) error {
		e := &entry{name: path.Base(name), mode: mode, size: size, changed: changed}
		switch mode.Type() {
		case fs.ModeDir:
			files.directory(name)
			return nil
		case fs.ModeSymlink:
			target, err := io.ReadAll(content)
			if err != nil {
				return err
			}
			e.target = string(target)
		default:
			hash.Reset()
			if keep(name, size) {
				if left -= size; left < 0 {
					return refuse(TooLarge, name, "the files that must be read are together larger than %d bytes", limits.KeptBytes)
				}
				e.data, e.kept = make([]byte, size), true
				if _, err := io.ReadFull(content, e.data); err != nil {
					return readFailure(name, err)
				}
				hash.Write(e.data)
			} else if _, err := io.CopyBuffer(hash, content, buffer); err != nil {
				return err
			}
			hash.Sum(e.sum[:0])
		}
		files.put(name, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, e := range files.nodes {
		slices.SortFunc(e.children, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	}
	return files, nil
}

// ReadFile returns the content of one regular file of a tar.gz. It validates the whole archive. It fails with *Error if the
// archive is rejected, and with fs.ErrNotExist if there is no such file.
func ReadFile(r io.Reader, limits Limits, name string) ([]byte, error) {
	files, err := Read(r, limits, func(file string, _ int64) bool { return file == name })
	if err != nil {
		return nil, err
	}
	if info, err := files.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return fs.ReadFile(files, name)
}

func (f *Files) put(name string, e *entry) {
	parent := f.directory(path.Dir(name))
	parent.children = append(parent.children, e)
	f.nodes[name] = e
}

func (f *Files) directory(name string) *entry {
	if known := f.nodes[name]; known != nil {
		return known
	}
	e := &entry{name: path.Base(name), mode: fs.ModeDir | 0o755}
	f.put(name, e)
	return e
}

// Open implements fs.FS.
func (f *Files) Open(name string) (fs.File, error) {
	e, err := f.lookup("open", name, true)
	if err != nil {
		return nil, err
	}
	e = e.as(name)
	if e.IsDir() {
		return &openDirectory{entry: e}, nil
	}
	if !e.kept {
		return nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotKept}
	}
	return &openFile{Reader: bytes.NewReader(e.data), entry: e}, nil
}

// Stat implements fs.StatFS. It also works for files that were not kept.
func (f *Files) Stat(name string) (fs.FileInfo, error) {
	e, err := f.lookup("stat", name, true)
	if err != nil {
		return nil, err
	}
	return e.as(name), nil
}

// SHA256 returns the checksum of a regular file, also if it was not kept. Links are followed. ok is false if there is no
// such file.
func (f *Files) SHA256(name string) (sum [sha256.Size]byte, ok bool) {
	e, err := f.lookup("checksum", name, true)
	if err != nil || !e.mode.IsRegular() {
		return sum, false
	}
	return e.sum, true
}

// Lstat implements fs.ReadLinkFS.
func (f *Files) Lstat(name string) (fs.FileInfo, error) {
	e, err := f.lookup("lstat", name, false)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// ReadLink implements fs.ReadLinkFS.
func (f *Files) ReadLink(name string) (string, error) {
	e, err := f.lookup("readlink", name, false)
	if err != nil {
		return "", err
	}
	if e.mode.Type() != fs.ModeSymlink {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return e.target, nil
}

// lookup finds an entry by name. Links on the way are followed, and the last one if follow is set.
func (f *Files) lookup(op, name string, follow bool) (*entry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	current := name
	for range DefaultLimits.Depth {
		if e := f.nodes[current]; e != nil && (!follow || e.target == "") {
			return e, nil
		}
		next, ok := f.followFirst(current)
		if !ok {
			return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
		}
		current = next
	}
	return nil, &fs.PathError{Op: op, Path: name, Err: errors.New("too many symbolic links")}
}

// followFirst replaces the first link in a path by its target.
func (f *Files) followFirst(name string) (string, bool) {
	for end := 0; end < len(name); end++ {
		if i := strings.IndexByte(name[end:], '/'); i < 0 {
			end = len(name)
		} else {
			end += i
		}
		e := f.nodes[name[:end]]
		if e == nil {
			return "", false
		}
		if e.target != "" {
			return path.Join(path.Dir(name[:end]), e.target, name[end:]), true
		}
	}
	return "", false
}

// entry is a node of the tree and its own fs.FileInfo.
type entry struct {
	name     string
	mode     fs.FileMode
	size     int64
	changed  time.Time
	data     []byte
	kept     bool
	sum      [sha256.Size]byte
	target   string
	children []*entry
}

// as returns the entry with another name, for an entry that was reached through a link.
func (e *entry) as(name string) *entry {
	renamed := *e
	renamed.name = path.Base(name)
	return &renamed
}

func (e *entry) list() []fs.DirEntry {
	list := make([]fs.DirEntry, len(e.children))
	for i, child := range e.children {
		list[i] = fs.FileInfoToDirEntry(child)
	}
	return list
}

func (e *entry) Name() string       { return e.name }
func (e *entry) Size() int64        { return e.size }
func (e *entry) Mode() fs.FileMode  { return e.mode }
func (e *entry) ModTime() time.Time { return e.changed }
func (e *entry) IsDir() bool        { return e.mode.IsDir() }
func (e *entry) Sys() any           { return nil }
func (e *entry) String() string     { return fs.FormatFileInfo(e) }

type openFile struct {
	*bytes.Reader
	entry *entry
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *openFile) Close() error               { return nil }

type openDirectory struct {
	entry *entry
	read  int
}

func (d *openDirectory) Stat() (fs.FileInfo, error) { return d.entry, nil }
func (d *openDirectory) Close() error               { return nil }

func (d *openDirectory) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.entry.name, Err: errors.New("is a directory")}
}

func (d *openDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	rest := d.entry.list()[d.read:]
	if n > 0 && len(rest) == 0 {
		return nil, io.EOF
	}
	if n > 0 && n < len(rest) {
		rest = rest[:n]
	}
	d.read += len(rest)
	return rest, nil
}
