//go:build unix

package localrun

import (
	"os"
	"strconv"
	"syscall"
)

// EndWithParent ends the gate of a session, the run that it has started, and the session's folder if the program that started it ends without
// having ended the run, as after kill -9. kill ends the children of this process.
func EndWithParent(kill func() error) {
	fd, err := strconv.Atoi(os.Getenv(parentVariable))
	if err != nil || fd < 3 {
		return
	}
	syscall.CloseOnExec(fd)
	parent := os.NewFile(uintptr(fd), "parent")
	go func() {
		_, _ = parent.Read(make([]byte, 1)) // Nobody writes.
		_ = kill()
		_ = folder(os.Getenv(folderVariable)).remove()
		os.Exit(1)
	}()
}
