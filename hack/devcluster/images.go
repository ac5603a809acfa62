package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

var searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// builtImages are the images that are built from Dockerfiles: by name, the target.
var builtImages = []struct{ name, target string }{
	{"manager", "manager"},
	{"manager-next", "manager-minimal"},
	{"runtime", "runtime"},
	{"runtime-next", "runtime"},
	{"ssh-target", "ssh-target"},
}

// images builds and imports the named images, or all images.
func images(ctx context.Context, p project, only []string) error {
	return buildImages(ctx, p, only, make(chan struct{}), func(ctx context.Context, i image) error { return newNode(p).load(ctx, i) })
}

// buildImages builds the named images, or all images, and calls a function with each. It closes a channel when what the images
// contain is compiled. Meanwhile it makes the stand-ins, which waits for package servers and the disk.
func buildImages(ctx context.Context, p project, only []string, compiled chan struct{}, use func(context.Context, image) error) error {
	if err := errors.Join(checkImageNames(only), requireRoot()); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := buildAll(ctx, p, ansibleOperator); err != nil {
			return err
		}
		// Programs are linked in the build stage of the Dockerfile.
		if err := goBuild(ctx, "Collection Operator", p.root, []string{"./api/...", "./internal/..."}); err != nil {
			return err
		}
		close(compiled)
		return nil
	})
	group.Go(func() error { return assembleImages(ctx, p, only, compiled, use) })
	return group.Wait()
}

// assembleImages makes the stand-ins, and the named images on them. Nobody else makes images meanwhile.
func assembleImages(ctx context.Context, p project, only []string, compiled <-chan struct{}, use func(context.Context, image) error) error {
	if err := installPackages(ctx, p); err != nil {
		return err
	}
	unlock, err := lock(p.cache("images.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	b := buildah{p}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.standIns(ctx, compiled); err != nil {
		return err
	}
	if err := b.buildPrograms(ctx); err != nil {
		return err
	}
	built, uses := map[string]image{}, errgroup.Group{}
	uses.SetLimit(1) // An image is imported while the next one is built.
	for _, wanted := range builtImages {
		if len(only) > 0 && !slices.Contains(only, wanted.name) {
			continue
		}
		i, ok := built[wanted.target]
		if !ok {
			if i, err = b.imageOf(ctx, wanted.target); err != nil {
				return errors.Join(fmt.Errorf("image %s: %w", wanted.name, err), uses.Wait())
			}
			built[wanted.target] = i
		}
		uses.Go(func() error { return use(ctx, i.named(wanted.name)) })
	}
	return errors.Join(uses.Wait(), b.prune(ctx), b.sweep())
}

// named returns the image under a name, and with another digest if the name is that of the next image.
func (i image) named(name string) image {
	if name == i.name+"-next" {
		i.config.Env = append(slices.Clone(i.config.Env), "DEVCLUSTER_IMAGE=next")
	}
	i.name = name
	return i
}

func checkImageNames(names []string) error {
	var known []string
	for _, built := range builtImages {
		known = append(known, built.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return fmt.Errorf("unknown image %q, there are: %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}

// buildPrograms builds the first stage of the Dockerfile, with the Go toolchain and caches of this machine. Later stages are
// built without: what is mounted leaves empty folders in an image.
func (b buildah) buildPrograms(ctx context.Context) error {
	download := exec.CommandContext(ctx, "go", "mod", "download") // The build may have no network.
	download.Dir = b.root
	if err := runNoting("download modules for images", download, lastLine); err != nil {
		return err
	}
	volumes, err := goVolumes(ctx)
	if err != nil {
		return err
	}
	return b.build(ctx, imageBuild{context: b.root, target: "build", name: imagePrefix + "build", volumes: volumes})
}

// imageOf builds a target of the Dockerfile. The image ssh-target is made with the stand-ins.
func (b buildah) imageOf(ctx context.Context, target string) (image, error) {
	build := imageBuild{context: b.root, target: target, name: imagePrefix + target}
	switch target {
	case "ssh-target":
		i, err := b.export(ctx, build.name)
		return i, errors.Join(err, i.validBytecode())
	case "runtime":
		build.arguments = []string{"OPERATOR_SDK_UTIL=/usr/share/galaxy/operator_sdk/util", "KUBERNETES_CORE=/usr/share/galaxy/kubernetes/core"}
	}
	if err := b.build(ctx, build); err != nil {
		return image{}, err
	}
	i, err := b.export(ctx, build.name)
	if err != nil || target == "manager-minimal" { // It is not based on UBI, as certification requires.
		return i, err
	}
	return i, errors.Join(i.certifiable(), i.validBytecode())
}

// requiredLabels are those of Red Hat's certification. Those of the base image are not ours.
var requiredLabels = []string{"name", "vendor", "maintainer", "version", "release", "summary", "description"}

// certifiable returns what Red Hat's tool preflight would object to in the description of an image.
func (i image) certifiable() error {
	var problems []error
	for _, name := range requiredLabels {
		value := i.config.Labels[name]
		if value == "" {
			problems = append(problems, fmt.Errorf("the image has no label %s", name))
		}
		if strings.Contains(strings.ToLower(value), "red hat") {
			problems = append(problems, fmt.Errorf("label %s of the image is %q: preflight refuses the trademark", name, value))
		}
	}
	if user, _, _ := strings.Cut(i.config.User, ":"); user == "" || user == "0" || user == "root" {
		problems = append(problems, fmt.Errorf("the image runs as root: its user is %q", i.config.User))
	}
	if len(i.layers) > 40 {
		problems = append(problems, fmt.Errorf("the image has %d layers: preflight allows 40", len(i.layers)))
	}
	return errors.Join(problems...)
}

// importPause imports the pause image of pods.
func importPause(ctx context.Context, n node) error {
	binary, err := fileLayer(n.project, "pause", entry{target: "pause", source: n.binary("pause")})
	if err != nil {
		return err
	}
	return n.load(ctx, image{
		name:   "pause",
		layers: []layer{binary},
		config: v1.ImageConfig{User: "65535:65535", Entrypoint: []string{"/pause"}},
	})
}
