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
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// DefaultRetention is how long archives are kept that nothing uses any more.
const DefaultRetention = 7 * 24 * time.Hour

// Store keeps archives as <dir>/sha256/<hex>.tar.gz, and for a while as <dir>/unused/<hex>.tar.gz when nothing uses them any more.
// Its methods are safe for concurrent use by one process; only one process may have a store open.
type Store struct {
	volume
	holds holds
}

// Open opens the store in dir and creates it if need be. The directory must belong to the store alone. It deletes what interrupted
// downloads left in TempDir. A store in the format of a later version is an error.
func Open(dir string) (*Store, error) {
	s := &Store{volume: volume{dir: dir}}
	for _, path := range []string{dir, filepath.Join(dir, algorithm.String()), filepath.Join(dir, unusedFolder), s.TempDir()} {
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

// Hold keeps an archive from being removed until Release or Discard. The archive need not be stored yet.
func (s *Store) Hold(archive digest.Digest) *Hold {
	return s.holds.hold(archive, s.IsStored, s.Remove)
}

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

// Has tells whether Open finds the archive: it is stored, or marked unused.
func (s *Store) Has(archive digest.Digest) bool {
	path, err := s.path(archive)
	if err != nil {
		return false
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	return isRegular(path) || isRegular(s.unusedPath(path))
}

// Open opens an archive and tells its size in bytes. One that was marked unused is restored. If the store does not hold it, the error
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

// MarkUnused moves an archive to the unused ones unless it is used, or somebody holds it. Restore and Open return it until
// RemoveExpired deletes it, or the space is needed. Used is called without a lock; its error is returned. An archive that is not there is no error.
func (s *Store) MarkUnused(archive digest.Digest, used func() (bool, error)) error {
	return errors.Join(s.holds.unlessUsed(archive, used, s.markUnused), s.keepWithinLimit())
}

// RemoveUnused marks the archives unused that are not in use, unless they were stored after a time. Archives that somebody holds are kept.
func (s *Store) RemoveUnused(inUse map[digest.Digest]bool, before time.Time) error {
	archives, err := os.ReadDir(filepath.Join(s.dir, algorithm.String()))
	errs := []error{err}
	for _, entry := range archives {
		hex, isArchive := strings.CutSuffix(entry.Name(), suffix)
		archive := digest.NewDigestFromEncoded(algorithm, hex)
		switch info, err := entry.Info(); {
		case !isArchive || archive.Validate() != nil:
			errs = append(errs, s.removeOld(filepath.Join(s.dir, algorithm.String(), entry.Name()), before))
		case err == nil && !inUse[archive] && info.ModTime().Before(before):
			errs = append(errs, s.holds.unlessUsed(archive, func() (bool, error) { return false, nil }, s.markUnused))
		}
	}
	return errors.Join(append(errs, s.keepWithinLimit())...)
}

// RemoveExpired deletes archives that were marked unused before a time.
func (s *Store) RemoveExpired(before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, unusedFolder))
	errs := []error{err}
	for _, entry := range entries {
		errs = append(errs, s.removeOld(filepath.Join(s.dir, unusedFolder, entry.Name()), before))
	}
	return errors.Join(errs...)
}
