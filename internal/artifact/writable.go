package artifact

import (
	"errors"
	"fmt"
	"os"
	"syscall"
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
	if err == nil || isFull(err) {
		return nil
	}
	return fmt.Errorf("the artifact store cannot be written: %w", err)
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }
