package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

var searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// makeBase makes the layer below all images. Nobody else makes images until the caller unlocks.
func makeBase(ctx context.Context, p project) (base layer, unlock func(), err error) {
	if err := requireRoot(); err != nil {
		return layer{}, nil, err
	}
	if err := installPackages(ctx); err != nil {
		return layer{}, nil, err
	}
	if unlock, err = lock(p, "images.lock"); err != nil {
		return layer{}, nil, err
	}
	if base, err = baseLayer(ctx, p); err != nil {
		unlock()
		return layer{}, nil, err
	}
	return base, unlock, nil
}

// images builds and imports the named images, or all images.
func images(ctx context.Context, p project, only []string) error {
	if err := checkImageNames(only); err != nil {
		return err
	}
	base, unlock, err := makeBase(ctx, p)
	if err != nil {
		return err
	}
	defer unlock()
	manager, err := managerLayer(ctx, p)
	if err != nil {
		return err
	}
	// The base is imported as an image, so that its large layer is kept while the images based on it change.
	assemble := []struct {
		name string
		make func() (image, error)
	}{
		{"base", func() (image, error) { return baseImage(base), nil }},
		{"manager", func() (image, error) { return managerImage(base, manager), nil }},
		{"manager-next", func() (image, error) { return managerImage(base, manager).next(), nil }},
		{"runtime", func() (image, error) { return runtimeImage(ctx, p, base, manager) }},
		{"runtime-next", func() (image, error) {
			i, err := runtimeImage(ctx, p, base, manager)
			return i.next(), err
		}},
		{"ssh-target", func() (image, error) { return sshTargetImage(p, base) }},
	}
	n := newNode(p)
	for _, step := range assemble {
		if step.name != "base" && len(only) > 0 && !slices.Contains(only, step.name) {
			continue
		}
		if strings.HasPrefix(step.name, "manager") && manager == nil {
			fmt.Printf("image %s is skipped: there is no cmd/manager\n", step.name)
			continue
		}
		i, err := step.make()
		if err != nil {
			return fmt.Errorf("image %s: %w", step.name, err)
		}
		imported, err := n.load(ctx, i)
		if err != nil {
			return err
		}
		if !imported {
			fmt.Printf("image %s is unchanged\n", i.reference())
		}
	}
	return nil
}

func checkImageNames(names []string) error {
	known := []string{"base", "manager", "manager-next", "runtime", "runtime-next", "ssh-target"}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown image %q, there are: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// next returns the image under another name and with another digest, for tests that replace an image by a newer one.
func (i image) next() image {
	i.name += "-next"
	i.config.Env = append(slices.Clone(i.config.Env), "DEVCLUSTER_IMAGE=next")
	return i
}

func baseImage(base layer) image {
	return image{name: "base", layers: []layer{base}, config: v1.ImageConfig{Env: []string{searchPath}}}
}

// managerLayer builds the manager. It returns nil if there is no source.
func managerLayer(ctx context.Context, p project) (*layer, error) {
	if _, err := os.Stat(filepath.Join(p.root, "cmd", "manager")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	binary := p.state("cache", "manager")
	if err := goBuild(ctx, "manager", p.root, binary, "./cmd/manager", "-s -w"); err != nil {
		return nil, err
	}
	// One layer with both paths for the manager's and the runtime image: init containers of runtime pods run it too.
	l, err := fileLayer(p, "manager", entry{target: "manager", source: binary}, entry{target: "usr/local/bin/manager", source: binary})
	return &l, err
}

func managerImage(base layer, manager *layer) image {
	return image{
		name:   "manager",
		layers: []layer{base, *manager},
		config: v1.ImageConfig{User: "65532:0", Entrypoint: []string{"/manager"}, Env: []string{searchPath}},
	}
}

// runtimeImage returns an image of ansible-operator with the engine, for tests. The Dockerfile builds the released image
// from the same files.
func runtimeImage(ctx context.Context, p project, base layer, manager *layer) (image, error) {
	if err := buildAll(ctx, p, ansibleOperator); err != nil {
		return image{}, err
	}
	operator, err := fileLayer(p, "ansible-operator", entry{target: "usr/local/bin/ansible-operator", source: p.binary("ansible-operator")})
	if err != nil {
		return image{}, err
	}
	i := image{
		name:   "runtime",
		layers: []layer{base, operator},
		config: v1.ImageConfig{User: "1001:0", Entrypoint: []string{"/usr/local/bin/ansible-operator"}, Env: []string{searchPath}},
	}
	engine, environment, err := engineLayer(ctx, p)
	if err != nil {
		return image{}, err
	}
	if engine == nil {
		fmt.Println("image runtime lacks the engine: there is no internal/engine/install.sh")
	} else {
		i.layers = append(i.layers, *engine)
		i.config.Env = append(i.config.Env, environment...)
	}
	if manager == nil {
		fmt.Println("image runtime lacks the manager's binary: there is no cmd/manager")
	} else {
		i.layers = append(i.layers, *manager)
	}
	return i, nil
}

// engineLayer installs the engine into an empty folder.
func engineLayer(ctx context.Context, p project) (*layer, []string, error) {
	engine := filepath.Join(p.root, "internal", "engine")
	install := filepath.Join(engine, "install.sh")
	if _, err := os.Stat(install); errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	dir, err := os.MkdirTemp(p.state("cache"), "engine-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(dir)
	binary := p.state("cache", "engine")
	if err := goBuild(ctx, "engine", p.root, binary, "./cmd/engine", "-s -w"); err != nil {
		return nil, nil, err
	}
	if output, err := exec.CommandContext(ctx, "sh", install, dir, "--engine-binary", binary, "--with-operator-sdk-util").CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w\n%s", install, err, tail(string(output), 20))
	}
	l, err := treeLayer(p, "engine", dir)
	if err != nil {
		return nil, nil, err
	}
	environment, err := os.ReadFile(filepath.Join(engine, "env"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	return &l, environmentLines(string(environment)), nil
}

// environmentLines reads KEY=VALUE lines; empty ones and # comments are skipped.
func environmentLines(content string) []string {
	var environment []string
	for line := range strings.Lines(content) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			environment = append(environment, line)
		}
	}
	return environment
}

// sshTargetImage returns an image of an SSH server with one user, as a substitute for a z/OS host.
func sshTargetImage(p project, base layer) (image, error) {
	script, err := fileLayer(p, "ssh-target", entry{target: "usr/local/bin/ssh-target", data: embedded("ssh-target.sh")})
	return image{
		name:   "ssh-target",
		layers: []layer{base, script},
		config: v1.ImageConfig{User: "0:0", Entrypoint: []string{"/usr/local/bin/ssh-target"}, Env: []string{searchPath}},
	}, err
}

// importPause imports the pause image of pods.
func importPause(ctx context.Context, n node) error {
	binary, err := fileLayer(n.project, "pause", entry{target: "pause", source: n.binary("pause")})
	if err != nil {
		return err
	}
	_, err = n.load(ctx, image{
		name:   "pause",
		layers: []layer{binary},
		config: v1.ImageConfig{User: "65535:65535", Entrypoint: []string{"/pause"}},
	})
	return err
}
