package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// namespace is the one of the manifests.
const namespace = "collection-operator-system"

// manifests builds the manifests of a folder like config.
type manifests struct{ files filesys.FileSystem }

// readManifests reads the kustomizations and manifests of a folder.
func readManifests(folder string) (manifests, error) {
	files := filesys.MakeFsInMemory()
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		return files.WriteFile("/config/"+path, content)
	})
	return manifests{files}, err
}

// build returns the objects of config/default with components, by kind, namespace and name.
func (m manifests) build(components ...string) (map[string]any, error) {
	overlay := "resources: [../config/default]\ncomponents: ["
	for _, component := range components {
		overlay += "../config/components/" + component + ", "
	}
	if err := m.files.WriteFile("/overlay/kustomization.yaml", []byte(overlay+"]\n")); err != nil {
		return nil, err
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(m.files, "/overlay")
	if err != nil {
		return nil, fmt.Errorf("components %v: %w", components, err)
	}
	objects := map[string]any{}
	for _, resource := range built.Resources() {
		object, err := resource.Map()
		if err != nil {
			return nil, err
		}
		objects[strings.Join([]string{resource.GetKind(), resource.GetNamespace(), resource.GetName()}, "/")] = object
	}
	return objects, nil
}

// componentFolders returns the names of the components, sorted.
func (m manifests) componentFolders() ([]string, error) {
	folders, err := m.files.ReadDir("/config/components")
	slices.Sort(folders)
	return folders, err
}
