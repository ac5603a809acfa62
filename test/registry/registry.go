// Package registry makes Ansible collections and Python packages for tests, and the files of a Galaxy server and a
// package index that offer them. Both are plain files: any web server that answers a folder with its index.html serves
// them.
package registry

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
)

// The addresses below a registry's own.
const (
	GalaxyPath = "/galaxy/"
	IndexPath  = "/simple/"
)

// Collection is an Ansible collection. The zero value of Files and Dependencies means none.
type Collection struct {
	Namespace, Name, Version string
	// Dependencies maps "namespace.name" to a version range.
	Dependencies map[string]string
	// Files by path relative to the collection's root.
	Files map[string]string
}

// FileName is the name that ansible-galaxy gives the archive.
func (c Collection) FileName() string {
	return c.Namespace + "-" + c.Name + "-" + c.Version + ".tar.gz"
}

// Archive builds the collection's archive. It panics if ansible-galaxy would not build it.
func (c Collection) Archive() []byte {
	metadata := must(json.Marshal(map[string]any{
		"namespace": c.Namespace, "name": c.Name, "version": c.Version, "readme": "README.md", "authors": []string{"test"},
		"dependencies": c.Dependencies,
	}))
	folder := fstest.MapFS{"galaxy.yml": {Data: metadata, Mode: 0o644}, "README.md": {Data: []byte("# Test\n"), Mode: 0o644}}
	for name, content := range c.Files {
		folder[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	}
	var archive bytes.Buffer
	if err := galaxy.Build(folder, &archive); err != nil {
		panic(fmt.Sprintf("collection %s.%s: %v", c.Namespace, c.Name, err))
	}
	return archive.Bytes()
}

// Package is a Python package with one module of its name, whose __version__ is the version.
type Package struct {
	Name, Version string
	// Requires are requirements such as "other>=1".
	Requires []string
}

func (p Package) module() string { return strings.ReplaceAll(p.Name, "-", "_") }

// FileName is the name of the package's wheel.
func (p Package) FileName() string { return p.module() + "-" + p.Version + "-py3-none-any.whl" }

// Wheel builds the package's wheel.
func (p Package) Wheel() []byte {
	info := p.module() + "-" + p.Version + ".dist-info/"
	metadata := "Metadata-Version: 2.1\nName: " + p.Name + "\nVersion: " + p.Version + "\n"
	for _, requirement := range p.Requires {
		metadata += "Requires-Dist: " + requirement + "\n"
	}
	files := []struct{ name, content string }{
		{p.module() + ".py", fmt.Sprintf("__version__ = %q\n", p.Version)},
		{info + "METADATA", metadata},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
	}
	record := ""
	for _, file := range files {
		sum := sha256.Sum256([]byte(file.content))
		record += fmt.Sprintf("%s,sha256=%s,%d\n", file.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(file.content))
	}
	files = append(files, struct{ name, content string }{info + "RECORD", record + info + "RECORD,,\n"})
	var wheel bytes.Buffer
	writer := zip.NewWriter(&wheel)
	for _, file := range files {
		w := must(writer.Create(file.name))
		must(w.Write([]byte(file.content)))
	}
	check(writer.Close())
	return wheel.Bytes()
}

// Files are the files of a Galaxy server and a package index at address, which has no slash at its end, by path.
func Files(address string, collections []Collection, packages []Package) map[string][]byte {
	files := map[string][]byte{
		"galaxy/index.html": marshal(map[string]any{"available_versions": map[string]string{"v3": "v3/"}}),
	}
	versions := map[string][]map[string]string{}
	for _, c := range collections {
		archive := c.Archive()
		folder := "galaxy/v3/collections/" + c.Namespace + "/" + c.Name + "/versions/"
		versions[folder] = append(versions[folder], map[string]string{"version": c.Version})
		files["galaxy/artifacts/"+c.FileName()] = archive
		files[folder+c.Version+"/index.html"] = marshal(map[string]any{
			"namespace": map[string]string{"name": c.Namespace}, "collection": map[string]string{"name": c.Name}, "version": c.Version,
			"href": "/" + folder + c.Version + "/", "download_url": address + "/galaxy/artifacts/" + c.FileName(),
			"artifact": map[string]any{"sha256": fmt.Sprintf("%x", sha256.Sum256(archive)), "filename": c.FileName(), "size": len(archive)},
			"metadata": map[string]any{"dependencies": orEmpty(c.Dependencies)}, "signatures": []string{},
		})
	}
	for folder, list := range versions {
		// ansible-galaxy uses the time only to see whether what it cached is old.
		files[strings.TrimSuffix(folder, "versions/")+"index.html"] = marshal(map[string]string{
			"created_at": "2025-01-01T00:00:00Z", "updated_at": "2025-01-01T00:00:00Z",
		})
		files[folder+"index.html"] = marshal(map[string]any{
			"meta": map[string]int{"count": len(list)}, "links": map[string]any{"next": nil}, "data": list,
		})
	}
	links := map[string]string{}
	for _, p := range packages {
		files["packages/"+p.FileName()] = p.Wheel()
		links[p.Name] += fmt.Sprintf("<a href=\"../../packages/%s\">%s</a>\n", p.FileName(), p.FileName())
	}
	for name, list := range links {
		files["simple/"+name+"/index.html"] = []byte("<!DOCTYPE html>\n<html><body>\n" + list + "</body></html>\n")
	}
	return files
}

// Handler serves files as any web server would.
func Handler(files map[string][]byte) http.Handler {
	folder := fstest.MapFS{}
	for name, content := range files {
		folder[name] = &fstest.MapFile{Data: content, Mode: 0o644}
	}
	return http.FileServerFS(folder)
}

// Tarball packs files, sorted by name, for a server elsewhere.
func Tarball(files map[string][]byte) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	writer := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		check(writer.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		must(writer.Write(files[name]))
	}
	check(writer.Close())
	check(zipped.Close())
	return packed.Bytes()
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func marshal(value any) []byte { return must(json.Marshal(value)) }

func must[T any](value T, err error) T {
	check(err)
	return value
}

// check panics: all input is the test's own.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
