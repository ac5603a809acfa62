package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/apply"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// maxWaitingUploads bounds the uploads that wait for the controller. Further ones are imported with the next reconcile.
const maxWaitingUploads = 1024

// annotationUpload has the digest of the archive that the upload endpoint received last. It decides: the leader's volume may
// have an earlier upload, from when it was the leader before.
const annotationUpload = "zoscb.ibm.com/uploaded-digest"

// Received records an archive that the upload endpoint received, and triggers its import.
func (a *Source) Received(ctx context.Context, name types.NamespacedName, archive digest.Digest) error {
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationUpload, archive)
	if err := a.Client.Patch(ctx, oc, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("recording the upload for OperatorCollection %q in namespace %q: %w", name.Name, name.Namespace, err)
	}
	select {
	case a.uploads <- event.GenericEvent{Object: oc}: // The annotation may not have changed.
	default:
	}
	return nil
}

// uploadGrace is how long an archive was on the volume before it is removed because the OperatorCollection does not name it: its name
// is recorded when it was stored.
const uploadGrace = time.Hour

// RemoveUnusedUploads removes the archives of OperatorCollections that do not exist any more, and those that were uploaded before others
// or are imported: another manager may have been the leader meanwhile.
func (a *Source) RemoveUnusedUploads(ctx context.Context) error {
	names, err := a.Pushes.List()
	if err != nil || len(names) == 0 {
		return err
	}
	// An OperatorCollection exists before its first upload, so those of the names are in this list.
	list := &v2beta2.OperatorCollectionList{}
	if err := a.Reader.List(ctx, list); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	awaited := map[types.NamespacedName]digest.Digest{}
	for i := range list.Items {
		oc := &list.Items[i]
		pushed := PushedDigest(oc)
		if imports.IsImported(oc, pushed) {
			pushed = ""
		}
		awaited[client.ObjectKeyFromObject(oc)] = pushed
	}
	var errs []error
	for _, name := range names {
		if pushed, exists := awaited[name]; exists {
			errs = append(errs, a.Pushes.RemoveFormer(name.Namespace, name.Name, pushed, time.Now().Add(-uploadGrace)))
		} else {
			errs = append(errs, a.Pushes.Remove(name.Namespace, name.Name))
		}
	}
	return errors.Join(errs...)
}

// PushedDigest returns the digest of the archive that the upload endpoint received last for a spec without a URL, or "".
func PushedDigest(oc *v2beta2.OperatorCollection) digest.Digest {
	pushed := digest.Digest(oc.Annotations[annotationUpload])
	if oc.Spec.CollectionURL != "" || pushed.Validate() != nil || pushed.Algorithm() != digest.SHA256 {
		return ""
	}
	return pushed
}

// isPushed reports whether the upload endpoint received an archive that is not the imported one. Who uploaded it may change
// the spec, so it replaces the imported one like a change of the spec.
func (a *Source) isPushed(oc *v2beta2.OperatorCollection) (bool, error) {
	pushed := PushedDigest(oc)
	if pushed == "" || imports.IsImported(oc, pushed) {
		return false, nil
	}
	path, err := a.Pushes.Find(oc.Namespace, oc.Name, pushed)
	if err != nil {
		return false, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	return path != "", nil
}

// upload copies the archive that was uploaded: by the endpoint, or else into the folder of the collection's name and version.
func (a *Source) upload(oc *v2beta2.OperatorCollection, archive *Archive) (*fetch.File, error) {
	pushed := PushedDigest(oc)
	switch {
	case archive.podCopy != nil:
		return a.stagePodCopy(oc, archive)
	case pushed != "":
		return a.stagePushed(oc, pushed)
	}
	return a.stageUpload(oc, archive)
}

func (a *Source) stagePushed(oc *v2beta2.OperatorCollection, pushed digest.Digest) (*fetch.File, error) {
	path, err := a.Pushes.Find(oc.Namespace, oc.Name, pushed)
	if err != nil {
		return nil, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	var file *fetch.File
	switch {
	case path != "":
		file, err = a.Collections.Store.Stage(path, a.Fetcher.MaxBytes)
	case (imports.IsImported(oc, pushed) || imports.InHistory(oc, pushed)) && a.Collections.Store.Has(pushed):
		// It is one that this OperatorCollection has or had, and the spec has changed.
		file, err = a.stageStored(pushed)
	default:
		return nil, status.Waiting(v2beta2.ReasonArchiveNotUploaded, status.Watched,
			"no uploaded archive: the one with the digest %s, which was uploaded, is not on the manager's volume: upload it again with kubectl collection push",
			cmp.Or(digest.Digest(oc.Spec.Digest), pushed))
	}
	if err != nil {
		return nil, fetchFailure(err)
	}
	if file.Digest != pushed {
		err := fmt.Errorf("the uploaded archive is damaged: it has the digest %s, not %s: upload it again", file.Digest, pushed)
		return nil, status.Retry(v2beta2.ReasonStorageFailed, errors.Join(err, file.Remove()))
	}
	return file, nil
}

func (a *Source) stageStored(archive digest.Digest) (*fetch.File, error) {
	store := a.Collections.Store
	content, size, err := store.Open(archive)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var staged *fetch.File
	err = store.WithRoom(size, func() (err error) {
		if _, err = content.Seek(0, io.SeekStart); err == nil {
			staged, err = fetch.Save(content, a.Fetcher.MaxBytes, store.TempDir())
		}
		return err
	})
	return staged, err
}
