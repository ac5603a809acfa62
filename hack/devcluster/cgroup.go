package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// delegateCgroups enables the kubelet's cgroups inside a container with cgroup v2. There the root cgroup is not the real
// root, and cannot both contain processes and delegate controllers, so the processes are moved to a child. It does nothing
// for a real root or cgroup v1.
func delegateCgroups() error {
	controllers, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
	if err != nil {
		return nil // cgroup v1
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.type")); err != nil {
		return nil // a real root
	}
	child := filepath.Join(cgroupRoot, "init")
	if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	pids, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.procs"))
	if err != nil {
		return err
	}
	for pid := range strings.FieldsSeq(string(pids)) {
		// The process may have ended.
		_ = os.WriteFile(filepath.Join(child, "cgroup.procs"), []byte(pid), 0)
	}
	enable := "+" + strings.Join(strings.Fields(string(controllers)), " +")
	return os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), []byte(enable), 0)
}
