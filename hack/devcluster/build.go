package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// component is one binary, built from a Go module that a folder of this project pins.
type component struct {
	name   string
	folder string // below hack/devcluster
	pkg    string // a path of the module, or of a package of the folder, which begins with a dot
}

// clusterFolder pins Kubernetes, etcd and CoreDNS, with the versions of the product where both use a module: each package is
// compiled once.
const clusterFolder = "components/cluster"

func kubernetesComponent(name string) component {
	return component{name: name, folder: clusterFolder, pkg: "k8s.io/kubernetes/cmd/" + name}
}

// oldestComponent is of the oldest supported version of Kubernetes. Its binary has a folder of its own, for KUBEBUILDER_ASSETS.
func oldestComponent(name string) component {
	c := kubernetesComponent(name)
	c.name, c.folder = "oldest/"+name, "components/kubernetes-oldest"
	return c
}

var (
	etcd              = component{name: "etcd", folder: clusterFolder, pkg: "go.etcd.io/etcd/server/v3"}
	coreDNS           = component{name: "coredns", folder: clusterFolder, pkg: "./coredns"}
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
	return buildImages(ctx, p, nil, make(chan struct{}), func(context.Context, image) error { return nil })
}

// buildAll builds the components that are missing or whose sources have changed. It waits for builds of other devcluster
// commands: a package that both need is then compiled once.
func buildAll(ctx context.Context, p project, components ...component) error {
	wanted, err := missing(p, components)
	if err != nil || len(wanted) == 0 {
		return err
	}
	unlock, err := lock(p.state("build.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if wanted, err = missing(p, wanted); err != nil {
		return err
	}
	folders := map[string][]component{}
	for _, c := range wanted {
		folders[c.folder] = append(folders[c.folder], c)
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if err := buildFolder(ctx, p, folder, folders[folder]); err != nil {
			return err
		}
	}
	return nil
}

// buildFolder builds the components of a folder together: the compiler then has work for all cores until the last program is
// linked.
func buildFolder(ctx context.Context, p project, folder string, components []component) error {
	goMod, err := os.ReadFile(p.source(folder, "go.mod"))
	if err != nil {
		return err
	}
	var names, packages, stamps []string
	for _, c := range components {
		stamp, err := c.stamp(p)
		if err != nil {
			return err
		}
		names, packages, stamps = append(names, c.name), append(packages, c.pkg), append(stamps, stamp)
	}
	note("build %s", strings.Join(names, ", "))
	built := p.state("bin", ".built")
	if err := goBuild(ctx, filepath.Base(p.source(folder)), p.source(folder), packages, "-ldflags", linkerFlags(goMod), "-o", built+"/"); err != nil {
		return err
	}
	for i, c := range components {
		output, binary := filepath.Join(built, c.output()), p.binary(c.name)
		if err := errors.Join(setTime(output, stamps[i]), os.MkdirAll(filepath.Dir(binary), 0o755), os.Rename(output, binary), writeFile(c.stampFile(p), stamps[i], 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// setTime sets the time of a file's last change to one that follows from its stamp: Go keeps the result of a test for as long as the
// programs that the test has looked for have the same times, also in the next clone in the same folder.
func setTime(file, stamp string) error {
	seconds, err := strconv.ParseInt(stamp[:7], 16, 64)
	if err != nil {
		return err
	}
	t := time.Unix(1_000_000_000+seconds, 0)
	return os.Chtimes(file, t, t)
}

// missing returns the components that are not there, or were built from other sources.
func missing(p project, components []component) ([]component, error) {
	var wanted []component
	for _, c := range components {
		stamp, err := c.stamp(p)
		if err != nil {
			return nil, err
		}
		if !c.built(p, stamp) {
			wanted = append(wanted, c)
		}
	}
	return wanted, nil
}

// output returns the name that go gives the binary: the last element of its path that is not a major version.
func (c component) output() string {
	folder, name := path.Split(c.pkg)
	if majorVersion.MatchString(name) {
		return path.Base(folder)
	}
	return name
}

var majorVersion = regexp.MustCompile(`^v\d+$`)

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
	if strings.HasPrefix(c.pkg, "./") {
		files = append(files, filepath.Join(c.pkg, "main.go"))
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

// linkerFlags leave out debugging information. Programs of a module that requires Kubernetes get its version: clients reject a
// Kubernetes binary of version v0.0.0.
func linkerFlags(goMod []byte) string {
	flags := []string{"-s -w"}
	version, err := requiredVersion(goMod, "k8s.io/kubernetes")
	if err != nil {
		return flags[0]
	}
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		flags = append(flags,
			fmt.Sprintf("-X %s.gitVersion=%s", pkg, version),
			fmt.Sprintf("-X %s.gitMajor=%s -X %s.gitMinor=%s", pkg, numbers[0], pkg, numbers[1]),
			fmt.Sprintf("-X %s.gitTreeState=clean", pkg))
	}
	return strings.Join(flags, " ")
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

// goBuild builds packages of the module in a folder, with the flags of the Makefile: what others have compiled is not compiled
// again.
func goBuild(ctx context.Context, name, folder string, packages []string, flags ...string) error {
	command := func(args ...string) *exec.Cmd {
		args = slices.Concat(args, []string{"-mod=readonly", "-buildvcs=false", "-trimpath"}, packages)
		command := exec.CommandContext(ctx, "go", args...)
		command.Dir = folder
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		return command
	}
	var stale bytes.Buffer
	list := command("list", "-deps", "-f={{if .Stale}}{{.ImportPath}}{{end}}")
	list.Stdout = &stale
	if err := runNoting("download modules of "+name, list, downloadProgress()); err != nil {
		return err
	}
	total := len(bytes.Fields(stale.Bytes()))
	return runNoting("compile "+name, command(append([]string{"build", "-v"}, flags...)...), compileProgress(total))
}
