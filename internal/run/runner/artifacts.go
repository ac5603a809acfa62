package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// artifactsLimit returns how many runs of a resource are kept: the annotation, within bounds, or what the settings say.
func artifactsLimit(annotation string, settings int) int {
	if n, err := strconv.Atoi(annotation); err == nil {
		settings = n
	}
	return min(max(settings, 1), gate.MaxArtifacts)
}

// artifacts is the folder with one folder for each run of a resource. ansible-operator makes the link "latest" to the folder
// of each call, whether that ran or not.
type artifacts string

func (c call) artifacts() artifacts { return artifacts(filepath.Join(c.dir, "artifacts")) }

// realRuns returns the folders of runs, the latest first.
func (a artifacts) realRuns() ([]string, error) {
	entries, err := os.ReadDir(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var runs []fs.FileInfo
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		info, err := entry.Info()
		if err != nil {
			return nil, err
		}
		runs = append(runs, info)
	}
	slices.SortFunc(runs, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	names := make([]string, len(runs))
	for i, run := range runs {
		names[i] = run.Name()
	}
	return names, nil
}

// rotate removes all but the latest runs.
func (a artifacts) rotate(keep int) error {
	runs, err := a.realRuns()
	for _, run := range runs[min(keep, len(runs)):] {
		err = errors.Join(err, os.RemoveAll(filepath.Join(string(a), run)))
	}
	return err
}

// removeLinks removes the links of calls that did not run, except for the one to which "latest" leads until ansible-operator changes that.
func (a artifacts) removeLinks() error {
	entries, err := os.ReadDir(string(a))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	latest, _ := os.Readlink(filepath.Join(string(a), "latest")) // There may be none.
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink != 0 && entry.Name() != "latest" && entry.Name() != filepath.Base(latest) {
			err = errors.Join(err, os.Remove(filepath.Join(string(a), entry.Name())))
		}
	}
	return err
}

// end makes the folder of a call that did not run a link to the last run, so that "latest" leads there.
func (a artifacts) end(ident string) error {
	if err := os.MkdirAll(string(a), 0o770); err != nil {
		return err
	}
	if err := a.removeLinks(); err != nil {
		return err
	}
	runs, err := a.realRuns()
	if err != nil || len(runs) == 0 || runs[0] == ident {
		return err
	}
	return os.Symlink(runs[0], filepath.Join(string(a), ident))
}
