package main

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// layer is an uncompressed tar archive. Its digest is both blob digest and diff ID.
type layer struct {
	File   string        `json:"file"`
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
}

// image is a list of layers with a configuration.
type image struct {
	name   string
	layers []layer
	config v1.ImageConfig
}

func (i image) reference() string { return imagePrefix + i.name + ":dev" }

// blob is a JSON blob of an image.
type blob struct {
	descriptor v1.Descriptor
	content    []byte
}

func newBlob(mediaType string, value any) (blob, error) {
	content, err := json.Marshal(value)
	return blob{v1.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content))}, content}, err
}

// describe returns configuration and manifest. They contain no timestamp, so that the same layers result in the same digest.
func (i image) describe() (config, manifest blob, err error) {
	description := v1.Image{
		Platform: v1.Platform{Architecture: runtime.GOARCH, OS: "linux"},
		Config:   i.config,
		RootFS:   v1.RootFS{Type: "layers"},
	}
	list := v1.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest}
	for _, l := range i.layers {
		description.RootFS.DiffIDs = append(description.RootFS.DiffIDs, l.Digest)
		list.Layers = append(list.Layers, v1.Descriptor{MediaType: v1.MediaTypeImageLayer, Digest: l.Digest, Size: l.Size})
	}
	if config, err = newBlob(v1.MediaTypeImageConfig, description); err != nil {
		return
	}
	list.Config = config.descriptor
	manifest, err = newBlob(v1.MediaTypeImageManifest, list)
	return
}

// archive writes an OCI image layout as a tar archive, without the layers in has.
func (i image) archive(w io.Writer, has map[digest.Digest]bool) error {
	config, manifest, err := i.describe()
	if err != nil {
		return err
	}
	manifest.descriptor.Annotations = map[string]string{"io.containerd.image.name": i.reference(), v1.AnnotationRefName: "dev"}
	index, err := newBlob(v1.MediaTypeImageIndex, v1.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{manifest.descriptor}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	add := func(name string, content []byte) error {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	err = errors.Join(
		add(v1.ImageLayoutFile, []byte(`{"imageLayoutVersion":"1.0.0"}`)),
		add(blobPath(config.descriptor.Digest), config.content),
		add(blobPath(manifest.descriptor.Digest), manifest.content),
	)
	for _, l := range i.layers {
		if err == nil && !has[l.Digest] {
			err = addFile(archive, l.File, &tar.Header{Typeflag: tar.TypeReg, Name: blobPath(l.Digest), Mode: 0o644})
		}
	}
	return errors.Join(err, add(v1.ImageIndexFile, index.content), archive.Close())
}

func blobPath(d digest.Digest) string {
	return path.Join(v1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func addFile(archive *tar.Writer, source string, header *tar.Header) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header.Size = info.Size()
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return err
}

// load imports the image into containerd, unless it is there.
func (n node) load(ctx context.Context, i image) error {
	_, manifest, err := i.describe()
	if err != nil {
		return err
	}
	images, err := n.ctr(ctx, "images", "list")
	if err != nil {
		return fmt.Errorf("containerd does not answer, run up first: %w", err)
	}
	if holdsImage(images, i.reference(), manifest.descriptor.Digest) {
		note("image %s is unchanged", i.reference())
		return nil
	}
	contents, err := n.ctr(ctx, "content", "list", "--quiet")
	if err != nil {
		return err
	}
	has := map[digest.Digest]bool{}
	for name := range strings.FieldsSeq(contents) {
		has[digest.Digest(name)] = true
	}
	reader, writer := io.Pipe()
	go func() { writer.CloseWithError(i.archive(writer, has)) }()
	command := exec.CommandContext(ctx, "ctr", "--address", n.containerdSocket(), "--namespace", "k8s.io", "images", "import", "--snapshotter", n.snapshotter(), "-")
	command.Stdin = reader
	err = runNoting("import "+i.reference(), command, lastLine)
	return errors.Join(err, reader.Close())
}

// holdsImage reports whether the output of ctr lists a reference with a digest.
func holdsImage(list, reference string, d digest.Digest) bool {
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == reference && fields[2] == d.String() {
			return true
		}
	}
	return false
}

func (n node) ctr(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "ctr", append([]string{"--address", n.containerdSocket(), "--namespace", "k8s.io"}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return string(output), nil
}

// entry is one file of a layer.
type entry struct {
	target string // path in the image, without the leading slash
	source string // file on this machine; or
	data   string // its content
}

// fileLayer creates a layer of executable files.
func fileLayer(p project, name string, entries ...entry) (layer, error) {
	return writeLayer(p, name, func(archive *tar.Writer) error {
		for _, e := range entries {
			header := &tar.Header{Typeflag: tar.TypeReg, Name: e.target, Mode: 0o755}
			if e.source != "" {
				if err := addFile(archive, e.source, header); err != nil {
					return err
				}
				continue
			}
			header.Size = int64(len(e.data))
			if err := archive.WriteHeader(header); err != nil {
				return err
			}
			if _, err := io.WriteString(archive, e.data); err != nil {
				return err
			}
		}
		return nil
	})
}

// writeLayer stores a layer under its image's name, and replaces an older one.
func writeLayer(p project, name string, fill func(*tar.Writer) error) (layer, error) {
	target := p.state("cache", "layers", name+".tar")
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return layer{}, err
	}
	file, err := os.Create(target + ".new")
	if err != nil {
		return layer{}, err
	}
	defer file.Close()
	sum := sha256.New()
	archive := tar.NewWriter(io.MultiWriter(file, sum))
	if err := errors.Join(fill(archive), archive.Close()); err != nil {
		return layer{}, fmt.Errorf("layer %s: %w", name, err)
	}
	info, err := file.Stat()
	if err != nil {
		return layer{}, err
	}
	return layer{File: target, Digest: digest.NewDigest(digest.SHA256, sum), Size: info.Size()}, os.Rename(target+".new", target)
}
