// Package lint is the whole check of a collection: what [collection.Load] says of its files, and what the API machinery
// says of what render makes of them. The manager, continuous integration and the author's desk all call [Check].
package lint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/collection-operator/collection-operator/internal/archive"
	"github.com/collection-operator/collection-operator/internal/collection"
)

// An archive has the first, an author's folder the second.
const (
	manifestFile = "MANIFEST.json"
	galaxyFile   = "galaxy.yml"
)

// Check returns everything that is wrong with the collection whose root is fsys, sorted by place, and the collection: nil
// if a cluster refuses it. The error means that fsys could not be read, and trying again may help.
func Check(fsys fs.FS) (*collection.Collection, collection.Problems, error) {
	c, err := collection.Load(fsys)
	var problems collection.Problems
	if errors.As(err, &problems) {
		return nil, problems, nil
	}
	if err != nil {
		return nil, nil, err
	}
	c.Problems = collection.Merge(c.Problems, checkKinds(c))
	if len(c.Problems.Refused()) > 0 {
		return nil, c.Problems, nil
	}
	return c, c.Problems, nil
}

// CheckArchive is [Check] for an archive, with the archive's own [Settings]. An archive that is refused unread is one
// problem.
func CheckArchive(r io.Reader) (collection.Problems, Settings, error) {
	files, err := archive.Read(r, archive.DefaultLimits, newKeep())
	if err != nil {
		problems, err := refused(err)
		return problems, Settings{}, err
	}
	return checkWithSettings(files, files)
}

// CheckFolder is [CheckArchive] for the archive that [collection.Build] makes of an author's folder. Problems of
// galaxy.yml are reported there. If no archive can be built, the folder is checked as it is. So is an unpacked archive,
// which has a MANIFEST.json and no galaxy.yml. The settings need not be in the archive.
func CheckFolder(folder fs.FS) (collection.Problems, Settings, error) {
	if isUnpacked(folder) {
		return checkWithSettings(folder, folder)
	}
	packed, err := pack(folder)
	if err == nil {
		return checkWithSettings(authored{FS: packed, folder: folder}, folder)
	}
	problems, err := refused(err)
	if err != nil {
		return nil, Settings{}, err
	}
	found, settings, err := checkWithSettings(folder, folder)
	if err != nil && len(problems) > 0 {
		return problems, settings, nil // A link that leads out of the folder cannot be read, either.
	}
	return collection.Merge(problems, found), settings, err
}

func isUnpacked(folder fs.FS) bool {
	_, built := fs.Stat(folder, manifestFile)
	_, source := fs.Stat(folder, galaxyFile)
	return built == nil && errors.Is(source, fs.ErrNotExist)
}

func checkWithSettings(content, settingsFrom fs.FS) (collection.Problems, Settings, error) {
	_, problems, err := Check(content)
	if err != nil {
		return nil, Settings{}, err
	}
	settings, unsettled, err := ReadSettings(settingsFrom)
	return collection.Merge(problems, unsettled), settings, err
}

// pack builds the archive of a folder and reads it, without keeping more of it than a check needs.
func pack(folder fs.FS) (*archive.Files, error) {
	r, w := io.Pipe()
	go func() { w.CloseWithError(collection.Build(folder, w)) }()
	files, err := archive.Read(r, archive.DefaultLimits, newKeep())
	r.CloseWithError(err)
	return files, err
}

// refused returns the problems for which an archive cannot be built or is refused; any other error is a failure.
func refused(err error) (collection.Problems, error) {
	var problems collection.Problems
	if errors.As(err, &problems) {
		return problems, nil
	}
	var unreadable *archive.Error
	if !errors.As(err, &unreadable) || unreadable.Reason == archive.Unreadable {
		return nil, err
	}
	place := collection.Problem{File: unreadable.Entry[:min(len(unreadable.Entry), archive.DefaultLimits.NameBytes)]}
	message := fmt.Sprintf("%v (%s)", unreadable.Err, unreadable.Reason)
	return collection.Problems{collection.NewProblem(place, collection.RuleArchive, message)}, nil
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
	case galaxyFile:
		return a.folder.Open(name)
	case manifestFile:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return a.FS.Open(name)
}

// Stat implements fs.StatFS.
func (a authored) Stat(name string) (fs.FileInfo, error) {
	switch name {
	case galaxyFile:
		return fs.Stat(a.folder, name)
	case manifestFile:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(a.FS, name)
}
