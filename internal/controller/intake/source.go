// Package intake brings the archive that an OperatorCollection asks for into the store: downloaded, uploaded, copied or restored from
// another manager, and verified.
package intake

import (
	"context"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/budget"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/pace"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
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
	policy, err := a.verifier().verificationPolicy(ctx, oc)
	if err != nil {
		return err
	}
	if err := a.downloads().restore(ctx, oc); err != nil {
		return err
	}
	fetchArchive := a.fetchArchive
	stored, unverified := a.verifier().verifyStored(oc, policy)
	archive.Artifact = stored
	requested, err := a.isRequested(ctx, oc, policy, archive, stored != nil || unverified != nil)
	if err != nil {
		return err
	}
	if unverified != nil && oc.Spec.Interval == nil && !requested {
		return unverified
	}
	if archive.Artifact == nil && !requested {
		if archive.Artifact = a.verifier().verifyBlocked(oc, policy); archive.Artifact != nil {
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
	verified, err := a.verifier().verifyFile(oc, policy, file)
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
	if pushed, err := a.pushed().isPushed(oc); pushed || err != nil || !isCurrent {
		return pushed, err
	}
	copied := a.copied().newPodCopy(ctx, oc, policy)
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

// fetchArchive downloads the archive, or takes the one that was uploaded if the spec has no URL: by the endpoint, or else into the folder of
// the collection's name and version. The file is nil if the server still has the one that archive.validators are of.
func (a *Source) fetchArchive(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	pushed := PushedDigest(oc)
	switch {
	case oc.Spec.CollectionURL != "":
		return a.downloads().fetch(ctx, oc, archive.validators)
	case archive.podCopy != nil:
		return a.copied().stagePodCopy(oc, archive)
	case pushed != "":
		return a.pushed().stagePushed(oc, pushed)
	}
	return a.copied().stageUpload(oc, archive)
}

// checkSource checks, once per spec.interval, whether the source has another archive than the one that is installed, and
// returns that one, else nil. A failed check is a warning: the installed archive remains valid.
func (a *Source) checkSource(ctx context.Context, oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	if pushed := PushedDigest(oc); oc.Spec.Interval == nil || oc.Status.Artifact == nil || pushed != "" && imports.IsImported(oc, pushed) { // After a restore, status comes first.
		return nil, nil
	}
	if a.copied().takesPodCopies(oc) || imports.PinnedVersion(oc) != "" { // Copies are not asked for, and no archive but the pinned one would be accepted.
		return nil, nil
	}
	archive.validators = fetch.Validators{ETag: oc.Status.Artifact.ETag, LastModified: oc.Status.Artifact.LastModified}
	if last, known := a.checks.last(oc); known {
		if time.Now().Before(last.due) {
			archive.check = &last
			return nil, nil
		}
		archive.validators = last.validators
	}
	file, err := a.fetchArchive(ctx, oc, archive)
	archive.check = newSourceCheck(oc, archive.validators)
	if status.Is(err) && ctx.Err() == nil {
		archive.check.failed = err.Error()
		archive.check.due = time.Now().Add(pace.Jitter(min(oc.Spec.Interval.Duration, intervals.FailedCheck)))
		return nil, nil
	}
	if err != nil || file == nil {
		return nil, err
	}
	if file.Digest == digest.Digest(oc.Status.Artifact.Digest) {
		archive.check.validators = file.Validators
		return nil, file.Remove()
	}
	return file, nil
}

// NextCheck is the delay before the next check of the source, or zero if there is none.
func (a *Source) NextCheck(oc *v2beta2.OperatorCollection) time.Duration {
	if a.copied().takesPodCopies(oc) {
		return a.copied().refusedPodCopy(oc).wait() // A copy asks for its import itself, and whatever else is in the folder does not.
	}
	return a.checks.wait(oc)
}

// KeepBlocked keeps an archive, which a hold is of, for the next attempt to import it, instead of the former one, which it returns. Without
// an archive, or if there are too many, it keeps none: then the caller has the hold still.
func (a *Source) KeepBlocked(oc *v2beta2.OperatorCollection, archive *v2beta2.Artifact, hold *store.Hold) (former BlockedArchive, kept bool) {
	return a.blocked.keep(client.ObjectKeyFromObject(oc), archive, hold)
}

// FolderChanged triggers the reconciles of OperatorCollections that wait for an archive in a folder, or take copies.
func (a *Source) FolderChanged(ctx context.Context, name, version string) {
	a.copied().folderChanged(ctx, name, version)
}

// DecidePodCopy remembers that the archive in the upload folder was accepted, or refused because of err. It returns why it does not take
// the place of the imported one, or nil, and whether that differs from what was returned for the same file before.
func (a *Source) DecidePodCopy(oc *v2beta2.OperatorCollection, archive *Archive, err error) (refused *status.Error, isNews bool) {
	return a.copied().decide(oc, archive, err)
}

// DescribePodCopy sets UploadRefused while the archive that was refused is in the upload folder.
func (a *Source) DescribePodCopy(oc *v2beta2.OperatorCollection) { a.copied().describe(oc) }

// Received records an archive that the upload endpoint received, and triggers its import.
func (a *Source) Received(ctx context.Context, name types.NamespacedName, archive digest.Digest) error {
	return a.pushed().received(ctx, name, archive)
}

// RemoveUnusedUploads removes the archives of OperatorCollections that do not exist any more, and those that were uploaded before others
// or are imported: another manager may have been the leader meanwhile.
func (a *Source) RemoveUnusedUploads(ctx context.Context) error { return a.pushed().removeUnused(ctx) }

func (a *Source) verifier() *verifier { return &verifier{a.Reader, a.Collections, &a.blocked} }

func (a *Source) downloads() *downloads {
	return &downloads{a.Reader, a.Collections, a.Fetcher, a.working, a.downloadSlots}
}

func (a *Source) pushed() *pushedArchives {
	return &pushedArchives{a.Client, a.Reader, a.Collections, a.Pushes, a.Fetcher, a.uploads}
}

func (a *Source) copied() *copiedArchives {
	return &copiedArchives{a.Client, a.Collections, a.Fetcher, a.Namespace, a.UploadDir, a.Folder, a.uploads, &a.podCopies}
}
