package kit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quietTime is how long nothing must change before a change counts: editors write files in several steps.
const quietTime = 300 * time.Millisecond

// FileWatch tells when a file of a collection changes, or one of some others.
type FileWatch struct {
	watcher *fsnotify.Watcher
	// path is the collection's folder or archive, files are others, and ignored is a folder that does not count, or "". All are absolute.
	path    string
	files   []string
	ignored string
}

// WatchFiles starts to watch. Files and folders whose names begin with a dot do not count.
func WatchFiles(path string, files []string, ignored string) (*FileWatch, error) {
	w := &FileWatch{}
	var errs []error
	absolute := func(name string) string {
		full, err := filepath.Abs(name)
		errs = append(errs, err)
		if resolved, err := filepath.EvalSymlinks(full); err == nil { // Events have the names of the folders that are watched.
			return resolved
		}
		return full
	}
	w.path = absolute(path)
	for _, file := range files {
		w.files = append(w.files, absolute(file))
	}
	if ignored != "" {
		w.ignored = absolute(ignored)
	}
	watcher, err := fsnotify.NewWatcher()
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	w.watcher = watcher
	err = w.addFolders(w.path)
	for _, file := range append([]string{w.path}, w.files...) {
		err = errors.Join(err, watcher.Add(filepath.Dir(file))) // Editors replace files.
	}
	if err != nil {
		return nil, errors.Join(err, watcher.Close())
	}
	return w, nil
}

// Close ends watching.
func (w *FileWatch) Close() error { return w.watcher.Close() }

// addFolders watches a folder and those below it that count.
func (w *FileWatch) addFolders(root string) error {
	return filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || !entry.IsDir():
			return err
		case name != w.path && !w.counts(name):
			return fs.SkipDir
		}
		return w.watcher.Add(name)
	})
}

// counts reports whether a change of a file matters.
func (w *FileWatch) counts(name string) bool {
	if slices.Contains(w.files, name) || name == w.path {
		return true
	}
	inside, err := filepath.Rel(w.path, name)
	if err != nil || !filepath.IsLocal(inside) {
		return false
	}
	if w.ignored != "" && (name == w.ignored || strings.HasPrefix(name, w.ignored+string(filepath.Separator))) {
		return false
	}
	return !slices.ContainsFunc(strings.Split(inside, string(filepath.Separator)), func(part string) bool {
		return strings.HasPrefix(part, ".") || strings.HasSuffix(part, "~")
	})
}

// Next returns the name of a file that has changed, once nothing has changed for a moment. It is "" if the context has ended.
func (w *FileWatch) Next(ctx context.Context) (string, error) {
	changed := ""
	quiet := time.NewTimer(time.Hour)
	defer quiet.Stop()
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", nil
		case <-quiet.C:
			return changed, nil
		case err := <-w.watcher.Errors:
			return "", err
		case event := <-w.watcher.Events:
			if event.Op == fsnotify.Chmod || !w.counts(event.Name) {
				continue
			}
			if info, err := os.Lstat(event.Name); err == nil && info.IsDir() {
				if event.Op.Has(fsnotify.Create) {
					if err := w.addFolders(event.Name); err != nil {
						return "", err
					}
				} else {
					continue // What has changed in it has an event of its own.
				}
			}
			changed = event.Name
			quiet.Reset(quietTime)
		}
	}
}
