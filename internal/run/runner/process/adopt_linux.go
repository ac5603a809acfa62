package process

import "golang.org/x/sys/unix"

// AdoptOrphans makes this process the parent of processes whose parent ends. ansible-runner starts ansible-playbook in a
// session of its own: if ansible-runner is killed, the playbook goes on, and does not have the lock.
func AdoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}
