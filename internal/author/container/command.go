// Package container runs a program of this machine in a container of an image with podman or docker: without privileges, with the author's user
// ID, and with no other files than those that are named.
package container

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The programs that run containers, the preferred one first.
const (
	podman = "podman"
	docker = "docker"
)

// engineFailed is the first exit code of podman and docker that is not that of the program.
const engineFailed = 125

// InitName is the name under which the program is the first process of a container. See [Init].
const InitName = "collection-init"

// initPath is where the program is in a container.
const initPath = "/usr/local/bin/" + InitName

// Mount makes a file or folder visible in a container at the same path.
type Mount struct {
	// Path is absolute.
	Path     string
	Writable bool
}

// User is whose process a container has.
type User struct {
	UID, GID int
	// Home is absolute.
	Home string
}

// Command is what is run in a container.
type Command struct {
	Image string
	// Program is a program for Linux that calls [Init], and Arguments are those after its name.
	Program   string
	Arguments []string
	// Folder is the working folder, if a mount makes it exist. Without one it is the root.
	Folder string
	User   User
	Mounts []Mount
	// Variables are added to the environment of the program. They are in no argument and no description of the container.
	Variables map[string][]byte
}

// started is what [Init] reads.
type started struct {
	Folder    string
	Variables map[string][]byte
}

// passwd is the list of users in the container. ssh does not run for a user ID without a name.
func (u User) passwd() string {
	lines := "root:x:0:0:root:/root:/bin/sh\n"
	if u.UID == 0 {
		lines = ""
	}
	return fmt.Sprintf("%sauthor:x:%d:%d:author:%s:/bin/sh\n", lines, u.UID, u.GID, u.Home)
}

// arguments are those of the engine. passwd is the file with the list of users.
func (c Command) arguments(engine, passwd string) ([]string, error) {
	args := []string{
		"run", "--rm", "--interactive", "--pull=never",
		"--network=host", // The names and routes of this machine, such as those of a VPN.
		"--read-only", "--tmpfs=/tmp:exec,mode=1777",
		"--cap-drop=all", "--security-opt=no-new-privileges",
		"--security-opt=label=disable", // Files of the author have no label of a container, and get none.
		fmt.Sprintf("--user=%d:%d", c.User.UID, c.User.GID), "--env=HOME=" + c.User.Home,
	}
	if engine == podman {
		args = append(args, "--http-proxy=false") // It would show passwords of proxies in the description of the container.
		if c.User.UID != 0 {
			args = append(args, "--userns=keep-id")
		}
	}
	var errs []error
	add := func(source, target string, writable bool) {
		if strings.ContainsAny(source, ",\"\n") {
			errs = append(errs, fmt.Errorf("%q cannot be mounted into a container: rename what has a comma, quote or line break in its name", source))
		}
		mount := "--mount=type=bind,source=" + source + ",target=" + target
		if !writable {
			mount += ",readonly"
		}
		args = append(args, mount)
	}
	add(c.Program, initPath, false)
	add(passwd, "/etc/passwd", false)
	for _, m := range sorted(c.Mounts) {
		add(m.Path, m.Path, m.Writable)
	}
	return append(append(args, "--entrypoint="+initPath, c.Image), c.Arguments...), errors.Join(errs...)
}

// sorted returns each path once, parents before what is in them. It is writable if one of its mounts is.
func sorted(mounts []Mount) []Mount {
	var out []Mount
	for _, m := range mounts {
		m.Path = filepath.Clean(m.Path)
		if i := slices.IndexFunc(out, func(o Mount) bool { return o.Path == m.Path }); i >= 0 {
			out[i].Writable = out[i].Writable || m.Writable
			continue
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return out
}
