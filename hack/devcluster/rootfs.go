package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
)

// basePackages are the packages of the root file system that all images share: those for ansible-operator, an SSH client,
// and an SSH server for the substitute of a z/OS host.
var basePackages = []string{
	"ansible", "ansible-core", "ca-certificates", "libnss-wrapper", "openssh-client", "openssh-server", "openssh-sftp-server", "procps",
	"python3", "python3-ansible-runner", "python3-jsonpatch", "python3-kubernetes", "python3-pip", "sshpass", "tar", "tini",
}

// baseOptions customize the root file system. Of the collections in Debian's package ansible, only kubernetes.core is kept.
// The host keys of the SSH server are removed, since all containers would share them.
var baseOptions = []string{
	"--mode=root", "--variant=minbase", "--format=tar", "--skip=output/dev",
	`--aptopt=APT::Install-Recommends "false"`,
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	`--customize-hook=find "$1"/usr/lib/python3/dist-packages/ansible_collections -mindepth 1 -maxdepth 1 ! -name kubernetes -exec rm -rf {} +`,
	`--customize-hook=rm -f "$1"/etc/ssh/ssh_host_*`,
	`--customize-hook=chroot "$1" useradd --uid 1001 --gid 0 --no-create-home --home-dir /opt/ansible/home --shell /bin/sh ansible`,
}

// baseLayer returns the shared root file system. It is created once, from the package sources of this machine.
func baseLayer(ctx context.Context, p project) (layer, error) {
	release, err := debianRelease()
	if err != nil {
		return layer{}, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendln(nil, release, basePackages, baseOptions)))[:16]
	dir := p.state("cache", "base")
	description := filepath.Join(dir, key+".json")
	if content, err := os.ReadFile(description); err == nil {
		var have layer
		if json.Unmarshal(content, &have) == nil {
			if info, err := os.Stat(have.File); err == nil && info.Size() == have.Size {
				return have, nil
			}
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return layer{}, err
	}
	sources, err := debianSources(ctx)
	if err != nil {
		return layer{}, err
	}
	proxies, err := aptProxies(ctx)
	if err != nil {
		return layer{}, err
	}
	file := filepath.Join(dir, key+".tar")
	args := append(append([]string{}, baseOptions...), proxies...)
	args = append(args, "--include="+strings.Join(basePackages, ","), release, file, "-")
	command := exec.CommandContext(ctx, "mmdebstrap", args...)
	command.Stdin = strings.NewReader(sources)
	if err := runNoting("make the Debian root file system", command); err != nil {
		return layer{}, err
	}
	made, err := measure(file)
	if err != nil {
		return layer{}, err
	}
	content, err := json.Marshal(made)
	if err != nil {
		return layer{}, err
	}
	return made, writeFile(description, string(content), 0o644)
}

func measure(path string) (layer, error) {
	file, err := os.Open(path)
	if err != nil {
		return layer{}, err
	}
	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, file)
	return layer{File: path, Digest: digest.NewDigest(digest.SHA256, sum), Size: size}, err
}

func debianRelease() (string, error) {
	content, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	values := map[string]string{}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = strings.Trim(value, `"`)
	}
	if values["ID"] != "debian" || values["VERSION_CODENAME"] == "" {
		return "", fmt.Errorf("images are made from this machine's Debian release, but this is %q", values["PRETTY_NAME"])
	}
	return values["VERSION_CODENAME"], nil
}

// debianSources returns this machine's sources of Debian packages, without third-party sources.
func debianSources(ctx context.Context) (string, error) {
	for range 2 {
		targets, err := exec.CommandContext(ctx, "apt-get", "indextargets", "Created-By: Packages", "--format", "$(ORIGIN)|$(SITE)|$(RELEASE)|$(COMPONENT)").Output()
		if err != nil {
			return "", fmt.Errorf("apt-get indextargets: %w", err)
		}
		if sources := sourceLines(string(targets)); sources != "" {
			return sources, nil
		}
		if err := apt(ctx, "update"); err != nil { // The origin is only known after an update.
			return "", err
		}
	}
	return "", errors.New("apt has no source of Debian packages")
}

func sourceLines(targets string) string {
	var sources strings.Builder
	for line := range strings.Lines(targets) {
		if fields := strings.Split(strings.TrimSpace(line), "|"); len(fields) == 4 && fields[0] == "Debian" {
			fmt.Fprintf(&sources, "deb %s %s %s\n", fields[1], fields[2], fields[3])
		}
	}
	return sources.String()
}

// aptProxies returns this machine's proxy settings for apt.
func aptProxies(ctx context.Context) ([]string, error) {
	dump, err := exec.CommandContext(ctx, "apt-config", "dump", "Acquire").Output()
	if err != nil {
		return nil, fmt.Errorf("apt-config dump: %w", err)
	}
	var options []string
	for line := range bytes.Lines(dump) {
		if bytes.HasPrefix(line, []byte("Acquire::http")) && bytes.Contains(bytes.ToLower(line), []byte("::proxy")) {
			options = append(options, "--aptopt="+strings.TrimSuffix(strings.TrimSpace(string(line)), ";"))
		}
	}
	return options, nil
}
