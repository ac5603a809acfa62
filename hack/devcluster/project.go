package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const modulePath = "github.com/collection-operator/collection-operator"

// project is a checkout of the repository. All files of devcluster are in its .devcluster folder, but for what images are made of.
type project struct {
	root   string
	caches string // the user's cache folder, as os.UserCacheDir returns it
}

// findProject walks up from the working directory to the repository's root.
func findProject() (project, error) {
	dir, err := os.Getwd()
	if err != nil {
		return project{}, err
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return project{}, err
	}
	for {
		if module, err := moduleOf(filepath.Join(dir, "go.mod")); err == nil && module == modulePath {
			return project{root: dir, caches: caches}, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return project{}, fmt.Errorf("no module %s at or above the working directory: run this inside the repository", modulePath)
		}
		dir = parent
	}
}

func moduleOf(goMod string) (string, error) {
	file, err := os.Open(goMod)
	if err != nil {
		return "", err
	}
	defer file.Close()
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		if module, ok := strings.CutPrefix(scanner.Text(), "module "); ok {
			return strings.TrimSpace(module), nil
		}
	}
	return "", errors.Join(scanner.Err(), fmt.Errorf("%s has no module line", goMod))
}

// state returns a path below .devcluster.
func (p project) state(elements ...string) string {
	return filepath.Join(append([]string{p.root, ".devcluster"}, elements...)...)
}

// cache returns a path in the user's cache folder, which all checkouts share, as they share Go's caches.
func (p project) cache(elements ...string) string {
	return filepath.Join(append([]string{p.caches, "collection-operator", "devcluster"}, elements...)...)
}

// source returns a path below hack/devcluster.
func (p project) source(elements ...string) string {
	return filepath.Join(append([]string{p.root, "hack", "devcluster"}, elements...)...)
}

func (p project) binary(name string) string { return p.state("bin", name) }
func (p project) kubeconfig() string        { return p.state("kubeconfig") }
func (p project) auditLog() string          { return p.state("audit.log") }

// kubeletRoot returns a folder in .devcluster, unless the paths of its unix sockets would exceed 108 bytes.
func (p project) kubeletRoot() string {
	if dir := p.state("kubelet"); len(dir) <= 60 {
		return dir
	}
	return "/var/lib/collection-operator-devcluster/kubelet"
}

// containerdSocket returns a path in .devcluster, or in /run if that path is too long for a socket.
func (p project) containerdSocket() string {
	if path := p.state("containerd", "containerd.sock"); len(path) <= 90 {
		return path
	}
	return "/run/collection-operator-devcluster/containerd.sock"
}

// writeFile writes a file unless its content is equal: kube-proxy exits when its configuration is written, and clients watch
// their kubeconfig.
func writeFile(path, content string, mode os.FileMode) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == content {
		return os.Chmod(path, mode)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}
