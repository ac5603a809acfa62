//go:build unix

package localrun

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's interrupt from the gate, which would leave the playbook alone.
func detach(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
