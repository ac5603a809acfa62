package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// component is one binary, built from a Go module that a folder of this project pins.
type component struct {
	name    string
	folder  string // below hack/devcluster
	pkg     string
	version string // module whose version is stamped into the binary, if any
}

func kubernetesComponent(name string) component {
	return component{name: name, folder: "components/kubernetes", pkg: "k8s.io/kubernetes/cmd/" + name, version: "k8s.io/kubernetes"}
}

// oldestComponent is of the oldest supported version of Kubernetes. Its binary has a folder of its own, for KUBEBUILDER_ASSETS.
func oldestComponent(name string) component {
	c := kubernetesComponent(name)
	c.name, c.folder = "oldest/"+name, "components/kubernetes-oldest"
	return c
}

var (
	etcd              = component{name: "etcd", folder: "components/etcd", pkg: "go.etcd.io/etcd/server/v3"}
	coreDNS           = component{name: "coredns", folder: "components/coredns", pkg: "github.com/coredns/coredns"}
	ansibleOperator   = component{name: "ansible-operator", folder: "components/ansible-operator", pkg: "github.com/operator-framework/ansible-operator-plugins/cmd/ansible-operator"}
	pause             = component{name: "pause", folder: ".", pkg: "./pause"}
	apiServer         = kubernetesComponent("kube-apiserver")
	controllerManager = kubernetesComponent("kube-controller-manager")
	scheduler         = kubernetesComponent("kube-scheduler")
	kubelet           = kubernetesComponent("kubelet")
	kubeProxy         = kubernetesComponent("kube-proxy")
	kubectl           = kubernetesComponent("kubectl")

	// Specs run ansible-operator beside a control plane.
	controlPlaneComponents = []component{apiServer, controllerManager, kubectl, etcd, ansibleOperator}
	nodeComponents         = []component{scheduler, kubelet, kubeProxy, coreDNS, pause}
	oldestComponents       = []component{oldestComponent("kube-apiserver"), oldestComponent("kube-controller-manager")}
	olmComponents          = []component{olmComponent("olm", "olm"), olmComponent("olm-catalog", "catalog"), olmComponent("olm-package-server", "package-server")}
)

// buildOptions are the flags of the command build.
type buildOptions struct {
	controlPlaneOnly, oldest, olm, images bool
}

func buildCommand(ctx context.Context, p project, o buildOptions) error {
	wanted := controlPlaneComponents
	if !o.controlPlaneOnly {
		wanted = slices.Concat(wanted, nodeComponents)
	}
	if o.oldest {
		wanted = slices.Concat(wanted, oldestComponents)
	}
	if o.olm {
		wanted = slices.Concat(wanted, olmComponents)
	}
	if err := buildAll(ctx, p, wanted...); err != nil || !o.images {
		return err
	}
	return buildImages(ctx, p, nil, func(image) error { return nil })
}

// buildAll builds components that are missing or whose sources have changed.
func buildAll(ctx context.Context, p project, components ...component) error {
	for _, c := range components {
		if err := c.build(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// build keeps the binary while the stamp beside it names the same sources. Who
// wants it while another devcluster builds it waits for that one.
func (c component) build(ctx context.Context, p project) error {
	stamp, err := c.stamp(p)
	if err != nil || c.built(p, stamp) {
		return err
	}
	unlock, err := lock(p, "build-"+strings.ReplaceAll(c.name, "/", "-")+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	if c.built(p, stamp) {
		return nil
	}
	flags := "-s -w"
	if c.version != "" {
		if flags, err = c.versionFlags(p); err != nil {
			return err
		}
	}
	if err := goBuild(ctx, c.name, p.source(c.folder), p.binary(c.name), c.pkg, flags); err != nil {
		return err
	}
	return writeFile(c.stampFile(p), stamp, 0o644)
}

func (c component) stampFile(p project) string { return p.state("bin", ".stamps", c.name) }

func (c component) built(p project, stamp string) bool {
	have, err := os.ReadFile(c.stampFile(p))
	if err != nil || string(have) != stamp {
		return false
	}
	_, err = os.Stat(p.binary(c.name))
	return err == nil
}

// stamp returns the digest of all inputs of the binary.
func (c component) stamp(p project) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), c.pkg)
	files := []string{"go.mod", "go.sum"}
	if c.folder == "." {
		files = []string{filepath.Join(c.pkg, "main.go")}
	}
	for _, name := range files {
		content, err := os.ReadFile(p.source(c.folder, name))
		if err != nil {
			return "", err
		}
		sum.Write(content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// versionFlags returns linker flags with the module's version: clients reject a Kubernetes binary of version v0.0.0.
func (c component) versionFlags(p project) (string, error) {
	goMod, err := os.ReadFile(p.source(c.folder, "go.mod"))
	if err != nil {
		return "", err
	}
	version, err := requiredVersion(goMod, c.version)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.folder, err)
	}
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	flags := []string{"-s -w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			fmt.Sprintf("-X %s.gitVersion=%s", pkg, version),
			fmt.Sprintf("-X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, numbers[0], pkg, numbers[1]),
			fmt.Sprintf("-X %s.gitTreeState=clean", pkg))
	}
	return strings.Join(flags, " "), nil
}

var requireLine = regexp.MustCompile(`(?m)^\s*(?:require\s+)?(\S+)\s+(v\d+\.\d+\.\S+)\s*(?://.*)?$`)

func requiredVersion(goMod []byte, module string) (string, error) {
	for _, match := range requireLine.FindAllSubmatch(goMod, -1) {
		if string(match[1]) == module {
			return string(match[2]), nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}

// goBuild builds one static binary.
func goBuild(ctx context.Context, name, dir, output, pkg, ldflags string) error {
	command := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", ldflags, "-o", output, pkg)
	command.Dir = dir
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	return runNoting("build "+name, command)
}

// runNoting runs a command that may take minutes, and reports its progress.
func runNoting(what string, command *exec.Cmd) error {
	start := time.Now()
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	heartbeat := time.NewTicker(10 * time.Second)
	defer heartbeat.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", what, err, tail(output.String(), 30))
			}
			fmt.Fprintf(os.Stderr, "%s: %.0fs\n", what, time.Since(start).Seconds())
			return nil
		case <-heartbeat.C:
			fmt.Fprintf(os.Stderr, "%s ... %.0fs\n", what, time.Since(start).Seconds())
		}
	}
}

// tail returns the last lines of a text.
func tail(text string, lines int) string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
