package store

import (
	"fmt"
	"os"
)

// CheckWritable writes a small file into the store and removes it. A full volume passes: archives in it can be served, and imports
// report it.
func (s *Store) CheckWritable() error {
	f, err := os.CreateTemp(s.TempDir(), "check-*.tmp")
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
