package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
)

// DefaultRetention is how long archives are kept that nothing uses any more.
const DefaultRetention = 7 * 24 * time.Hour

// asideFolder has the archives that nothing uses. The time of a file is when it was moved there.
const asideFolder = "unused"

// SetAside moves an archive aside unless it is used, or somebody holds it. Restore and Open bring it back, until RemoveExpired deletes
// it, or the space is needed.
// Used is called without a lock; its error is returned. An archive that is not there is no error.
func (s *Store) SetAside(archive digest.Digest, used func() (bool, error)) error {
	return errors.Join(s.unlessUsed(archive, used, s.setAside), s.keepWithinLimit())
}

func (s *Store) setAside(archive digest.Digest) error {
	path, err := s.path(archive)
	if err != nil {
		return err
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	now := time.Now()
	if err = os.Chtimes(path, now, now); err == nil {
		err = os.Rename(path, s.asidePath(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move artifact %s aside: %w", archive, err)
	}
	return nil
}

// Restore returns an archive that was set aside to the store. One that was not set aside stays. If there is none, the error is
// fs.ErrNotExist.
func (s *Store) Restore(archive digest.Digest) error {
	path, err := s.path(archive)
	if err != nil {
		return err
	}
	s.putting.Lock()
	defer s.putting.Unlock()
	if s.IsStored(archive) {
		return nil
	}
	if err := os.Rename(s.asidePath(path), path); err != nil {
		return fmt.Errorf("restore artifact %s: %w", archive, err)
	}
	return nil
}

func (s *Store) asidePath(path string) string {
	return filepath.Join(s.dir, asideFolder, filepath.Base(path))
}

// RemoveUnused sets the archives aside that are not in use, unless they were stored after a time. Archives that somebody holds are kept.
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
			errs = append(errs, s.unlessUsed(archive, func() (bool, error) { return false, nil }, s.setAside))
		}
	}
	return errors.Join(append(errs, s.keepWithinLimit())...)
}

// RemoveExpired deletes archives that were set aside before a time.
func (s *Store) RemoveExpired(before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, asideFolder))
	errs := []error{err}
	for _, entry := range entries {
		errs = append(errs, s.removeOld(filepath.Join(s.dir, asideFolder, entry.Name()), before))
	}
	return errors.Join(errs...)
}
