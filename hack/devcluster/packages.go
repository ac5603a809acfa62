package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// hostPackages are the Debian packages of a node, each with a program. The package is not installed if the program exists,
// for example containerd from Docker's packages.
var hostPackages = []struct{ name, program string }{
	{"buildah", "buildah"},
	{"containerd", "containerd"},
	{"containernetworking-plugins", cniPlugins + "/bridge"},
	{"conntrack", "conntrack"},
	{"iproute2", "ip"},
	{"iptables", "iptables"},
	{"mmdebstrap", "mmdebstrap"},
	{"nftables", "nft"},
	{"podman", "podman"}, // For specs that use an image as authors do.
	{"runc", "runc"},
}

const cniPlugins = "/usr/lib/cni"

func missingPackages() []string {
	var missing []string
	for _, wanted := range hostPackages {
		if _, err := exec.LookPath(wanted.program); err != nil {
			missing = append(missing, wanted.name)
		}
	}
	return missing
}

// installPackages installs missing packages.
func installPackages(ctx context.Context, p project) error {
	if len(missingPackages()) == 0 {
		return nil
	}
	unlock, err := lock(p.state("packages.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	missing := missingPackages()
	if len(missing) == 0 {
		return nil // Another step has installed them.
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("install these first (there is no apt-get here): %s", strings.Join(missing, " "))
	}
	note("install Debian packages: %s", strings.Join(missing, " "))
	if err := exec.CommandContext(ctx, "apt-cache", "show", missing[0]).Run(); err != nil {
		if err := apt(ctx, "update"); err != nil {
			return err
		}
	}
	install := append([]string{"install", "--yes", "--no-install-recommends", "--no-remove"}, missing...)
	if err := apt(ctx, install...); err == nil {
		return nil
	}
	// The package lists may be outdated: retry after an update.
	if err := apt(ctx, "update"); err != nil {
		return err
	}
	return apt(ctx, install...)
}

func apt(ctx context.Context, args ...string) error {
	command := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
	command.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	return runNoting("apt-get "+args[0], command, lastLine)
}
