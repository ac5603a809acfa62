package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// InstallOptions say which archive is installed in a runtime pod, and where.
type InstallOptions struct {
	DownloadOptions
	// ContentDir takes the archive's content; whatever it holds before is deleted. It must be an absolute path.
	ContentDir string
	// CollectionsDir is an entry of Ansible's collections path.
	CollectionsDir string
	// Namespace and Name are the collection's Galaxy namespace and name.
	Namespace, Name string
	// Limits bound the archive's content; the zero value means archive.DefaultLimits.
	Limits archive.Limits
}

// Galaxy allows no other names; a path made of them stays in its folder.
var galaxyName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Install downloads an archive, unpacks it into ContentDir, and makes the content visible as a collection through the
// link <CollectionsDir>/ansible_collections/<Namespace>/<Name>. It can be repeated. If it fails, ContentDir is empty
// or as it was before.
func Install(ctx context.Context, options InstallOptions) error {
	if !galaxyName.MatchString(options.Namespace) || !galaxyName.MatchString(options.Name) {
		return fmt.Errorf("install collection: %q is not the name of a Galaxy collection: want lower-case letters, digits and underscores",
			options.Namespace+"."+options.Name)
	}
	if !filepath.IsAbs(options.ContentDir) {
		return fmt.Errorf("install collection: the content directory %q is not an absolute path", options.ContentDir)
	}
	file, err := Download(ctx, options.DownloadOptions)
	if err != nil {
		return err
	}
	if err = unpack(file.Path, options); err != nil {
		err = fmt.Errorf("unpack artifact %s: %w", options.Digest, err)
	} else if err = linkCollection(options); err != nil {
		err = fmt.Errorf("link collection: %w", err)
	}
	return errors.Join(err, file.Remove())
}

func unpack(path string, options InstallOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(options.ContentDir, directoryMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(options.ContentDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := empty(root); err != nil {
		return fmt.Errorf("empty %s: %w", options.ContentDir, err)
	}
	if err := archive.Extract(f, root, options.Limits); err != nil {
		return errors.Join(err, empty(root))
	}
	return nil
}

// empty deletes what is in a directory, not the directory, which may be a mount point.
func empty(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := root.RemoveAll(entry.Name()); err != nil {
			return err
		}
	}
	return nil
}

func linkCollection(options InstallOptions) error {
	parent := filepath.Join(options.CollectionsDir, "ansible_collections", options.Namespace)
	link := filepath.Join(parent, options.Name)
	if err := os.MkdirAll(parent, directoryMode); err != nil {
		return err
	}
	info, err := os.Lstat(link)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSymlink:
		return fmt.Errorf("%s exists and is not a symbolic link", link)
	case err == nil:
		err = os.Remove(link)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	return os.Symlink(options.ContentDir, link)
}
