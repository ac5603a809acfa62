package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// buildah builds images from Dockerfiles, as root and without a registry. Its storage is a cache that all checkouts share: what it
// is made of is the same in most of them, and takes minutes.
type buildah struct{ project }

// imageBuild is one call of `buildah build`.
type imageBuild struct {
	context   string // folder with the Dockerfile
	target    string
	name      string   // of the image
	arguments []string // ARG=VALUE
	volumes   []string // mounted while commands run, as HOST:CONTAINER[:ro]
}

func (b buildah) storage(elements ...string) string {
	return b.cache(append([]string{"containers"}, elements...)...)
}

func (b buildah) configuration() string { return b.state("containers", "storage.conf") }

// driver is the name of the storage driver.
func (b buildah) driver() string {
	if onOverlay(b.storage()) {
		return "vfs"
	}
	return "overlay"
}

// prepare writes the configuration of the storage, and removes what interrupted builds left. Without skip_mount_home a mount
// would stay behind.
func (b buildah) prepare(ctx context.Context) error {
	if err := os.MkdirAll(b.storage("tmp"), 0o755); err != nil {
		return err
	}
	configuration := fmt.Sprintf("[storage]\ndriver = %q\ngraphroot = %q\nrunroot = %q\n[storage.options.overlay]\nskip_mount_home = \"true\"\n",
		b.driver(), b.storage("images"), b.storage("run"))
	if err := writeFile(b.configuration(), configuration, 0o644); err != nil {
		return err
	}
	return b.run(ctx, "rm", "--all")
}

// unmount unmounts what interrupted builds left, after a build that is running.
func (b buildah) unmount() error {
	unlock, err := lock(b.cache("images.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	return unmountBelow(b.storage())
}

// command gives buildah time to end the commands that it runs when the context is cancelled.
func (b buildah) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, "buildah", args...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 10 * time.Second
	command.Env = append(os.Environ(), "CONTAINERS_STORAGE_CONF="+b.configuration(), "BUILDAH_ISOLATION=chroot", "TMPDIR="+b.storage("tmp"))
	return command
}

// build builds an image. Instructions whose inputs are unchanged are not run again. Times are those of 1970, so that the same
// content results in the same digest.
func (b buildah) build(ctx context.Context, i imageBuild) error {
	args := []string{"build", "--pull-never", "--layers", "--timestamp=0", "--target=" + i.target, "--tag=" + i.name}
	for _, argument := range i.arguments {
		args = append(args, "--build-arg="+argument)
	}
	for _, volume := range i.volumes {
		args = append(args, "--volume="+volume)
	}
	return runNoting("build image "+i.name, b.command(ctx, append(args, i.context)...), imageProgress())
}

func (b buildah) run(ctx context.Context, args ...string) error {
	if output, err := b.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("buildah %s: %w\n%s", strings.Join(args, " "), err, tail(string(output), 5))
	}
	return nil
}

// has reports whether the storage has all images.
func (b buildah) has(ctx context.Context, names ...string) bool {
	for _, name := range names {
		if b.run(ctx, "inspect", "--type=image", name) != nil {
			return false
		}
	}
	return true
}

// prune removes what no image needs any more.
func (b buildah) prune(ctx context.Context) error {
	return b.run(ctx, "rmi", "--prune")
}

// layout is the folder of an image that was built, an OCI image layout. All share the folder blobs beside them.
func (b buildah) layout(name string, elements ...string) string {
	return b.state(append([]string{"cache", "oci", name}, elements...)...)
}

func (b buildah) blob(d digest.Digest) string {
	return b.layout(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

// export writes an image to its layout, unless it is there, and reads its description.
func (b buildah) export(ctx context.Context, reference string) (image, error) {
	name := filepath.Base(reference)
	output, err := b.command(ctx, "inspect", "--type=image", "--format={{.FromImageID}}", reference).Output()
	if err != nil {
		return image{}, fmt.Errorf("buildah inspect %s: %w", reference, err)
	}
	id := b.layout(name, "id")
	if have, err := os.ReadFile(id); err == nil && string(have) == string(output) {
		return b.read(name)
	}
	folder := b.state("cache", "export")
	defer os.RemoveAll(folder)
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return image{}, err
	}
	push := b.command(ctx, "push", "--disable-compression", "--format=oci", reference, "dir:"+folder)
	if err := runNoting("export "+reference, push, lastLine); err != nil {
		return image{}, err
	}
	if err := b.adopt(name, folder); err != nil {
		return image{}, err
	}
	if err := writeFile(id, string(output), 0o644); err != nil {
		return image{}, err
	}
	return b.read(name)
}

// adopt moves what buildah has exported to a folder, in which files are named by their digests, to the layout of an image.
func (b buildah) adopt(name, folder string) error {
	content, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		return err
	}
	var list v1.Manifest
	if err := json.Unmarshal(content, &list); err != nil {
		return err
	}
	if err := os.MkdirAll(b.layout(v1.ImageBlobsDir, "sha256"), 0o755); err != nil {
		return err
	}
	moved := map[digest.Digest]bool{} // An image may have the same layer twice.
	for _, part := range append(list.Layers, list.Config) {
		if moved[part.Digest] {
			continue
		}
		moved[part.Digest] = true
		if err := os.Rename(filepath.Join(folder, part.Digest.Encoded()), b.blob(part.Digest)); err != nil {
			return err
		}
	}
	manifest := v1.Descriptor{MediaType: v1.MediaTypeImageManifest, Digest: digest.FromBytes(content), Size: int64(len(content))}
	index, err := newBlob(v1.MediaTypeImageIndex, v1.Index{Versioned: list.Versioned, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{manifest}})
	if err != nil {
		return err
	}
	return errors.Join(
		os.RemoveAll(b.layout(name)),
		writeFile(b.blob(manifest.Digest), string(content), 0o644),
		writeFile(b.layout(name, v1.ImageLayoutFile), `{"imageLayoutVersion":"1.0.0"}`, 0o644),
		writeFile(b.layout(name, v1.ImageIndexFile), string(index.content), 0o644),
		os.Symlink(filepath.Join("..", v1.ImageBlobsDir), b.layout(name, v1.ImageBlobsDir)),
	)
}

// manifest reads the only manifest of a layout.
func (b buildah) manifest(name string) (digest.Digest, v1.Manifest, error) {
	var index v1.Index
	var list v1.Manifest
	if err := readJSON(b.layout(name, v1.ImageIndexFile), &index); err != nil {
		return "", list, err
	}
	if len(index.Manifests) != 1 {
		return "", list, fmt.Errorf("%s has %d images", b.layout(name), len(index.Manifests))
	}
	d := index.Manifests[0].Digest
	return d, list, readJSON(b.blob(d), &list)
}

func (b buildah) read(name string) (image, error) {
	_, list, err := b.manifest(name)
	if err != nil {
		return image{}, err
	}
	var description v1.Image
	if err := readJSON(b.blob(list.Config.Digest), &description); err != nil {
		return image{}, err
	}
	i := image{name: name, config: description.Config}
	for _, l := range list.Layers {
		if l.MediaType != v1.MediaTypeImageLayer {
			return image{}, fmt.Errorf("image %s has a layer of type %s", name, l.MediaType)
		}
		i.layers = append(i.layers, layer{File: b.blob(l.Digest), Digest: l.Digest, Size: l.Size})
	}
	return i, nil
}

// sweep removes blobs that belong to no image.
func (b buildah) sweep() error {
	layouts, err := filepath.Glob(b.layout("*", v1.ImageIndexFile))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, index := range layouts {
		d, list, err := b.manifest(filepath.Base(filepath.Dir(index)))
		if err != nil {
			return err
		}
		used[d.Encoded()], used[list.Config.Digest.Encoded()] = true, true
		for _, l := range list.Layers {
			used[l.Digest.Encoded()] = true
		}
	}
	return filepath.WalkDir(b.layout(v1.ImageBlobsDir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || used[entry.Name()] {
			return err
		}
		return os.Remove(path)
	})
}

func readJSON(path string, into any) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// goVariables are the Go version of this machine and its settings for downloads of modules, as build arguments.
func goVariables(ctx context.Context) ([]string, error) {
	names := []string{"GOVERSION", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE"}
	values, err := goEnvironment(ctx, names...)
	for i := range values {
		values[i] = names[i] + "=" + values[i]
	}
	return values, err
}

// goVolumes are the Go toolchain and caches of this machine, where the official Go image has them.
func goVolumes(ctx context.Context) ([]string, error) {
	values, err := goEnvironment(ctx, "GOROOT", "GOCACHE", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	return []string{values[0] + ":/usr/local/go:ro", values[1] + ":/root/.cache/go-build", values[2] + ":/go/pkg/mod"}, nil
}

// goEnvironment returns the values of variables, in this order.
func goEnvironment(ctx context.Context, names ...string) ([]string, error) {
	output, err := exec.CommandContext(ctx, "go", append([]string{"env"}, names...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	values := strings.Split(strings.TrimSuffix(string(output), "\n"), "\n")
	if len(values) != len(names) {
		return nil, fmt.Errorf("go env prints %d values for %d variables", len(values), len(names))
	}
	return values, nil
}
