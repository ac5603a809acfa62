package archive

import (
	"io"
	"io/fs"
)

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
	return files.ReadFile(name)
}
