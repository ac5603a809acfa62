// Package store keeps verified archives by digest, serves them to the runtime pods, installs them there, and finds
// archives that users uploaded.
package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

const (
	algorithm = digest.SHA256
	suffix    = ".tar.gz"

	// Whatever UID the next manager runs under is in group 0.
	directoryMode fs.FileMode = 0o775
	fileMode      fs.FileMode = 0o664
)

// Store keeps archives as <dir>/sha256/<hex>.tar.gz, and for a while as <dir>/unused/<hex>.tar.gz when nothing uses them any more.
// Its methods are safe for concurrent use by one process; only one
// process may have a store open.
type Store struct {
	// MaxBytes limits the archives that are set aside: together with the others they are at most as large. Zero means no limit.
	MaxBytes int64

	dir string
	// putting keeps an archive from being removed as unused while it is put.
	putting sync.Mutex
	holds   holds
}

// Open opens the store in dir and creates it if need be. The directory must belong to the store alone. It deletes what interrupted
// downloads left in TempDir. A store in the format of a later version is an error.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	for _, path := range []string{dir, filepath.Join(dir, algorithm.String()), filepath.Join(dir, asideFolder), s.TempDir()} {
		if err := makeDirectory(path); err != nil {
			return nil, fmt.Errorf("open artifact store %s: %w", dir, err)
		}
	}
	if err := checkFormat(dir); err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	if err := s.emptyTempDir(); err != nil {
		return nil, fmt.Errorf("open artifact store: %w", err)
	}
	return s, nil
}

func (s *Store) emptyTempDir() error {
	root, err := os.OpenRoot(s.TempDir())
	if err != nil {
		return err
	}
	defer root.Close()
	return empty(root)
}

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

// TempDir is a folder on the same device as the store, for archives not accepted yet.
func (s *Store) TempDir() string { return filepath.Join(s.dir, "tmp") }

// Stage copies an uploaded archive of at most maxBytes into TempDir and hashes it; the caller removes the copy.
func (s *Store) Stage(path string, maxBytes int64) (*fetch.File, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("open uploaded archive: %w", err)
	}
	var staged *fetch.File
	err = s.WithRoom(info.Size(), func() (err error) {
		if _, err = f.Seek(0, io.SeekStart); err == nil {
			staged, err = fetch.Save(f, maxBytes, s.TempDir())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("copy uploaded archive %s: %w", path, err)
	}
	return staged, nil
}

// Put moves an archive from TempDir into the store; file.Path is gone afterwards. The archive appears whole or not at all, and
// is on disk when Put returns.
func (s *Store) Put(file *fetch.File) error {
	target, err := s.path(file.Digest)
	if err != nil {
		return err
	}
	if err := s.move(file.Path, target); err != nil {
		return fmt.Errorf("store artifact %s: %w", file.Digest, err)
	}
	return s.keepWithinLimit()
}

func (s *Store) move(source, target string) error {
	s.putting.Lock()
	defer s.putting.Unlock()
	return moveInto(source, target)
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

// Has tells whether Open finds the archive: it is stored, or set aside.
func (s *Store) Has(archive digest.Digest) bool {
	path, err := s.path(archive)
	if err != nil {
		return false
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	return isRegular(path) || isRegular(s.asidePath(path))
}

// IsStored tells whether the store has an archive that is not set aside.
func (s *Store) IsStored(archive digest.Digest) bool {
	path, err := s.path(archive)
	return err == nil && isRegular(path)
}

func isRegular(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// Open opens an archive and tells its size in bytes. One that was set aside is brought back. If the store does not hold it, the error
// is fs.ErrNotExist.
// An archive that is removed meanwhile stays readable until it is closed.
func (s *Store) Open(archive digest.Digest) (io.ReadSeekCloser, int64, error) {
	f, info, err := s.open(archive)
	if errors.Is(err, fs.ErrNotExist) && s.Restore(archive) == nil {
		f, info, err = s.open(archive)
	}
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (s *Store) open(archive digest.Digest) (*os.File, fs.FileInfo, error) {
	path, err := s.path(archive)
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

// Remove deletes an archive. One that is not there is no error.
func (s *Store) Remove(archive digest.Digest) error {
	path, err := s.path(archive)
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove artifact %s: %w", archive, err)
	}
	return nil
}

// removeOld deletes a file or folder unless it was written after a time.
func (s *Store) removeOld(path string, before time.Time) error {
	s.putting.Lock()
	defer s.putting.Unlock()
	info, err := os.Lstat(path)
	if err == nil && info.ModTime().Before(before) {
		err = os.RemoveAll(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s *Store) path(archive digest.Digest) (string, error) {
	if archive.Validate() != nil || archive.Algorithm() != algorithm {
		return "", fmt.Errorf("invalid artifact digest %q: want sha256:<64 hexadecimal digits>", archive)
	}
	return filepath.Join(s.dir, algorithm.String(), archive.Encoded()+suffix), nil
}
