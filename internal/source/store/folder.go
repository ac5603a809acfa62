package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

const (
	// settleTime is how long a file must not have changed before it is read, and maxSettleTime the same for one that was incomplete then:
	// it grows with each attempt.
	settleTime, maxSettleTime = 500 * time.Millisecond, 5 * time.Second
	// abandonTime is how long an archive that ends early must not have changed before it counts as complete, so that it is refused.
	abandonTime = 30 * time.Second
	// rereadTime is when a directory that could not be read is read again.
	rereadTime = 10 * time.Second
)

// Upload is the archive in one folder of an [UploadFolder].
type Upload struct {
	Name, Version, Path string
	// Arriving says that it is being written.
	Arriving bool
	// Written is when its content was written. It is zero if that was before the folder was opened, or is not known: it is the newest one
	// since another one was removed, or its directory could not be read.
	Written time.Time
}

// UploadFolder knows the archives that clients copy into a manager's pod, as <dir>/<name>/<version>/*.tar.gz, and when they are
// complete. Its methods are safe for concurrent use.
type UploadFolder struct {
	dir string
	// maxBytes is the size above which an archive is not read here: it is refused anyway.
	maxBytes int64
	// Changed is called for a folder whose archive is complete or gone, and Warn if the folder cannot be watched. They must not block.
	Changed func(ctx context.Context, name, version string)
	Warn    func(error)

	mu      sync.Mutex
	folders map[uploadKey]*uploadState
	// unread are the directories that the last scan could not read, and why. What is known of them stays, and what is found there later
	// may have been there before. Only Scan uses it.
	unread map[string]error
}

type uploadKey struct{ name, version string }

// fileIdentity changes when a file is written or replaced. Owner and permissions, which a volume may set when it is mounted, are not
// part of it.
type fileIdentity struct {
	path     string
	inode    uint64
	size     int64
	modified time.Time
}

type uploadState struct {
	Upload
	identity fileIdentity
	// quiet is since when the file has not changed, and settle how long it must not have. Truncated says that it ended early then.
	quiet     time.Time
	settle    time.Duration
	truncated bool
}

// NewUploadFolder looks into dir, and creates it if need be. Whatever is there then counts as complete.
func NewUploadFolder(dir string, maxBytes int64) (*UploadFolder, error) {
	if err := makeDirectory(dir); err != nil {
		return nil, fmt.Errorf("open upload folder: %w", err)
	}
	u := &UploadFolder{dir: dir, maxBytes: maxBytes, folders: map[uploadKey]*uploadState{}}
	found, unread := u.look(func(string) {})
	for key, identity := range found {
		u.folders[key] = present(key, identity)
	}
	u.unread = unread
	return u, nil
}

// Scan compares the folder, as it is at a time, with what is known of it, and returns after which delay that must be done again, or zero.
// It calls watch for each directory before it reads it. Start scans; two scans must not overlap.
func (u *UploadFolder) Scan(ctx context.Context, now time.Time, watch func(dir string)) (next time.Duration) {
	couldRead := len(u.unread) == 0
	incomplete, report := u.update(watch, now)
	if err := errors.Join(slices.Collect(maps.Values(u.unread))...); err != nil {
		next = rereadTime
		if couldRead {
			u.Warn(fmt.Errorf("cannot read the folder of uploads: %w", err))
		}
	}
	for key, state := range incomplete {
		delay := u.check(state, now)
		if delay == 0 {
			u.mu.Lock()
			state.Arriving = false
			u.mu.Unlock()
			report = append(report, key)
		} else if next == 0 || delay < next {
			next = delay
		}
	}
	for _, key := range report {
		u.Changed(ctx, key.name, key.version)
	}
	return next
}

// update records what is in the folder. It returns what arrives, and in which folders archives are gone, or were there before.
func (u *UploadFolder) update(watch func(dir string), now time.Time) (incomplete map[uploadKey]*uploadState, report []uploadKey) {
	unreadBefore := u.unread
	found, unread := u.look(watch)
	u.mu.Lock()
	defer u.mu.Unlock()
	for key := range u.folders {
		if _, exists := found[key]; !exists && !u.isIn(unread, key) {
			delete(u.folders, key)
			report = append(report, key)
		}
	}
	incomplete = map[uploadKey]*uploadState{}
	for key, identity := range found {
		state := u.folders[key]
		switch {
		case state == nil && u.isIn(unreadBefore, key), state != nil && identity.remainsAfter(state.identity):
			state = present(key, identity)
			report = append(report, key)
		case state == nil || state.identity != identity:
			state = arriving(state, key, identity, now)
		}
		u.folders[key] = state
		if state.Arriving {
			incomplete[key] = state
		}
	}
	u.unread = unread
	return incomplete, report
}

// isIn reports whether one of some directories may have the archive of a folder.
func (u *UploadFolder) isIn(dirs map[string]error, key uploadKey) bool {
	path := filepath.Join(u.dir, key.name)
	return dirs[u.dir] != nil || dirs[path] != nil || dirs[filepath.Join(path, key.version)] != nil
}

// remainsAfter reports whether a file is the newest one because another one, which was it before, was removed.
func (f fileIdentity) remainsAfter(newest fileIdentity) bool {
	isRenamed := f.inode == newest.inode && f.modified.Equal(newest.modified)
	return f.path != newest.path && !isRenamed && !f.modified.After(newest.modified)
}

// present is the state of a file that nobody is seen writing.
func present(key uploadKey, identity fileIdentity) *uploadState {
	return &uploadState{Upload: Upload{Name: key.name, Version: key.version, Path: identity.path}, identity: identity}
}

func arriving(before *uploadState, key uploadKey, identity fileIdentity, now time.Time) *uploadState {
	state := &uploadState{
		Upload:   Upload{Name: key.name, Version: key.version, Path: identity.path, Arriving: true, Written: now},
		identity: identity, quiet: now, settle: settleTime,
	}
	if before != nil && before.truncated {
		state.settle = min(2*before.settle, maxSettleTime)
	}
	return state
}

// check returns zero if a file that arrives is complete, or else after which delay it may be. Only Scan calls it, for one state after
// the other.
func (u *UploadFolder) check(state *uploadState, now time.Time) time.Duration {
	quiet := now.Sub(state.quiet)
	switch {
	case quiet < state.settle:
		return state.settle - quiet
	case state.truncated && quiet < abandonTime:
		return abandonTime - quiet
	case state.truncated || state.identity.size > u.maxBytes || !isTruncated(state.Path):
		return 0
	}
	state.truncated = true
	return abandonTime - quiet
}

// isTruncated reports whether an archive ends early. Whatever else is wrong with it is reported when it is imported.
func isTruncated(path string) bool {
	f, err := openRegular(path)
	if err != nil {
		return true // It was just removed or replaced.
	}
	defer f.Close()
	var problem *archive.Error
	err = archive.Walk(f, archive.DefaultLimits, func(string, fs.FileMode, int64, io.Reader) error { return nil })
	return errors.As(err, &problem) && problem.Reason == archive.Truncated
}

// look returns the newest archive in each folder, and the directories that it cannot read. It calls watch for each folder before it reads
// it.
func (u *UploadFolder) look(watch func(dir string)) (found map[uploadKey]fileIdentity, unread map[string]error) {
	found, unread = map[uploadKey]fileIdentity{}, map[string]error{}
	for _, name := range subfolders(u.dir, watch, unread) {
		for _, version := range subfolders(filepath.Join(u.dir, name), watch, unread) {
			folder := filepath.Join(u.dir, name, version)
			watch(folder)
			path, err := LatestUpload(u.dir, name, version)
			var identity fileIdentity
			if err == nil {
				identity, err = identify(path)
			}
			switch {
			case err == nil:
				found[uploadKey{name, version}] = identity
			case !errors.Is(err, ErrNoUpload) && !errors.Is(err, fs.ErrNotExist):
				unread[folder] = err
			}
		}
	}
	return found, unread
}

func subfolders(dir string, watch func(dir string), unread map[string]error) []string {
	watch(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			unread[dir] = err
		}
		return nil
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && uploadComponent.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names
}

func identify(path string) (fileIdentity, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return fileIdentity{}, err
	}
	identity := fileIdentity{path: path, size: info.Size(), modified: info.ModTime()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		identity.inode = stat.Ino
	}
	return identity, nil
}

// Latest returns the archive that was copied last for a collection and version. If there is none, the error is ErrNoUpload.
func (u *UploadFolder) Latest(name, version string) (Upload, error) {
	folder, err := uploadFolder(u.dir, name, version)
	if err != nil {
		return Upload{}, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if state := u.folders[uploadKey{name, version}]; state != nil {
		return state.Upload, nil
	}
	return Upload{}, noUpload(folder)
}

// Is reports whether an archive that [UploadFolder.Latest] returned is still as it was.
func (u *UploadFolder) Is(upload Upload) bool {
	identity, err := identify(upload.Path)
	u.mu.Lock()
	defer u.mu.Unlock()
	state := u.folders[uploadKey{upload.Name, upload.Version}]
	return err == nil && state != nil && state.Upload == upload && state.identity == identity
}

// Make creates the folder for a collection and version, into which clients copy without creating it.
func (u *UploadFolder) Make(name, version string) error {
	folder, err := uploadFolder(u.dir, name, version)
	for _, dir := range []string{filepath.Dir(folder), folder} {
		if err == nil {
			err = makeDirectory(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("make upload folder: %w", err)
	}
	return nil
}
