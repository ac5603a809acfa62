// Package lint is the whole check of a collection, for authors and administrators: what the manager checks
// ([model.Load] and [crd.Validate]), the playbooks, and what building an archive needs. The manager does not link it.
package lint

import (
	"errors"
	"io"
	"io/fs"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/playbook"
	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// Check returns everything that is wrong with the collection whose root is fsys, sorted by place, and the collection: nil
// if a cluster refuses it. The error means that fsys could not be read, and trying again may help.
func Check(fsys fs.FS) (*model.Collection, findings.Problems, error) {
	c, problems, err := model.Read(fsys)
	if err != nil {
		return nil, nil, err
	}
	building, err := galaxy.Check(fsys)
	if err != nil {
		return nil, nil, err
	}
	if len(problems.Refused()) == 0 {
		problems = findings.Merge(problems, crd.Validate(c))
	}
	problems = findings.Merge(problems, findings.Merge(building, playbook.Check(fsys, c)))
	problems = findings.Merge(problems, findings.Merge(checkPortability(fsys), checkImageVersions(c)))
	_, ofScenarios, err := scenario.Read(fsys, c)
	if err != nil {
		return nil, nil, err
	}
	problems = findings.Merge(problems, ofScenarios)
	if len(problems.Refused()) > 0 {
		return nil, problems, nil
	}
	c.Problems = problems
	return c, problems, nil
}

// NewKeep makes the function that says which files of one archive [Check] and [ReadSettings] read. It is for one reading.
func NewKeep() func(name string, size int64) bool {
	keep := playbook.NewKeep()
	return func(name string, size int64) bool {
		return model.Keep(name, size) || name == SettingsFile && size <= maxSettingsBytes || scenario.Keep(name, size) || keep(name, size)
	}
}

// CheckArchive is [Check] for an archive, with the archive's own [Settings]. An archive that is refused unread is one
// problem.
func CheckArchive(r io.Reader) (findings.Problems, Settings, error) {
	files, err := archive.Read(r, archive.DefaultLimits, NewKeep())
	if err != nil {
		problems, err := refused(err)
		return problems, Settings{}, err
	}
	return checkWithSettings(files, files)
}

// CheckFolder is [CheckArchive] for the archive that [galaxy.Build] makes of an author's folder. Problems of
// galaxy.yml are reported there. If no archive can be built, the folder is checked as it is. So is an unpacked archive,
// which has a MANIFEST.json and no galaxy.yml. The settings need not be in the archive.
func CheckFolder(folder fs.FS) (findings.Problems, Settings, error) {
	content, problems, err := contentOf(folder)
	if err != nil {
		return nil, Settings{}, err
	}
	found, settings, err := checkWithSettings(content, folder)
	if err != nil && len(problems) > 0 {
		return problems, settings, nil // A link that leads out of the folder cannot be read, either.
	}
	return findings.Merge(problems, found), settings, err
}

// contentOf returns what is checked of an author's folder, and the problems for which no archive can be built of it.
func contentOf(folder fs.FS) (fs.FS, findings.Problems, error) {
	if isUnpacked(folder) {
		return folder, nil, nil
	}
	packed, err := pack(folder)
	if err == nil {
		return authored{FS: packed, folder: folder}, nil, nil
	}
	problems, err := refused(err)
	return folder, problems, err
}

func isUnpacked(folder fs.FS) bool {
	_, built := fs.Stat(folder, model.ManifestFile)
	_, source := fs.Stat(folder, model.GalaxyFile)
	return built == nil && errors.Is(source, fs.ErrNotExist)
}

func checkWithSettings(content, settingsFrom fs.FS) (findings.Problems, Settings, error) {
	_, problems, err := Check(content)
	if err != nil {
		return nil, Settings{}, err
	}
	settings, unsettled, err := ReadSettings(settingsFrom)
	return findings.Merge(problems, unsettled), settings, err
}

// pack builds the archive of a folder and reads it, without keeping more of it than a check needs.
func pack(folder fs.FS) (*archive.Files, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(galaxy.Build(folder, w)) }()
	files, err := archive.Read(r, archive.DefaultLimits, NewKeep())
	r.CloseWithError(err)
	return files, err
}

// refused returns the problems for which an archive cannot be built or is refused; any other error is a failure.
func refused(err error) (findings.Problems, error) {
	var problems findings.Problems
	if errors.As(err, &problems) {
		return problems, nil
	}
	var unreadable *archive.Error
	if !errors.As(err, &unreadable) || unreadable.Reason == archive.Unreadable {
		return nil, err
	}
	place := findings.Problem{File: unreadable.Entry[:min(len(unreadable.Entry), archive.DefaultLimits.NameBytes)]}
	return findings.Problems{galaxy.RuleArchive.At(place, "%v (%s)", unreadable.Err, unreadable.Reason)}, nil
}

// authored is an archive with the galaxy.yml that it was built from in place of its MANIFEST.json, so that problems of the
// metadata have the places in the author's file.
type authored struct {
	fs.FS
	folder fs.FS
}

// Open implements fs.FS.
func (a authored) Open(name string) (fs.File, error) {
	switch name {
	case model.GalaxyFile:
		return a.folder.Open(name)
	case model.ManifestFile:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return a.FS.Open(name)
}

// Stat implements fs.StatFS.
func (a authored) Stat(name string) (fs.FileInfo, error) {
	switch name {
	case model.GalaxyFile:
		return fs.Stat(a.folder, name)
	case model.ManifestFile:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(a.FS, name)
}
