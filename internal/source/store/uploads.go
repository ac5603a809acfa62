package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// ErrNoUpload: nobody has uploaded an archive for this collection and version yet.
var ErrNoUpload = errors.New("no uploaded archive")

// maxUploads bounds the files that are looked at in one upload folder.
const maxUploads = 1000

var uploadComponent = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,252}$`)

// LatestUpload finds the newest archive that was uploaded for a collection: the regular file <dir>/<name>/<version>/*.tar.gz
// modified last, and of several equally new ones the last by name. Hidden files and links are passed over. If there is
// none, the error is ErrNoUpload.
func LatestUpload(dir, name, version string) (string, error) {
	folder, err := uploadFolder(dir, name, version)
	if err != nil {
		return "", err
	}
	uploads, err := os.OpenInRoot(dir, filepath.Join(name, version))
	if errors.Is(err, fs.ErrNotExist) {
		return "", noUpload(folder)
	}
	if err != nil {
		return "", fmt.Errorf("find uploaded archive: %w", err)
	}
	defer uploads.Close()
	entries, err := uploads.ReadDir(maxUploads)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("find uploaded archive: %w", err)
	}
	newest := newestArchive(entries)
	if newest == "" {
		return "", noUpload(folder)
	}
	return filepath.Join(folder, newest), nil
}

func uploadFolder(dir, name, version string) (string, error) {
	for _, component := range []string{name, version} {
		if !uploadComponent.MatchString(component) {
			return "", fmt.Errorf("find uploaded archive: %q cannot be a folder's name", component)
		}
	}
	return filepath.Join(dir, name, version), nil
}

func noUpload(folder string) error {
	return fmt.Errorf("%w in the manager's folder %s: upload one with kubectl collection push, or set spec.collectionURL", ErrNoUpload, folder)
}

// openRegular opens an uploaded file. A named pipe does not block it.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open uploaded archive: %w", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("uploaded archive %s is not a regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func newestArchive(entries []fs.DirEntry) string {
	var newest string
	var modified time.Time
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || !strings.HasSuffix(name, suffix) || strings.HasPrefix(name, ".") {
			continue
		}
		info, err := entry.Info()
		if err != nil { // deleted since the folder was read
			continue
		}
		later := info.ModTime().Compare(modified)
		if newest == "" || later > 0 || later == 0 && name > newest {
			newest, modified = name, info.ModTime()
		}
	}
	return newest
}
