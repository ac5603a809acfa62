//go:build unix

package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Init is the first process of a container: it reads what [Engine.Run] has written to standard input, runs this program under a name, and reaps
// orphans until it ends. If standard input ends before, the program gets SIGTERM, so that no container outlives the command that has started it.
// It returns the exit code.
func Init(name string, arguments []string) int {
	var s started
	decoder := json.NewDecoder(os.Stdin)
	if err := decoder.Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, "error: the first process of a container reads what to do from its standard input:", err)
		return engineFailed
	}
	program, err := s.start(name, arguments)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return engineFailed
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = program.Signal(syscall.SIGTERM)
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	go func() {
		for s := range signals {
			_ = program.Signal(s)
		}
	}()
	return reap(program.Pid)
}

func (s started) start(name string, arguments []string) (*os.Process, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	env := os.Environ()
	for key, value := range s.Variables {
		env = append(env, key+"="+string(value))
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer func() { _ = null.Close() }()
	folder := s.Folder
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		folder = "/" // Without a mount in the working folder, no argument depends on it.
	}
	return os.StartProcess(path, append([]string{name}, arguments...), &os.ProcAttr{Env: env, Dir: folder, Files: []*os.File{null, os.Stdout, os.Stderr}})
}

// reap waits for all children until the one with an ID has ended, and returns its exit code.
func reap(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return engineFailed
		case ended == pid && status.Exited():
			return status.ExitStatus()
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal()) // As shells do.
		}
	}
}

// detach keeps the terminal's interrupt from the engine: the end of its standard input ends the program.
func detach(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
