package intake

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// minUploadDelay and maxUploadDelay bound the delay, which doubles, after which an archive that was copied is imported again.
const minUploadDelay, maxUploadDelay = 5 * time.Second, 5 * time.Minute

// copiedArchives are those in the upload folder of the manager's pod.
type copiedArchives struct {
	Client      client.Client
	Collections *imports.CollectionCache
	Fetcher     *fetch.Fetcher
	Namespace   string
	UploadDir   string
	Folder      *store.UploadFolder
	uploads     chan<- event.GenericEvent
	verdicts    *podCopyVerdicts
}

// podCopyVerdict is what became of the podCopy that was considered last.
type podCopyVerdict struct {
	podCopy
	// digest is that of the archive that was imported afterwards.
	digest digest.Digest
	// refused says why it was not, or is nil.
	refused *status.Error
	// retry is when it is tried again, and delay how long that is after the last time. They are zero if that is of no use.
	retry time.Time
	delay time.Duration
}

// isDue reports whether an archive that could not be imported is tried again.
func (v podCopyVerdict) isDue() bool { return v.delay > 0 && !time.Now().Before(v.retry) }

// wait is the delay before that, or zero if it is not.
func (v podCopyVerdict) wait() time.Duration {
	if v.delay == 0 {
		return 0
	}
	return max(time.Until(v.retry), time.Second)
}

// refuse gives the cause a text around the path and itself.
func (v *podCopyVerdict) refuse(format string, cause *status.Error) {
	v.refused = &status.Error{Reason: cause.Reason, Err: fmt.Errorf(format, v.path, cause.Err)}
}

// podCopyVerdicts has the last podCopyVerdict of each OperatorCollection in memory: an archive that was copied before the manager started is
// not considered again.
type podCopyVerdicts struct{ sync.Map }

func (c *podCopyVerdicts) last(oc *v2beta2.OperatorCollection) podCopyVerdict {
	found, _ := c.Load(client.ObjectKeyFromObject(oc))
	verdict, _ := found.(podCopyVerdict)
	return verdict
}

// uploadFolderOf returns name and version of the folder from which an OperatorCollection without a URL takes archives.
func uploadFolderOf(oc *v2beta2.OperatorCollection) (name, version string, ok bool) {
	name, version = oc.Labels[render.LabelName], oc.Labels[render.LabelVersion]
	return name, version, oc.Spec.CollectionURL == "" && name != "" && version != ""
}

// takesPodCopies reports whether copying an archive over the imported one asks for its import: copying needs exec in the manager's
// namespace, so it decides about OperatorCollections of that namespace alone. Others share the folders, and keep what they have.
func (c *copiedArchives) takesPodCopies(oc *v2beta2.OperatorCollection) bool {
	name, version, ok := uploadFolderOf(oc)
	if !ok || c.Folder == nil || oc.Namespace != c.Namespace || oc.Status.Artifact == nil || oc.Status.Config == nil || oc.DeletionTimestamp != nil {
		return false
	}
	// Another manager may keep its archives in another directory.
	folder := filepath.Dir(oc.Status.Config.CollectionPath)
	return filepath.Base(folder) == version && filepath.Base(filepath.Dir(folder)) == name
}

// folderChanged triggers the reconciles of OperatorCollections that wait for an archive in a folder, or take copies.
func (c *copiedArchives) folderChanged(ctx context.Context, name, version string) {
	list := &v2beta2.OperatorCollectionList{}
	labels := client.MatchingLabels{render.LabelName: name, render.LabelVersion: version}
	if err := c.Client.List(ctx, list, labels, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		ctrl.LoggerFrom(ctx).WithName("uploads").Error(err, "cannot list the OperatorCollections that an archive in the upload folder is for")
		return
	}
	for i := range list.Items {
		oc := &list.Items[i]
		if _, _, ok := uploadFolderOf(oc); !ok || oc.Status.Artifact != nil && !c.takesPodCopies(oc) {
			continue
		}
		select {
		case c.uploads <- event.GenericEvent{Object: &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: oc.Namespace, Name: oc.Name}}}:
		default: // It is imported with the next reconcile.
		}
	}
}

// newPodCopy returns the complete archive that was copied over the imported one, or nil. One that was considered already, for the same spec and
// Secret, is not returned again before it is due.
func (c *copiedArchives) newPodCopy(ctx context.Context, oc *v2beta2.OperatorCollection, policy *imports.VerificationPolicy) *podCopy {
	if !c.takesPodCopies(oc) {
		return nil
	}
	name, version, _ := uploadFolderOf(oc)
	// It may have been imported from the pod of another manager.
	if err := c.Folder.Make(name, version); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "clients cannot copy archives into the manager's pod until its upload folder exists; imported collections are unaffected")
	}
	upload, awaited := c.awaitedPodCopy(oc)
	if !awaited || upload.Arriving {
		return nil
	}
	archive := podCopy{path: upload.Path, written: upload.Written, generation: oc.Generation, secret: policy.Secret, version: policy.Version}
	if last := c.verdicts.last(oc); last.podCopy == archive && !last.isDue() {
		return nil
	}
	return &archive
}

// awaitedPodCopy returns the archive that is copied, or was copied after the imported one.
func (c *copiedArchives) awaitedPodCopy(oc *v2beta2.OperatorCollection) (store.Upload, bool) {
	name, version, _ := uploadFolderOf(oc)
	upload, err := c.Folder.Latest(name, version)
	if err != nil || upload.Arriving {
		return upload, err == nil
	}
	since := time.Time{}
	if last := c.verdicts.last(oc); last.digest != "" && imports.IsImported(oc, last.digest) {
		since = last.written // While an archive was imported, another one may have been copied.
	} else if len(oc.Status.History) > 0 {
		since = oc.Status.History[0].Time.Time
	}
	return upload, upload.Written.After(since)
}

// stagePodCopy copies the archive that was copied over the imported one. The file is nil if it is the same, or is being written again.
func (c *copiedArchives) stagePodCopy(oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	if PushedDigest(oc) != "" {
		return nil, status.Stalled(v2beta2.ReasonArtifactChanged, errors.New("the running version was uploaded with kubectl collection push: upload the archive in the same way"))
	}
	upload, err := c.findUpload(oc)
	switch f := status.AsError(err); {
	case f != nil && status.IsProgress(f.Reason):
		archive.dropPodCopy() // FolderChanged follows.
		return nil, nil
	case f != nil:
		return nil, err
	}
	file, err := c.Collections.Store.Stage(upload.Path, c.Fetcher.MaxBytes)
	isWhole := upload.Written.Equal(archive.podCopy.written) && c.Folder.Is(upload)
	switch {
	case !isWhole && file == nil:
		archive.dropPodCopy()
		return nil, nil
	case !isWhole:
		archive.dropPodCopy()
		return nil, file.Remove()
	case err != nil:
		return nil, fetchFailure(err)
	case imports.IsImported(oc, file.Digest):
		c.verdicts.Store(client.ObjectKeyFromObject(oc), podCopyVerdict{podCopy: *archive.podCopy, digest: file.Digest})
		archive.dropPodCopy()
		return nil, file.Remove()
	}
	archive.UploadPath = upload.Path
	return file, nil
}

// stageUpload copies the archive in the upload folder.
func (c *copiedArchives) stageUpload(oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	upload, err := c.findUpload(oc)
	if err != nil {
		return nil, err
	}
	file, err := c.Collections.Store.Stage(upload.Path, c.Fetcher.MaxBytes)
	if err != nil {
		return nil, fetchFailure(err)
	}
	archive.podCopy, archive.UploadPath = &podCopy{path: upload.Path, written: upload.Written}, upload.Path
	return file, nil
}

// findUpload returns the complete archive that was copied into the manager's pod.
func (c *copiedArchives) findUpload(oc *v2beta2.OperatorCollection) (store.Upload, error) {
	name, version, ok := uploadFolderOf(oc)
	if !ok {
		return store.Upload{}, status.Stalled(v2beta2.ReasonInvalidURL, errors.New(
			"spec.collectionURL is not set: set it, or upload the archive with kubectl collection push"))
	}
	if c.Folder == nil {
		return store.Upload{}, c.ignoredUpload(name, version)
	}
	upload, err := c.Folder.Latest(name, version)
	switch {
	case errors.Is(err, store.ErrNoUpload):
		return upload, status.Waiting(v2beta2.ReasonArchiveNotUploaded, status.Watched, "%w", err)
	case err != nil:
		return upload, status.Retry(v2beta2.ReasonStorageFailed, err)
	case upload.Arriving:
		return upload, awaitUpload(name, version)
	}
	newest, err := store.LatestUpload(c.UploadDir, name, version)
	switch {
	case err != nil && !errors.Is(err, store.ErrNoUpload):
		return upload, status.Retry(v2beta2.ReasonStorageFailed, err)
	case err != nil || newest != upload.Path || !c.Folder.Is(upload): // It changed a moment ago. FolderChanged follows.
		return upload, awaitUpload(name, version)
	}
	return upload, nil
}

func awaitUpload(name, version string) error {
	return status.Waiting(v2beta2.ReasonArchiveNotUploaded, status.Watched, "waiting until the archive in the manager's folder for %s %s is complete", name, version)
}

// ignoredUpload says that no archive was uploaded, since those that are copied into the manager's pod do not count.
func (c *copiedArchives) ignoredUpload(name, version string) error {
	switch _, err := store.LatestUpload(c.UploadDir, name, version); {
	case errors.Is(err, store.ErrNoUpload):
		return status.Waiting(v2beta2.ReasonArchiveNotUploaded, status.Watched,
			"no uploaded archive: upload one with kubectl collection push, or set spec.collectionURL")
	case err != nil:
		return status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	return status.Waiting(v2beta2.ReasonArchiveNotUploaded, status.Watched,
		"the archive in the manager's folder for %s %s is ignored, since the manager was started with --allow-exec-uploads=false: upload it with kubectl collection push", name, version)
}

// decide remembers that the archive in the upload folder was accepted, or refused because of err. It returns why it does not take
// the place of the imported one, or nil, and whether that differs from what was returned for the same file before.
func (c *copiedArchives) decide(oc *v2beta2.OperatorCollection, archive *Archive, err error) (refused *status.Error, isNews bool) {
	if archive.podCopy == nil {
		if archive.Recorded && !archive.Installed.IsZero() { // What was copied before does not count. The times in status.history have no fractions.
			c.verdicts.Store(client.ObjectKeyFromObject(oc), podCopyVerdict{
				podCopy: podCopy{written: archive.Installed}, digest: digest.Digest(archive.Artifact.Digest),
			})
		}
		return nil, false
	}
	verdict, last, cause := podCopyVerdict{podCopy: *archive.podCopy}, c.verdicts.last(oc), status.AsError(err)
	if last.podCopy != *archive.podCopy {
		last = podCopyVerdict{}
	}
	switch {
	case archive.Recorded:
		verdict.digest = digest.Digest(archive.Artifact.Digest)
	case archive.Accepted || archive.Replaced == "" || !status.Is(err):
		return nil, false // It is considered again.
	case !cause.Stalled && cause.RetryAfter == 0 || status.IsProgress(cause.Reason): // The archive is not at fault.
		verdict.delay = min(max(2*last.delay, minUploadDelay), maxUploadDelay)
		verdict.retry = time.Now().Add(verdict.delay)
		verdict.refuse("the archive %s was copied over what runs, which is unaffected, and cannot be imported yet, which is tried again: %w", cause)
	default:
		verdict.refuse("the archive %s differs from what runs, which is unaffected, and is not imported; correct this and copy it again, or remove it: %w", cause)
	}
	c.verdicts.Store(client.ObjectKeyFromObject(oc), verdict)
	isNews = verdict.refused != nil && (last.refused == nil || last.refused.Error() != verdict.refused.Error())
	return verdict.refused, isNews
}

// refusedPodCopy returns the verdict about the archive in the upload folder if it does not take the place of the imported one. Else it is
// the zero value.
func (c *copiedArchives) refusedPodCopy(oc *v2beta2.OperatorCollection) podCopyVerdict {
	last := c.verdicts.last(oc)
	if last.refused == nil || !c.takesPodCopies(oc) {
		return podCopyVerdict{}
	}
	name, version, _ := uploadFolderOf(oc)
	if upload, err := c.Folder.Latest(name, version); err == nil && upload.Written.Equal(last.written) {
		return last
	}
	return podCopyVerdict{}
}

// describe sets UploadRefused while the archive that was refused is in the upload folder.
func (c *copiedArchives) describe(oc *v2beta2.OperatorCollection) {
	refused := c.refusedPodCopy(oc).refused
	if refused == nil {
		meta.RemoveStatusCondition(&oc.Status.Conditions, v2beta2.ConditionUploadRefused)
		return
	}
	meta.SetStatusCondition(&oc.Status.Conditions, metav1.Condition{
		Type: v2beta2.ConditionUploadRefused, Status: metav1.ConditionTrue, Reason: refused.Reason,
		Message: status.Message(refused.Error()), ObservedGeneration: oc.Generation,
	})
}
