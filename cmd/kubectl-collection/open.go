package main

import (
	"fmt"
	"io/fs"
	"os"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/collection"
)

// open returns the content of an author's folder or of an archive. Of an archive it holds what [collection.Load] reads.
func open(path string) (fs.FS, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		root, err := os.OpenRoot(path)
		if err != nil {
			return nil, err
		}
		return root.FS(), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := archive.Read(f, archive.DefaultLimits, collection.NewKeep())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return files, nil
}
