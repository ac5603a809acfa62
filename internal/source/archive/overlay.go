package archive

import (
	"bytes"
	"io/fs"
	"path"
	"time"
)

// Overlay is a file system with a few regular files in memory on top of it.
type Overlay struct {
	fs.FS
	// Files are the contents in memory by path.
	Files map[string][]byte
}

// Open implements fs.FS.
func (o Overlay) Open(name string) (fs.File, error) {
	content, ok := o.Files[name]
	if !ok {
		return o.FS.Open(name)
	}
	return &memoryFile{Reader: bytes.NewReader(content), name: name}, nil
}

// Stat implements fs.StatFS.
func (o Overlay) Stat(name string) (fs.FileInfo, error) {
	content, ok := o.Files[name]
	if !ok {
		return fs.Stat(o.FS, name)
	}
	return &memoryFile{Reader: bytes.NewReader(content), name: name}, nil
}

// Lstat implements fs.ReadLinkFS.
func (o Overlay) Lstat(name string) (fs.FileInfo, error) {
	if _, ok := o.Files[name]; ok {
		return o.Stat(name)
	}
	return fs.Lstat(o.FS, name)
}

// ReadLink implements fs.ReadLinkFS.
func (o Overlay) ReadLink(name string) (string, error) {
	if _, ok := o.Files[name]; ok {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	return fs.ReadLink(o.FS, name)
}

// memoryFile is a regular file in memory, and its own FileInfo; the reader knows the size.
type memoryFile struct {
	*bytes.Reader
	name string
}

func (f *memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (f *memoryFile) Close() error               { return nil }
func (f *memoryFile) Name() string               { return path.Base(f.name) }
func (f *memoryFile) Mode() fs.FileMode          { return 0o644 }
func (f *memoryFile) ModTime() time.Time         { return time.Time{} }
func (f *memoryFile) IsDir() bool                { return false }
func (f *memoryFile) Sys() any                   { return nil }
