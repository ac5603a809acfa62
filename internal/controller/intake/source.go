// Package intake brings the archive that an OperatorCollection asks for into the store: downloaded, uploaded, copied or restored from
// another manager, and verified.
package intake

import (
	"context"
	"errors"
	"time"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// Source brings the archives of OperatorCollections into the store: downloaded or uploaded, and verified.
type Source struct {
	// Client records uploads, and reads through the cache.
	Client client.Client
	// Reader reads live objects.
	Reader client.Reader
	// Collections are those of the archives in the store.
	Collections *imports.CollectionCache
	// Peers are the other managers.
	Peers *replica.Peers
	// Fetcher downloads archives.
	Fetcher *fetch.Fetcher
	// Namespace is that of the manager.
	Namespace string
	// UploadDir is where clients with access to the manager's pod put archives of OperatorCollections without a collectionURL. Folder
	// watches it; nil ignores them.
	UploadDir string
	Folder    *store.UploadFolder
	// Pushes has the archives of the upload endpoint.
	Pushes *store.Pushes

	// Workers limits concurrent reconciles that do not download: it bounds memory. Those that do are limited by Downloads.
	Workers, Downloads budget.Limits

	checks                 sourceChecks
	working, downloadSlots *pace.NamespaceLimit
	uploads                chan event.GenericEvent
	blocked                blockedArchives
	podCopies              podCopyVerdicts
}

// Setup prepares a Source for its first reconcile. It returns the limit within which reconciles work, which a download leaves for its
// time, and the OperatorCollections whose archive was uploaded.
func (a *Source) Setup() (working *pace.NamespaceLimit, uploads <-chan event.GenericEvent) {
	a.working = pace.NewNamespaceLimit(a.Workers.Total, a.Workers.PerNamespace)
	a.downloadSlots = pace.NewNamespaceLimit(a.Downloads.Total, a.Downloads.PerNamespace)
	a.uploads = make(chan event.GenericEvent, maxWaitingUploads)
	return a.working, a.uploads
}

// Forget drops all that is known of an OperatorCollection that is gone, but for its upload.
func (a *Source) Forget(key client.ObjectKey) {
	a.checks.Delete(key)
	a.podCopies.Delete(key)
	former, _ := a.blocked.keep(key, nil, nil)
	former.Hold.Release()
}

// EnsureArtifact makes sure that the store holds the archive that the spec asks for, and that it is verified as the spec
// says now. An archive that the store holds is not downloaded again for the same spec; if it must be, its content may not
// have changed.
func (a *Source) EnsureArtifact(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) error {
	policy, err := a.verificationPolicy(ctx, oc)
	if err != nil {
		return err
	}
	if err := a.restore(ctx, oc); err != nil {
		return err
	}
	fetchArchive := a.fetchArchive
	stored, unverified := a.verifyStored(oc, policy)
	archive.Artifact = stored
	requested, err := a.isRequested(ctx, oc, policy, archive, stored != nil || unverified != nil)
	if err != nil {
		return err
	}
	if unverified != nil && oc.Spec.Interval == nil && !requested {
		return unverified
	}
	if archive.Artifact == nil && !requested {
		if archive.Artifact = a.verifyBlocked(oc, policy); archive.Artifact != nil {
			archive.Hold = a.Collections.Store.Hold(digest.Digest(archive.Artifact.Digest))
			return nil
		}
	}
	if archive.Artifact != nil {
		archive.Hold = a.Collections.Store.Hold(digest.Digest(archive.Artifact.Digest))
		if !requested {
			fetchArchive = a.checkSource
		}
	}
	file, err := fetchArchive(ctx, oc, archive)
	if err == nil && file == nil && stored == nil {
		err = unverified
	}
	if err != nil || file == nil {
		return err
	}
	defer func() { _ = file.Remove() }() // In the store it has another name.
	archive.check = newSourceCheck(oc, file.Validators)

	if known := a.Collections.Imported(oc); known.IsOf(oc) && file.Digest != digest.Digest(known.Artifact.Digest) && oc.Spec.Interval == nil && !requested {
		return changedArtifact(oc, known.Artifact.Digest, file.Digest)
	}
	verified, err := a.verifyFile(oc, policy, file)
	if err != nil {
		return err
	}
	archive.Hold.Release() // Status names the former one.
	archive.Hold = a.Collections.Store.Hold(file.Digest)
	if err := a.Collections.Store.Put(file); err != nil {
		return storageFailure(err)
	}
	verified.ETag, verified.LastModified = file.Validators.ETag, file.Validators.LastModified
	archive.Artifact = verified
	return nil
}

// Accept records, before status names an archive, that it is the one that is imported, and what the check of its source said.
func (a *Source) Accept(oc *v2beta2.OperatorCollection, archive *Archive) {
	archive.Accepted = true
	a.checks.record(oc, archive.check)
}

// isRequested reports whether somebody uploaded an archive to take the place of the imported one. One that was copied does not, if the
// spec asks for another archive anyway: then the imported one is not current.
func (a *Source) isRequested(ctx context.Context, oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy, archive *Archive, isCurrent bool) (bool, error) {
	if pushed, err := a.isPushed(oc); pushed || err != nil || !isCurrent {
		return pushed, err
	}
	copied := a.newPodCopy(ctx, oc, policy)
	if copied != nil {
		archive.podCopy, archive.Replaced = copied, digest.Digest(oc.Status.Artifact.Digest)
	}
	return copied != nil, nil
}

func changedArtifact(oc *v2beta2.OperatorCollection, from string, to digest.Digest) error {
	accept := "change spec.digest or set spec.interval to accept it"
	if oc.Status.Artifact == nil {
		accept = "restore the storage of the manager, or accept it: change spec.digest, or remove the annotation " + imports.AnnotationArtifact
	}
	return status.Waiting(v2beta2.ReasonArtifactChanged, status.ChangedInterval,
		"the archive's content changed from %s to %s though the spec did not: %s", from, to, accept)
}

// fetchArchive downloads the archive, or takes it from the upload folder if the spec has no URL. The file is nil if the server
// still has the one that archive.validators are of.
func (a *Source) fetchArchive(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	if oc.Spec.CollectionURL == "" {
		return a.upload(oc, archive)
	}
	credentials, err := a.credentials(ctx, oc)
	if err != nil {
		return nil, err
	}
	file, err := a.download(ctx, oc, fetch.Request{URL: oc.Spec.CollectionURL, Credentials: credentials, Known: archive.validators})
	if errors.Is(err, fetch.ErrNotModified) {
		return nil, nil
	}
	return file, err
}

// download fetches an archive, which may take long, and lets another reconcile work meanwhile. It does not wait for other
// downloads.
func (a *Source) download(ctx context.Context, oc *v2beta2.OperatorCollection, request fetch.Request) (*fetch.File, error) {
	release, err := a.startDownload(oc)
	if err != nil {
		return nil, err
	}
	defer release()
	a.working.Leave(oc.Namespace)
	// Reconcile leaves again, also if ctx ends.
	defer a.working.EnterAgain(context.WithoutCancel(ctx), oc.Namespace)
	store := a.Collections.Store
	var file *fetch.File
	began := time.Now()
	err = store.WithRoom(a.Fetcher.MaxBytes, func() (err error) {
		file, err = a.Fetcher.Fetch(ctx, request, store.TempDir())
		return err
	})
	if err != nil && !errors.Is(err, fetch.ErrNotModified) {
		err = fetchFailure(err)
	}
	metrics.Fetched(fetchResult(err), time.Since(began))
	return file, err
}

// startDownload fails if there are too many downloads.
func (a *Source) startDownload(oc *v2beta2.OperatorCollection) (release func(), err error) {
	if release = a.downloadSlots.TryAcquire(oc.Namespace); release == nil {
		return nil, status.Retry(v2beta2.ReasonProgressing, errors.New("waiting for other downloads to end"))
	}
	return release, nil
}

// credentials reads spec.credentialsSecret, or takes spec.collectionURLToken.
func (a *Source) credentials(ctx context.Context, oc *v2beta2.OperatorCollection) (fetch.Credentials, error) {
	if oc.Spec.CredentialsSecret == "" {
		return fetch.Credentials{BearerToken: oc.Spec.CollectionURLToken}, nil
	}
	secret, err := credential.Require(ctx, a.Reader, oc.Namespace, "spec.credentialsSecret", oc.Spec.CredentialsSecret, v2beta2.ReasonCredentialsInvalid)
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
