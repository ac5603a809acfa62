// Package process starts the processes of a run, copies what they print, and ends what is left of them.
package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Start starts the command with its output in out. The channel is closed when the command has ended.
func Start(command *exec.Cmd, out *Output) (<-chan struct{}, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.Stdout, command.Stderr = writer, writer
	err = command.Start()
	_ = writer.Close()
	if err != nil {
		_ = reader.Close()
		return nil, err
	}
	copied := make(chan struct{})
	go func() {
		out.copyLines(reader)
		close(copied)
	}()
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // The report and ProcessState say how it ended.
		// Processes that outlive the run, such as ssh's multiplexing masters, may hold the pipe.
		select {
		case <-copied:
		case <-time.After(time.Second):
			_ = reader.Close()
			<-copied
		}
		close(ended)
	}()
	return ended, nil
}

// KillOrphans ends what is left of a run whose ansible-runner has ended without its playbook, and waits until it is gone. The
// connections that ssh shares between runs stay, unless connections is true.
func KillOrphans(grace time.Duration, connections bool) error {
	for deadline := time.Now().Add(grace); ; time.Sleep(20 * time.Millisecond) { //nolint:forbidigo // Processes that are not children of a command cannot be waited for.
		left, err := children(os.Getpid(), connections)
		if err != nil || len(left) == 0 {
			return err
		}
		for _, pid := range left {
			// What a child has started becomes a child of this process once the child has ended.
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d processes of the run have not ended", len(left))
		}
	}
}

// children returns the processes whose parent has the given ID, without shared connections of ssh unless connections is true.
func children(parent int, connections bool) ([]int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, file := range files {
		stat, err := os.ReadFile(file) //nolint:gosec // A file of the kernel.
		if err != nil {
			continue // The process has ended.
		}
		// The name in parentheses may contain anything; state and parent follow it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && (connections || !sharesConnection(pid)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// sharesConnection reports whether a process is a multiplexing master of ssh, which other runs use as well.
func sharesConnection(pid int) bool {
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return bytes.HasPrefix(command, []byte("ssh: ")) && bytes.Contains(command, []byte("[mux]"))
}
