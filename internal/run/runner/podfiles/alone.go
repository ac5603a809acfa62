package podfiles

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Alone is the lock that all runs of a pod share, but for one that must be the only one in progress.
type Alone struct {
	// Dir is the folder for the pod's state.
	Dir string
}

// Share takes the lock for a run. It returns nil if one that is alone has it, and its resource.
func (a Alone) Share() (lock *os.File, resource string, err error) {
	lock, err = a.take(unix.LOCK_SH)
	if lock != nil || err != nil {
		return lock, "", err
	}
	content, err := ReadFile(a.path())
	return nil, string(content), err
}

// Take takes the lock for a run that is alone. It returns nil if others have it, and the resource if it is another one that is alone.
func (a Alone) Take(resource string) (lock *os.File, other string, err error) {
	lock, err = a.take(unix.LOCK_EX)
	if err != nil {
		return nil, "", err
	}
	if lock == nil {
		shared, other, err := a.Share()
		if shared != nil {
			_ = shared.Close()
		}
		return nil, other, err
	}
	if err := errors.Join(lock.Truncate(0), write(lock, resource)); err != nil {
		_ = lock.Close()
		return nil, "", err
	}
	return lock, "", nil
}

func write(file *os.File, content string) error {
	_, err := file.WriteString(content)
	return err
}

func (a Alone) path() string { return filepath.Join(a.Dir, "alone", "run.lock") }

func (a Alone) take(how int) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(a.path()), 0o770); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(a.path(), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o660)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return nil, err
}
