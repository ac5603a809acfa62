package archive

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Files are readable and writable for group 0, which every UID that OpenShift assigns belongs to.
const (
	fileMode       fs.FileMode = 0o664
	executableMode fs.FileMode = 0o775
	directoryMode  fs.FileMode = 0o775
)

// Extract unpacks a tar.gz into root, which must be empty. Files get mode 0664, or 0775 if they are executable, and
// directories 0775. Owners and times in the archive are ignored. It fails with *Error if the archive is rejected, else with
// the error of the file system. After an error, the caller must delete the content of root.
func Extract(r io.Reader, root *os.Root, limits Limits) error {
	return Walk(r, limits, func(name string, mode fs.FileMode, size int64, content io.Reader) error {
		switch mode.Type() {
		case fs.ModeDir:
			return makeDirectory(root, name)
		case fs.ModeSymlink:
			return makeLink(root, name, content)
		}
		if err := makeDirectory(root, path.Dir(name)); err != nil {
			return err
		}
		perm := fileMode
		if mode&0o111 != 0 {
			perm = executableMode
		}
		return writeFile(root, name, perm, size, content)
	})
}

// makeDirectory creates a directory and its parents with directoryMode, independent of the umask.
func makeDirectory(root *os.Root, name string) error {
	if name == "." {
		return nil
	}
	err := root.Mkdir(name, directoryMode)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeDirectory(root, path.Dir(name)); err != nil {
			return err
		}
		err = root.Mkdir(name, directoryMode)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = root.Chmod(name, directoryMode)
	}
	return extracting("directory", name, err)
}

// extracting adds to an error what was extracted, unless the archive is refused. It returns nil for nil.
func extracting(what, name string, err error) error {
	if refused := (*Error)(nil); err == nil || errors.As(err, &refused) {
		return err
	}
	return fmt.Errorf("extract %s %s: %w", what, quote(name), err)
}

func makeLink(root *os.Root, name string, content io.Reader) error {
	target, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if err := makeDirectory(root, path.Dir(name)); err != nil {
		return err
	}
	return extracting("link", name, root.Symlink(string(target), name))
}

func writeFile(root *os.Root, name string, perm fs.FileMode, size int64, content io.Reader) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return extracting("file", name, err)
	}
	_, err = io.CopyN(f, content, size)
	if err == nil {
		err = f.Chmod(perm) // The umask may have removed permissions of the group.
	}
	return extracting("file", name, cmp.Or(err, f.Close()))
}
