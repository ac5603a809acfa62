package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/fetch"
)

// DownloadOptions say which archive a runtime pod needs.
type DownloadOptions struct {
	// URL is where the manager serves the archive.
	URL string
	// Digest is what the download must have.
	Digest digest.Digest
	// MaxBytes bounds the download; zero means fetch.DefaultMaxBytes.
	MaxBytes int64
	// Dir takes the temporary file.
	Dir string
	// MinWait and MaxWait bound the wait between two attempts, which doubles each time; zero means 1 s and 30 s.
	MinWait, MaxWait time.Duration
	// Log, if set, gets one line when an attempt fails for another reason than the one before.
	Log *slog.Logger
}

// Download fetches an archive from the manager. While the manager is away or does not have the archive yet,
// it tries again until ctx ends. It gives up at once if retrying cannot help: the URL is wrong, the archive is too
// large, or its digest is another. The caller removes the file.
func Download(ctx context.Context, options DownloadOptions) (*fetch.File, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	// The manager is inside the cluster: neither is it behind a proxy, nor may its address be refused.
	fetcher := &fetch.Fetcher{MaxBytes: options.MaxBytes}
	wait := cmp.Or(options.MinWait, time.Second)
	longest := max(wait, cmp.Or(options.MaxWait, 30*time.Second))
	var last string
	for {
		file, err := fetcher.Fetch(ctx, fetch.Request{URL: options.URL}, options.Dir)
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
