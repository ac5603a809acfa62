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
	"time"
)

// rootOptions customize the root file system of the stand-ins.
var rootOptions = []string{
	"--mode=root", "--variant=minbase", "--format=tar", "--skip=output/dev", "--include=ca-certificates",
	`--aptopt=APT::Install-Recommends "false"`,
	"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
}

// rootFileSystem returns the tar archive of a Debian root file system. It is created once a month, from the package sources
// of this machine.
func rootFileSystem(ctx context.Context, p project) (string, error) {
	release, err := debianRelease()
	if err != nil {
		return "", err
	}
	dir := p.cache("base")
	file := filepath.Join(dir, fmt.Sprintf("%x", sha256.Sum256(fmt.Appendln(nil, release, rootOptions, time.Now().Format("2006-01"))))[:16]+".tar")
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
	if err := runNoting("make the Debian root file system", command, lastLine); err != nil {
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
		if sources, err := sourceLines(string(targets)); err != nil || sources != "" {
			return sources, err
		}
		if err := apt(ctx, "update"); err != nil { // The origin is only known after an update.
			return "", err
		}
	}
	return "", errors.New("apt has no source of Debian packages")
}

func sourceLines(targets string) (string, error) {
	var sources strings.Builder
	for line := range strings.Lines(targets) {
		if fields := strings.Split(strings.TrimSpace(line), "|"); len(fields) == 4 && fields[0] == "Debian" {
			site, err := remoteSite(fields[1])
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&sources, "deb %s %s %s\n", site, fields[2], fields[3])
		}
	}
	return sources.String(), nil
}

// remoteSite returns the URL of a source for another root file system, which has neither this machine's lists of mirrors
// (apt-transport-mirror(1)) nor its packages.
func remoteSite(site string) (string, error) {
	for _, scheme := range []string{"mirror+file:", "mirror+copy:"} {
		if list, ok := strings.CutPrefix(site, scheme); ok {
			mirror, err := firstMirror(filepath.Clean(list))
			if err != nil {
				return "", fmt.Errorf("apt source %s: %w", site, err)
			}
			site = mirror
		}
	}
	for _, scheme := range []string{"file:", "cdrom:", "copy:"} {
		if strings.HasPrefix(site, scheme) {
			return "", fmt.Errorf("apt source %s is only on this machine: name a mirror instead, with http: or https:, in /etc/apt/sources.list or /etc/apt/sources.list.d", site)
		}
	}
	return site, nil
}

func firstMirror(list string) (string, error) {
	content, err := os.ReadFile(list)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			return fields[0], nil
		}
	}
	return "", fmt.Errorf("%s names no mirror", list)
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
