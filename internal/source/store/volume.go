package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
)

const (
	algorithm = digest.SHA256
	suffix    = ".tar.gz"

	// Whatever UID the next manager runs under is in group 0.
	directoryMode fs.FileMode = 0o775
	fileMode      fs.FileMode = 0o664
)

// unusedFolder has the archives that nothing uses. The time of a file is when it was moved there.
const unusedFolder = "unused"

// volume is the folder of a store.
type volume struct {
	// MaxBytes limits the archives that are marked unused: together with the others they are at most as large. Zero means no limit.
	MaxBytes int64

	dir string
	// putting keeps an archive from being removed as unused while it is put.
	putting sync.Mutex
}

func (v *volume) emptyTempDir() error {
	root, err := os.OpenRoot(v.TempDir())
	if err != nil {
		return err
	}
	defer root.Close()
	return empty(root)
}

// TempDir is a folder on the same device as the store, for archives not accepted yet.
func (v *volume) TempDir() string { return filepath.Join(v.dir, "tmp") }

// CheckWritable writes a small file into the store and removes it. A full volume passes: archives in it can be served, and imports
// report it.
func (v *volume) CheckWritable() error {
	f, err := os.CreateTemp(v.TempDir(), "check-*.tmp")
	if err == nil {
		_, err = f.WriteString("check\n")
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if removeErr := os.Remove(f.Name()); err == nil {
			err = removeErr
		}
	}
	if err == nil || IsFull(err) {
		return nil
	}
	return fmt.Errorf("the artifact store cannot be written: %w", err)
}

func (v *volume) path(archive digest.Digest) (string, error) {
	if archive.Validate() != nil || archive.Algorithm() != algorithm {
		return "", fmt.Errorf("invalid artifact digest %q: want sha256:<64 hexadecimal digits>", archive)
	}
	return filepath.Join(v.dir, algorithm.String(), archive.Encoded()+suffix), nil
}

func (v *volume) unusedPath(path string) string {
	return filepath.Join(v.dir, unusedFolder, filepath.Base(path))
}

// IsStored tells whether the store has an archive that is not marked unused.
func (v *volume) IsStored(archive digest.Digest) bool {
	path, err := v.path(archive)
	return err == nil && isRegular(path)
}

func (v *volume) open(archive digest.Digest) (*os.File, fs.FileInfo, error) {
	path, err := v.path(archive)
	if err != nil {
		return nil, nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("open artifact %s: %w", archive, err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open artifact %s: %w", archive, err), f.Close())
	}
	return f, info, nil
}

func (v *volume) move(source, target string) error {
	v.putting.Lock()
	defer v.putting.Unlock()
	return moveInto(source, target)
}

// removeOld deletes a file or folder unless it was written after a time.
func (v *volume) removeOld(path string, before time.Time) error {
	v.putting.Lock()
	defer v.putting.Unlock()
	info, err := os.Lstat(path)
	if err == nil && info.ModTime().Before(before) {
		err = os.RemoveAll(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (v *volume) markUnused(archive digest.Digest) error {
	path, err := v.path(archive)
	if err != nil {
		return err
	}
	v.putting.Lock()
	defer v.putting.Unlock()
	now := time.Now()
	if err = os.Chtimes(path, now, now); err == nil {
		err = os.Rename(path, v.unusedPath(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move artifact %s aside: %w", archive, err)
	}
	return nil
}

// Restore returns an archive that was marked unused to the store. One that was not marked unused stays. If there is none, the error is
// fs.ErrNotExist.
func (v *volume) Restore(archive digest.Digest) error {
	path, err := v.path(archive)
	if err != nil {
		return err
	}
	v.putting.Lock()
	defer v.putting.Unlock()
	if v.IsStored(archive) {
		return nil
	}
	if err := os.Rename(v.unusedPath(path), path); err != nil {
		return fmt.Errorf("restore artifact %s: %w", archive, err)
	}
	return nil
}

// WithRoom calls a function that writes up to a number of bytes to the volume of the store. If no space is left for them, it makes room
// and calls the function once more.
func (v *volume) WithRoom(bytes int64, write func() error) error {
	err := write()
	if !IsFull(err) || !v.MakeRoom(bytes) {
		return err
	}
	return write()
}

// MakeRoom deletes archives that were marked unused, the oldest first, until a number of bytes is free or none is left. It
// reports whether it deleted any.
func (v *volume) MakeRoom(bytes int64) bool {
	freed, _ := v.deleteUnused(bytes) // The caller reports that no space is left.
	return freed > 0
}

// keepWithinLimit deletes archives that were marked unused while all archives are larger than MaxBytes.
func (v *volume) keepWithinLimit() error {
	if v.MaxBytes <= 0 {
		return nil
	}
	excess := -v.MaxBytes
	for _, folder := range []string{algorithm.String(), unusedFolder} {
		files, err := v.list(folder)
		if err != nil {
			return fmt.Errorf("measure artifact store: %w", err)
		}
		for _, file := range files {
			excess += file.size
		}
	}
	if excess <= 0 {
		return nil
	}
	_, err := v.deleteUnused(excess)
	return err
}

// deleteUnused deletes archives that were marked unused, the oldest first, until a number of bytes is freed.
func (v *volume) deleteUnused(bytes int64) (freed int64, err error) {
	v.putting.Lock()
	defer v.putting.Unlock()
	files, err := v.list(unusedFolder)
	if err != nil {
		return 0, fmt.Errorf("list artifacts that were set aside: %w", err)
	}
	slices.SortFunc(files, func(a, b storedFile) int {
		return cmp.Or(a.modified.Compare(b.modified), cmp.Compare(a.path, b.path))
	})
	var errs []error
	for _, file := range files {
		if freed >= bytes {
			break
		}
		switch err := os.Remove(file.path); {
		case err == nil:
			freed += file.size
		case !errors.Is(err, fs.ErrNotExist):
			errs = append(errs, err)
		}
	}
	return freed, errors.Join(errs...)
}

// list returns the files in a folder of the store.
func (v *volume) list(folder string) ([]storedFile, error) {
	dir := filepath.Join(v.dir, folder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []storedFile
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil || !info.Mode().IsRegular() { // It may have been moved since the folder was read.
			continue
		}
		files = append(files, storedFile{path: filepath.Join(dir, entry.Name()), size: info.Size(), modified: info.ModTime()})
	}
	return files, nil
}

type storedFile struct {
	path     string
	size     int64
	modified time.Time
}

// IsFull says whether an error means that no space is left on the volume.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// makeDirectory gives a directory that it creates its mode whatever the umask is, and leaves an existing one alone.
func makeDirectory(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := os.MkdirAll(path, directoryMode); err != nil {
		return err
	}
	return os.Chmod(path, directoryMode)
}

func moveInto(source, target string) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Chmod(fileMode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(source, target); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(target))
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// empty deletes what is in a directory, not the directory, which may be a mount point.
func empty(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

const (
	// format is the number of the layout of a store. It changes only if a version that knows the former one would lose or misread
	// something. A store without a number has the first.
	format = 1
	// formatFile has the number.
	formatFile = "format"
	// maxFormatBytes limits what is read of it.
	maxFormatBytes = 16
)

// checkFormat refuses a store that a later version wrote in a layout that this one does not know, and records the layout of a new
// one.
func checkFormat(dir string) error {
	path := filepath.Join(dir, formatFile)
	content, err := readFormat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(path)
	}
	if err != nil {
		return err
	}
	found, err := strconv.Atoi(strings.TrimSpace(content))
	switch {
	case err != nil || found < 1:
		return fmt.Errorf("%s has no number: delete the directory %s, and the manager fetches the archives again", path, dir)
	case found > format:
		return fmt.Errorf("%s says %d, and this version of the manager knows storage formats up to %d: install the later version again, or delete the directory %s, and the manager fetches the archives again",
			path, found, format, dir)
	}
	return nil
}

func readFormat(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFormatBytes {
		return "", nil
	}
	content, err := os.ReadFile(path)
	return string(content), err
}

func writeFormat(path string) error {
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, fmt.Appendln(nil, format), fileMode); err != nil {
		return err
	}
	if err := os.Chmod(temporary, fileMode); err != nil { // The umask may have removed the group.
		return err
	}
	return os.Rename(temporary, path)
}
