package podfiles

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// maxSkips is the number of calls that are kept for the next time if the Lease cannot be written.
const maxSkips = 1 << 20

// Skips is a file with one byte for each call without a run, since calls are processes.
type Skips struct{ File string }

// Add counts one, and returns the number.
func (s Skips) Add() (int64, error) { return s.append(1) }

// PutBack counts again what was taken, up to maxSkips.
func (s Skips) PutBack(n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := s.append(int(min(n, maxSkips)))
	return err
}

func (s Skips) append(n int) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(s.File), 0o770); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(s.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o660)
	if err != nil {
		return 0, err
	}
	_, err = file.Write(bytes.Repeat([]byte{'.'}, n))
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Take returns the number and begins again. Of several processes that take, each has its own file.
func (s Skips) Take() (uint64, error) {
	taken := s.File + ".taken-" + strconv.Itoa(os.Getpid())
	if err := os.Rename(s.File, taken); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	info, err := os.Lstat(taken)
	if err != nil {
		return 0, err
	}
	return uint64(max(0, info.Size())), os.Remove(taken)
}
