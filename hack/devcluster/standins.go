package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sync/errgroup"
)

const sshTarget = imagePrefix + "ssh-target"

// standIns makes the images that take the place of the Dockerfile's base images, under their names, and the image ssh-target, from
// files/standins, unless they were made from the same files and with the same settings. It returns when ansible-operator and what
// other images need are compiled.
func (b buildah) standIns(ctx context.Context, compiled <-chan struct{}) error {
	root, err := rootFileSystem(ctx, b.project)
	if err != nil {
		return err
	}
	names, err := b.baseImages()
	if err != nil {
		return err
	}
	folder := b.storage("standins")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(filepath.Dir(folder), 0o755)); err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := b.standInContext(folder, root); err != nil {
		return err
	}
	arguments, err := goVariables(ctx)
	if err != nil {
		return err
	}
	stamp, err := b.standInStamp(folder, root, names, arguments)
	if err != nil {
		return err
	}
	have, err := os.ReadFile(b.storage("standins.stamp"))
	if err == nil && string(have) == stamp && b.has(ctx, names["GO_IMAGE"], names["UBI_IMAGE"], names["ANSIBLE_OPERATOR"], sshTarget) {
		return await(ctx, compiled)
	}
	if err := b.build(ctx, imageBuild{context: folder, target: "ubi-minimal", name: names["UBI_IMAGE"]}); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, build := range []imageBuild{
		{context: folder, target: "ansible", name: imagePrefix + "ansible"},
		{context: folder, target: "ssh-target", name: sshTarget},
		{context: folder, target: "golang", name: names["GO_IMAGE"], arguments: arguments},
	} {
		group.Go(func() error { return b.build(groupCtx, build) })
	}
	if err := errors.Join(group.Wait(), await(ctx, compiled)); err != nil {
		return err
	}
	program, err := os.ReadFile(b.binary(ansibleOperator.name))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, ansibleOperator.name), program, 0o755); err != nil {
		return err
	}
	if err := b.build(ctx, imageBuild{context: folder, target: "ansible-operator", name: names["ANSIBLE_OPERATOR"]}); err != nil {
		return err
	}
	return writeFile(b.storage("standins.stamp"), stamp, 0o644)
}

// standInContext fills the folder that the stand-ins are built from.
func (b buildah) standInContext(folder, root string) error {
	authorities, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return errors.Join(
		os.CopyFS(folder, os.DirFS(b.source("files", "standins"))),
		os.WriteFile(filepath.Join(folder, "ca-certificates.crt"), authorities, 0o644),
		os.CopyFS(filepath.Join(folder, "operator_sdk_util"), os.DirFS(filepath.Join(b.root, "internal", "run", "engine", "operator_sdk_util"))),
		os.Link(root, filepath.Join(folder, "root.tar")),
	)
}

// standInStamp returns the digest of all that the stand-ins are made of. Large files are represented by their names, which
// contain a digest of their inputs, or their stamps.
func (b buildah) standInStamp(folder, root string, names map[string]string, arguments []string) (string, error) {
	operator, err := ansibleOperator.stamp(b.project)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintln(sum, filepath.Base(root), operator, names, arguments, b.driver())
	err = filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || entry.Name() == "root.tar" {
			return err
		}
		content, err := os.ReadFile(path)
		fmt.Fprintln(sum, path, len(content))
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)), err
}

// baseImages returns the base images that the Dockerfile names, by argument.
func (b buildah) baseImages() (map[string]string, error) {
	content, err := os.ReadFile(filepath.Join(b.root, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	names := readBaseImages(string(content))
	for _, argument := range []string{"GO_IMAGE", "UBI_IMAGE", "ANSIBLE_OPERATOR"} {
		if names[argument] == "" {
			return nil, fmt.Errorf("the Dockerfile has no line ARG %s=IMAGE:VERSION", argument)
		}
	}
	return names, nil
}

var baseImageLine = regexp.MustCompile(`(?m)^ARG ([A-Z_]+)=(\S+/\S+:\S+)$`)

func readBaseImages(dockerfile string) map[string]string {
	names := map[string]string{}
	for _, match := range baseImageLine.FindAllStringSubmatch(dockerfile, -1) {
		names[match[1]] = match[2]
	}
	return names
}
