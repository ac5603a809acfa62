package archive

import (
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
	if err != nil {
		return fmt.Errorf("extract directory %s: %w", quote(name), err)
	}
	if err := root.Chmod(name, directoryMode); err != nil {
		return fmt.Errorf("extract directory %s: %w", quote(name), err)
	}
	return nil
}

func makeLink(root *os.Root, name string, content io.Reader) error {
	target, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	if err := makeDirectory(root, path.Dir(name)); err != nil {
		return err
	}
	if err := root.Symlink(string(target), name); err != nil {
		return fmt.Errorf("extract link %s: %w", quote(name), err)
	}
	return nil
}

func writeFile(root *os.Root, name string, perm fs.FileMode, size int64, content io.Reader) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("extract file %s: %w", quote(name), err)
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("extract file %s: %w", quote(name), closeErr)
		}
	}()
	if _, err := io.CopyN(f, content, size); err != nil {
		var refused *Error
		if errors.As(err, &refused) {
			return refused
		}
		return fmt.Errorf("extract file %s: %w", quote(name), err)
	}
	if err := f.Chmod(perm); err != nil { // The umask may have removed permissions of the group.
		return fmt.Errorf("extract file %s: %w", quote(name), err)
	}
	return nil
}
