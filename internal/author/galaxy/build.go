package galaxy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// manifestFormat is the version of the layout of MANIFEST.json and FILES.json that ansible-core knows.
const manifestFormat = 1

// maxBuildDepth keeps a folder with a circle of links from being walked forever.
const maxBuildDepth = 64

// Build writes the archive (tar.gz) of the collection whose folder is fsys: what `ansible-galaxy collection build`
// puts into one, with the same MANIFEST.json and FILES.json. The same folder gives the same bytes.
//
// Files are left out that ansible-galaxy leaves out and that match galaxy.yml's build_ignore. Links are followed; give
// the FS of an [os.Root] where they must not lead out of the folder. Manifest directives are not supported. A
// galaxy.yml that breaks rules, and a file that cannot be put into an archive, give an error of type [findings.Problems]; nothing
// is written then.
func Build(fsys fs.FS, w io.Writer) error {
	galaxy, problems, err := readMetadata(fsys)
	if err != nil {
		return err
	}
	if len(problems.WithSeverity(findings.SeverityError)) > 0 {
		return problems
	}
	list := &fileList{fsys: fsys, ignore: newIgnoreList(galaxy), Files: []model.FileEntry{{Name: ".", Type: model.TypeFolder, Format: manifestFormat}}, Format: manifestFormat}
	if err := list.addFolder(".", 0); err != nil {
		return fmt.Errorf("list the collection's files: %w", err)
	}
	files, err := marshal(list)
	if err != nil {
		return err
	}
	manifest, err := marshal(newManifest(galaxy, files))
	if err != nil {
		return err
	}
	content := archive.Overlay{FS: fsys, Files: map[string][]byte{model.ManifestFile: manifest, model.FilesFile: files}}
	names := []string{model.ManifestFile, model.FilesFile}
	for _, entry := range list.Files[1:] {
		names = append(names, entry.Name)
	}
	if err := archive.Write(w, content, names); err != nil {
		return fmt.Errorf("build the collection's archive: %w", err)
	}
	return nil
}

// fileList is FILES.json. The order of its fields, and of those of the types below, is that of ansible-galaxy.
type fileList struct {
	Files  []model.FileEntry `json:"files"`
	Format int               `json:"format"`

	fsys   fs.FS
	ignore ignoreList
}

type manifestContent struct {
	Info   manifestInfo    `json:"collection_info"`
	Files  model.FileEntry `json:"file_manifest_file"`
	Format int             `json:"format"`
}

type manifestInfo struct {
	Namespace     string            `json:"namespace"`
	Name          string            `json:"name"`
	Version       string            `json:"version"`
	Authors       []string          `json:"authors"`
	Readme        string            `json:"readme"`
	Tags          []string          `json:"tags"`
	Description   *string           `json:"description"`
	License       []string          `json:"license"`
	LicenseFile   *string           `json:"license_file"`
	Dependencies  map[string]string `json:"dependencies"`
	Repository    *string           `json:"repository"`
	Documentation *string           `json:"documentation"`
	Homepage      *string           `json:"homepage"`
	Issues        *string           `json:"issues"`
}

func newManifest(g metadata, files []byte) manifestContent {
	sum := sha256.Sum256(files)
	info := manifestInfo{
		Namespace: g.Namespace, Name: g.Name, Version: g.Version,
		Authors: append([]string{}, g.Authors...), Readme: g.readme, Tags: append([]string{}, g.Tags...), Description: optional(g.Description),
		License: append([]string{}, g.License...), LicenseFile: optional(g.licenseFile), Dependencies: g.Dependencies,
		Repository: optional(g.Repository), Documentation: optional(g.Documentation), Homepage: optional(g.Homepage), Issues: optional(g.Issues),
	}
	if info.Dependencies == nil {
		info.Dependencies = map[string]string{}
	}
	return manifestContent{Info: info, Files: checkedEntry(model.FilesFile, sum[:]), Format: manifestFormat}
}

// optional is null for a text that the author left out.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func checkedEntry(name string, sum []byte) model.FileEntry {
	return model.FileEntry{Name: name, Type: model.TypeFile, ChecksumType: new("sha256"), SHA256: new(hex.EncodeToString(sum)), Format: manifestFormat}
}

// addFolder adds what is below a folder, in the order of names.
func (l *fileList) addFolder(folder string, depth int) error {
	if depth > maxBuildDepth {
		return unpackable(folder, "lies more than %d folders deep; is there a circle of links?", maxBuildDepth)
	}
	entries, err := fs.ReadDir(l.fsys, folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(folder, entry.Name())
		if l.ignore.matches(name, entry.IsDir()) {
			continue
		}
		info, err := fs.Stat(l.fsys, name)
		switch {
		case model.IsAbsent(err):
			return unpackable(name, "is a link that leads nowhere; remove it or add it to build_ignore")
		case err != nil && l.leadsOut(name):
			return unpackable(name, "is a link that leads out of the folder; put the file there itself, remove the link or add it to build_ignore")
		case err != nil:
			return err
		case l.ignore.matches(name, info.IsDir()):
		case info.IsDir():
			l.Files = append(l.Files, model.FileEntry{Name: name, Type: model.TypeFolder, Format: manifestFormat})
			err = l.addFolder(name, depth+1)
		case info.Mode().IsRegular():
			err = l.addFile(name)
		default:
			err = unpackable(name, "is neither a file nor a folder; remove it or add it to build_ignore")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// leadsOut reports whether name is a link to a place outside of the folder, which the FS of an [os.Root] does not follow.
func (l *fileList) leadsOut(name string) bool {
	target, err := fs.ReadLink(l.fsys, name)
	return err == nil && (path.IsAbs(target) || !fs.ValidPath(path.Join(path.Dir(name), target)))
}

// unpackable is the error of a file that cannot be put into an archive.
func unpackable(name, format string, args ...any) error {
	return findings.Problems{RuleArchive.At(findings.Problem{File: name}, format, args...)}
}

func (l *fileList) addFile(name string) error {
	f, err := l.fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	l.Files = append(l.Files, checkedEntry(name, hash.Sum(nil)))
	return nil
}

// marshal writes JSON as Python's json.dumps does with an indent of one.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
