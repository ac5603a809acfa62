package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/opencontainers/go-digest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// downloads fetches archives, as many at once as the slots allow.
type downloads struct {
	Reader      client.Reader
	Collections *imports.CollectionCache
	Fetcher     *fetch.Fetcher
	// working limits reconciles. A download leaves it for its time.
	working, slots *pace.NamespaceLimit
}

// fetch downloads the archive of the spec. The file is nil if the server still has the one that known is of.
func (d *downloads) fetch(ctx context.Context, oc *v2beta2.OperatorCollection, known fetch.Validators) (*fetch.File, error) {
	credentials, err := d.credentials(ctx, oc)
	if err != nil {
		return nil, err
	}
	file, err := d.download(ctx, oc, fetch.Request{URL: oc.Spec.CollectionURL, Credentials: credentials, Known: known})
	if errors.Is(err, fetch.ErrNotModified) {
		return nil, nil
	}
	return file, err
}

// download fetches an archive, which may take long, and lets another reconcile work meanwhile. It does not wait for other
// downloads.
func (d *downloads) download(ctx context.Context, oc *v2beta2.OperatorCollection, request fetch.Request) (*fetch.File, error) {
	release, err := d.startDownload(oc)
	if err != nil {
		return nil, err
	}
	defer release()
	d.working.Leave(oc.Namespace)
	// Reconcile leaves again, also if ctx ends.
	defer d.working.EnterAgain(context.WithoutCancel(ctx), oc.Namespace)
	store := d.Collections.Store
	var file *fetch.File
	began := time.Now()
	err = store.WithRoom(d.Fetcher.MaxBytes, func() (err error) {
		file, err = d.Fetcher.Fetch(ctx, request, store.TempDir())
		return err
	})
	if err != nil && !errors.Is(err, fetch.ErrNotModified) {
		err = fetchFailure(err)
	}
	metrics.Fetched(fetchResult(err), time.Since(began))
	return file, err
}

// startDownload fails if there are too many downloads.
func (d *downloads) startDownload(oc *v2beta2.OperatorCollection) (release func(), err error) {
	if release = d.slots.TryAcquire(oc.Namespace); release == nil {
		return nil, status.Retry(v2beta2.ReasonProgressing, errors.New("waiting for other downloads to end"))
	}
	return release, nil
}

// credentials reads spec.credentialsSecret, or takes spec.collectionURLToken.
func (d *downloads) credentials(ctx context.Context, oc *v2beta2.OperatorCollection) (fetch.Credentials, error) {
	if oc.Spec.CredentialsSecret == "" {
		return fetch.Credentials{BearerToken: oc.Spec.CollectionURLToken}, nil
	}
	secret, err := credential.Require(ctx, d.Reader, oc.Namespace, "spec.credentialsSecret", oc.Spec.CredentialsSecret, v2beta2.ReasonCredentialsInvalid)
	if err != nil {
		return fetch.Credentials{}, err
	}
	if !credential.Is(secret) {
		return fetch.Credentials{}, status.Waiting(v2beta2.ReasonCredentialsInvalid, intervals.Missing,
			"spec.credentialsSecret: Secret %q is not labelled as a credential: give it the label %s=true", secret.Name, credential.Label)
	}
	credentials, err := fetch.ParseCredentials(secret.Data)
	if err != nil {
		return fetch.Credentials{}, status.Waiting(v2beta2.ReasonCredentialsInvalid, intervals.Missing,
			"spec.credentialsSecret: Secret %q %w", secret.Name, err)
	}
	return credentials, nil
}

// restore copies an archive that was imported, and that this manager lost, from another manager: its origin may be gone.
// Without success it is fetched. It counts as a download.
func (d *downloads) restore(ctx context.Context, oc *v2beta2.OperatorCollection) error {
	known, lost := d.Collections.Imported(oc), imports.PinnedVersion(oc)
	if known.IsOf(oc) && known.Signed {
		lost = digest.Digest(known.Artifact.Digest)
	}
	if d.Collections.Peers == nil || lost == "" || d.Collections.Store.Has(lost) {
		return nil
	}
	release, err := d.startDownload(oc)
	if err != nil {
		return err
	}
	defer release()
	d.working.Leave(oc.Namespace)
	// Reconcile leaves again, also if ctx ends.
	defer d.working.EnterAgain(context.WithoutCancel(ctx), oc.Namespace)
	if err := d.Collections.Peers.Pull(ctx, lost); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("the archive is fetched again", "digest", lost, "reason", err.Error())
	}
	return nil
}

// fetchResult is the label of a download that ended with an error or nil.
func fetchResult(err error) string {
	switch {
	case err == nil:
		return metrics.ResultSucceeded
	case errors.Is(err, fetch.ErrNotModified):
		return metrics.ResultNotModified
	}
	return status.AsError(err).Reason
}

// fetchReasons has the reasons of downloads that have one of their own. All others share FetchFailed.
var fetchReasons = map[fetch.Reason]string{
	fetch.InvalidURL:       v2beta2.ReasonInvalidURL,
	fetch.NotFound:         v2beta2.ReasonArchiveNotFound,
	fetch.Unauthorized:     v2beta2.ReasonUnauthorized,
	fetch.ServerError:      v2beta2.ReasonSourceUnreachable,
	fetch.Unreachable:      v2beta2.ReasonSourceUnreachable,
	fetch.UntrustedServer:  v2beta2.ReasonSourceUnreachable,
	fetch.URLForbidden:     v2beta2.ReasonSourceForbidden,
	fetch.AddressForbidden: v2beta2.ReasonSourceForbidden,
	fetch.TooLarge:         v2beta2.ReasonArchiveTooLarge,
	fetch.Truncated:        v2beta2.ReasonArchiveTruncated,
	fetch.Timeout:          v2beta2.ReasonFetchTimeout,
	fetch.StorageFailed:    v2beta2.ReasonStorageFailed,
}

// storageFailure gives an error of the artifact store its reason.
func storageFailure(err error) error {
	if store.IsFull(err) {
		return status.Retry(v2beta2.ReasonStorageFull, fmt.Errorf(
			"the manager's volume for archives is full: enlarge it, or delete OperatorCollections that are not needed; what is installed is unaffected: %w", err))
	}
	return status.Retry(v2beta2.ReasonStorageFailed, err)
}

func fetchFailure(err error) error {
	if store.IsFull(err) {
		return storageFailure(err)
	}
	var f *fetch.Error
	if !errors.As(err, &f) {
		return status.Retry(v2beta2.ReasonFetchFailed, err)
	}
	reason := cmp.Or(fetchReasons[f.Reason], v2beta2.ReasonFetchFailed)
	if !f.Retryable {
		return status.Stalled(reason, err)
	}
	return status.Retry(reason, err)
}
