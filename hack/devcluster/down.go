package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// down stops the cluster in any state, and removes everything except binaries and caches.
func down(ctx context.Context, p project) error {
	if err := requireRoot(); err != nil {
		return err
	}
	unlock, err := lock(p.state("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	n := newNode(p)
	s := n.supervisor()

	var failed error
	note := func(err error) { failed = errors.Join(failed, err) }
	// Controllers first, and dependencies of other components last.
	for _, name := range []string{"kube-scheduler", "kube-controller-manager", "kubelet", "kube-proxy", "coredns"} {
		note(s.stop(ctx, name))
	}
	containers, namespaces := n.containers()
	note(s.stop(ctx, "containerd"))
	note(n.endContainers(ctx, containers))
	for _, name := range append([]string{"kube-apiserver", "etcd"}, s.names()...) {
		note(s.stop(ctx, name))
	}
	note(unmountBelow(append(namespaces, n.kubeletRoot(), n.state("containerd"))...))
	note(removeAll(namespaces...))
	note(tearDownNetwork(ctx, p))
	note(n.removeCgroups(ctx))
	note(n.restoreSysctls())
	note(buildah{p}.unmount())
	if failed != nil {
		return fmt.Errorf("the cluster was not removed completely; resolve this problem and run down again: %w", failed)
	}
	note(removeAll(p.state("containerd"), p.kubeletRoot(), filepath.Dir(p.containerdSocket()), p.state("plane"), p.state("pki"), p.state("conf"), p.state("run"),
		p.state("volumes"), p.state("pod-logs"), p.state("volume-plugins"), p.kubeconfig(), p.auditLog()))
	if failed == nil {
		fmt.Println("the cluster is down; binaries and images stay in", p.state())
	}
	return failed
}

// containers lists the containers in containerd's state folders, and the network namespaces of the pods among them.
// containerd need not be running.
func (n node) containers() (ids, namespaces []string) {
	specs, _ := filepath.Glob(n.state("containerd", "state", "io.containerd.runtime.v2.task", "k8s.io", "*", "config.json"))
	for _, file := range specs {
		ids = append(ids, filepath.Base(filepath.Dir(file)))
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var spec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
		if json.Unmarshal(content, &spec) != nil {
			continue
		}
		for _, namespace := range spec.Linux.Namespaces {
			if namespace.Type == "network" && strings.HasPrefix(filepath.Base(namespace.Path), "cni-") && !slices.Contains(namespaces, namespace.Path) {
				namespaces = append(namespaces, namespace.Path, strings.Replace(namespace.Path, "/var/run/", "/run/", 1))
			}
		}
	}
	return ids, namespaces
}

// endContainers kills the processes of the cluster's containers and their shims. A container's processes are identified by
// their cgroup, which is named after the container, and a shim by the path of the cluster's socket.
func (n node) endContainers(ctx context.Context, ids []string) error {
	return waitFor(ctx, "the containers to end", 30*time.Second, func(context.Context) error {
		left := 0
		for _, pid := range processes() {
			if n.isShim(pid) || inCgroup(pid, ids) {
				if _, running := processStart(pid); running {
					left++
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			}
		}
		if left > 0 {
			return fmt.Errorf("%d processes are left", left)
		}
		return nil
	})
}

func (n node) isShim(pid int) bool {
	cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return false
	}
	args := strings.Split(string(cmdline), "\x00")
	return strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") && slices.Contains(args, n.containerdSocket())
}

func inCgroup(pid int, ids []string) bool {
	if len(ids) == 0 {
		return false
	}
	cgroup, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(cgroup)) {
		if slices.Contains(ids, filepath.Base(strings.TrimSpace(line))) {
			return true
		}
	}
	return false
}

// removeCgroups removes the kubelet's empty cgroups in every hierarchy. It retries, since the kernel updates them with a
// delay.
func (n node) removeCgroups(ctx context.Context) error {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	roots = append(roots, "/sys/fs/cgroup/kubepods")
	return waitFor(ctx, "the cgroups to go", 10*time.Second, func(context.Context) error {
		var failed error
		for _, root := range roots {
			var dirs []string
			_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
				if err == nil && entry.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			slices.Reverse(dirs) // children first
			for _, dir := range dirs {
				if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
					failed = err
				}
			}
		}
		return failed
	})
}
