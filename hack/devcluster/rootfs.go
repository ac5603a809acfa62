package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// rootOptions customize the root file system of the stand-ins.
var rootOptions = []string{
	"--mode=root", "--variant=minbase", "--format=tar", "--skip=output/dev", "--include=ca-certificates",
	`--aptopt=APT::Install-Recommends "false"`,
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
}

// rootFileSystem returns the tar archive of a Debian root file system. It is created once, from the package sources of this
// machine.
func rootFileSystem(ctx context.Context, p project) (string, error) {
	release, err := debianRelease()
	if err != nil {
		return "", err
	}
	dir := p.state("cache", "base")
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(fmt.Appendln(nil, release, rootOptions)))[:16]+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return "", err
	}
	sources, err := debianSources(ctx)
	if err != nil {
		return "", err
	}
	proxies, err := aptProxies(ctx)
	if err != nil {
		return "", err
	}
	args := append(slices.Clone(rootOptions), proxies...)
	command := exec.CommandContext(ctx, "mmdebstrap", append(args, release, file+".new", "-")...)
	command.Stdin = strings.NewReader(sources)
	if err := runNoting("make the Debian root file system", command); err != nil {
		return "", err
	}
	return file, os.Rename(file+".new", file)
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
