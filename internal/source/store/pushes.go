package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// ErrPushesFull: the archives that were uploaded would be larger than is allowed.
var ErrPushesFull = errors.New("too much was uploaded")

// Pushes keeps the last archive that was uploaded for each OperatorCollection by the upload endpoint until it is imported, as
// <dir>/<namespace>/<name>/<hex>.tar.gz. Its methods are safe for concurrent use, except of Put and Remove for the same
// OperatorCollection.
type Pushes struct {
	// Dir is on the same device as the folder that archives are received in.
	Dir string
	// MaxBytes limits the archives of all namespaces, and MaxBytesPerNamespace those of each. Zero means no limit.
	MaxBytes, MaxBytesPerNamespace int64

	// putting makes Put check the limits and use what is left of them in one step.
	putting sync.Mutex
}

// folder returns the folder of an OperatorCollection. Both names must be those of Kubernetes objects, so that each has a
// folder of its own below Dir.
func (p *Pushes) folder(namespace, name string) (string, error) {
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "", fmt.Errorf("%q cannot be the namespace and name of an OperatorCollection", namespace+"/"+name)
	}
	return filepath.Join(p.Dir, namespace, name), nil
}

// Put moves an archive that was received to its place, and removes the one that was uploaded before. file.Path is gone
// afterwards. The archive is on disk when Put returns. The error is ErrPushesFull if there would be too much.
func (p *Pushes) Put(namespace, name string, file *fetch.File) error {
	folder, err := p.folder(namespace, name)
	if err != nil {
		return err
	}
	p.putting.Lock()
	defer p.putting.Unlock()
	if err := p.checkLimits(namespace, folder, file.Size); err != nil {
		return err
	}
	for _, dir := range []string{p.Dir, filepath.Dir(folder), folder} {
		if err := makeDirectory(dir); err != nil {
			return fmt.Errorf("store upload for %s/%s: %w", namespace, name, err)
		}
	}
	target := file.Digest.Encoded() + suffix
	if err := moveInto(file.Path, filepath.Join(folder, target)); err != nil {
		return fmt.Errorf("store upload for %s/%s: %w", namespace, name, err)
	}
	return p.removeOthers(folder, target)
}

func (p *Pushes) removeOthers(folder, keep string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if entry.Name() != keep {
			errs = append(errs, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	return errors.Join(errs...)
}

// checkLimits compares the limits with what is kept, except in one folder, and an archive that is added.
func (p *Pushes) checkLimits(namespace, replaced string, added int64) error {
	all, own := added, added
	err := filepath.WalkDir(p.Dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err != nil:
			return err
		case path == replaced:
			return fs.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		all += info.Size()
		if filepath.Dir(filepath.Dir(path)) == filepath.Join(p.Dir, namespace) {
			own += info.Size()
		}
		return nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("measure uploads: %w", err)
	case p.MaxBytesPerNamespace > 0 && own > p.MaxBytesPerNamespace:
		return fmt.Errorf("%w: the archives in namespace %q that are not imported would be larger than %d bytes, the manager's --max-uploaded-bytes-per-namespace", ErrPushesFull, namespace, p.MaxBytesPerNamespace)
	case p.MaxBytes > 0 && all > p.MaxBytes:
		return fmt.Errorf("%w: the archives in all namespaces that are not imported would be larger than %d bytes, the manager's --max-uploaded-bytes", ErrPushesFull, p.MaxBytes)
	}
	return nil
}

// Find returns the path of the archive with a digest that was uploaded, or "" if this manager does not have it.
func (p *Pushes) Find(namespace, name string, archive digest.Digest) (string, error) {
	folder, err := p.folder(namespace, name)
	if err := errors.Join(err, archive.Validate()); err != nil {
		return "", err
	}
	path := filepath.Join(folder, archive.Encoded()+suffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("find upload for %s/%s: %w", namespace, name, err)
	}
	return path, nil
}

// Done deletes an archive that was uploaded and is in the store.
func (p *Pushes) Done(namespace, name string, archive digest.Digest) error {
	path, err := p.Find(namespace, name, archive)
	if path == "" || err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove upload for %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Remove deletes what was uploaded for an OperatorCollection. It is no error if that is nothing.
func (p *Pushes) Remove(namespace, name string) error {
	folder, err := p.folder(namespace, name)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("remove upload for %s/%s: %w", namespace, name, err)
	}
	_ = os.Remove(filepath.Dir(folder)) // It fails if the namespace has others.
	return nil
}

// RemoveFormer removes archives that were uploaded for an OperatorCollection before a time, except the one with a digest, which may be
// empty.
func (p *Pushes) RemoveFormer(namespace, name string, except digest.Digest, before time.Time) error {
	folder, err := p.folder(namespace, name)
	if err != nil {
		return nil
	}
	p.putting.Lock()
	defer p.putting.Unlock()
	entries, err := os.ReadDir(folder)
	errs := []error{err}
	for _, entry := range entries {
		info, err := entry.Info()
		if err == nil && info.ModTime().Before(before) && (except == "" || entry.Name() != except.Encoded()+suffix) {
			errs = append(errs, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove former uploads for %s/%s: %w", namespace, name, err)
	}
	return nil
}

// List returns the namespaces and names of the OperatorCollections that have a folder.
func (p *Pushes) List() ([]types.NamespacedName, error) {
	folders, err := filepath.Glob(filepath.Join(p.Dir, "*", "*"))
	if err != nil {
		return nil, fmt.Errorf("list uploads: %w", err)
	}
	names := make([]types.NamespacedName, len(folders))
	for i, folder := range folders {
		names[i] = types.NamespacedName{Namespace: filepath.Base(filepath.Dir(folder)), Name: filepath.Base(folder)}
	}
	return names, nil
}
