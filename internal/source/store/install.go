package store

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// InstallOptions say which archive is installed in a runtime pod, and where.
type InstallOptions struct {
	DownloadOptions
	// ContentDir takes the archive's content; whatever it holds before is deleted. It must be an absolute path.
	ContentDir string
	// CollectionsDir is an entry of Ansible's collections path.
	CollectionsDir string
	// Namespace and Name are the collection's Galaxy namespace and name.
	Namespace, Name string
	// Limits bound the archive's content; the zero value means archive.DefaultLimits.
	Limits archive.Limits
}

// Galaxy allows no other names; a path made of them stays in its folder.
var galaxyName = regexp.MustCompile(`^[a-z_][a-z0-9_]*$`)

// Install downloads an archive, unpacks it into ContentDir, and makes the content visible as a collection through the
// link <CollectionsDir>/ansible_collections/<Namespace>/<Name>. It can be repeated. If it fails, ContentDir is empty
// or as it was before.
func Install(ctx context.Context, options InstallOptions) error {
	if !galaxyName.MatchString(options.Namespace) || !galaxyName.MatchString(options.Name) {
		return fmt.Errorf("install collection: %q is not the name of a Galaxy collection: want lower-case letters, digits and underscores",
			options.Namespace+"."+options.Name)
	}
	if !filepath.IsAbs(options.ContentDir) {
		return fmt.Errorf("install collection: the content directory %q is not an absolute path", options.ContentDir)
	}
	file, err := Download(ctx, options.DownloadOptions)
	if err != nil {
		return err
	}
	if err = unpack(file.Path, options); err != nil {
		err = fmt.Errorf("unpack artifact %s: %w", options.Digest, err)
	} else if err = linkCollection(options); err != nil {
		err = fmt.Errorf("link collection: %w", err)
	}
	return errors.Join(err, file.Remove())
}

func unpack(path string, options InstallOptions) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.MkdirAll(options.ContentDir, directoryMode); err != nil {
		return err
	}
	root, err := os.OpenRoot(options.ContentDir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := empty(root); err != nil {
		return fmt.Errorf("empty %s: %w", options.ContentDir, err)
	}
	if err := archive.Extract(f, root, options.Limits); err != nil {
		return errors.Join(err, empty(root))
	}
	return nil
}

func linkCollection(options InstallOptions) error {
	parent := filepath.Join(options.CollectionsDir, "ansible_collections", options.Namespace)
	link := filepath.Join(parent, options.Name)
	if err := os.MkdirAll(parent, directoryMode); err != nil {
		return err
	}
	info, err := os.Lstat(link)
	switch {
	case err == nil && info.Mode().Type() != fs.ModeSymlink:
		return fmt.Errorf("%s exists and is not a symbolic link", link)
	case err == nil:
		err = os.Remove(link)
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err != nil {
		return err
	}
	return os.Symlink(options.ContentDir, link)
}

// DownloadOptions say which archive a runtime pod needs.
type DownloadOptions struct {
	// URL is where the manager serves the archive.
	URL string
	// Authorities are the only certificate authorities that are trusted for an https URL. Nil means those of the system.
	Authorities *x509.CertPool
	// Digest is what the download must have.
	Digest digest.Digest
	// MaxBytes bounds the download; zero means fetch.DefaultMaxBytes.
	MaxBytes int64
	// Dir takes the temporary file.
	Dir string
	// MinWait and MaxWait bound the wait between two attempts, which doubles each time; zero means 1 s and 30 s.
	MinWait, MaxWait time.Duration
	// TrustWait is how long a server with an untrusted certificate is tried again; zero means 1 min.
	TrustWait time.Duration
	// Log, if set, gets one line when an attempt fails for another reason than the one before.
	Log *slog.Logger
}

// UntrustedError says that the certificate of the manager is not trusted.
type UntrustedError struct {
	Err error
}

func (e *UntrustedError) Error() string {
	return e.Err.Error() + ": the manager updates the key ca.crt of this operator's ConfigMap; see in the SubOperatorConfig and in the manager's log why it did not"
}

// Unwrap returns the error of the download.
func (e *UntrustedError) Unwrap() error { return e.Err }

// Download fetches an archive from the manager. While the manager is away or does not have the archive yet,
// it tries again until ctx ends. It gives up at once if retrying cannot help: the URL is wrong, the archive is too
// large, or its digest is another. It gives up after TrustWait if the manager's certificate is not trusted. The caller
// removes the file.
func Download(ctx context.Context, options DownloadOptions) (*fetch.File, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	// The manager is inside the cluster: neither is it behind a proxy, nor may its address be refused.
	fetcher := &fetch.Fetcher{MaxBytes: options.MaxBytes}
	wait := cmp.Or(options.MinWait, time.Second)
	longest := max(wait, cmp.Or(options.MaxWait, 30*time.Second))
	request := fetch.Request{URL: options.URL, Credentials: fetch.Credentials{Authorities: options.Authorities}}
	trusted := time.Now()
	var last string
	for {
		file, err := fetcher.Fetch(ctx, request, options.Dir)
		if err == nil && file.Digest != options.Digest {
			err = fmt.Errorf("download artifact %s: the file at the artifact's URL has the digest %s", options.Digest, file.Digest)
			return nil, errors.Join(err, file.Remove())
		}
		if err == nil {
			return file, nil
		}
		var failed *fetch.Error
		if ctx.Err() != nil || !errors.As(err, &failed) || !failed.Retryable {
			return nil, fmt.Errorf("download artifact %s: %w", options.Digest, err)
		}
		if failed.Reason != fetch.UntrustedServer {
			trusted = time.Now()
		} else if time.Since(trusted) >= cmp.Or(options.TrustWait, time.Minute) {
			return nil, &UntrustedError{Err: err}
		}
		if message := failed.Error(); message != last {
			last = message
			options.Log.Info("waiting for the artifact", "digest", options.Digest, "error", message)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("download artifact %s: %w", options.Digest, err)
		case <-time.After(wait):
			wait = min(2*wait, longest)
		}
	}
}
