package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// IsFull says whether an error means that no space is left on the volume.
func IsFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// WithRoom calls a function that writes up to a number of bytes to the volume of the store. If no space is left for them, it makes room
// and calls the function once more.
func (s *Store) WithRoom(bytes int64, write func() error) error {
	err := write()
	if !IsFull(err) || !s.MakeRoom(bytes) {
		return err
	}
	return write()
}

// MakeRoom deletes archives that were set aside, those first that were set aside first, until a number of bytes is free or none is
// left. It reports whether it deleted any.
func (s *Store) MakeRoom(bytes int64) bool {
	freed, _ := s.deleteAside(bytes) // The caller reports that no space is left.
	return freed > 0
}

// keepWithinLimit deletes archives that were set aside while all archives are larger than MaxBytes.
func (s *Store) keepWithinLimit() error {
	if s.MaxBytes <= 0 {
		return nil
	}
	excess := -s.MaxBytes
	for _, folder := range []string{algorithm.String(), asideFolder} {
		files, err := s.list(folder)
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
	_, err := s.deleteAside(excess)
	return err
}

// deleteAside deletes archives that were set aside, the oldest first, until a number of bytes is freed.
func (s *Store) deleteAside(bytes int64) (freed int64, err error) {
	s.putting.Lock()
	defer s.putting.Unlock()
	files, err := s.list(asideFolder)
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

type storedFile struct {
	path     string
	size     int64
	modified time.Time
}

// list returns the files in a folder of the store.
func (s *Store) list(folder string) ([]storedFile, error) {
	dir := filepath.Join(s.dir, folder)
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
