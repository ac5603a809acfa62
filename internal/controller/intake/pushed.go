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
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// pushedArchives are those that the upload endpoint received.
type pushedArchives struct {
	Client      client.Client
	Reader      client.Reader
	Collections *imports.CollectionCache
	Pushes      *store.Pushes
	Fetcher     *fetch.Fetcher
	uploads     chan<- event.GenericEvent
}

// maxWaitingUploads bounds the uploads that wait for the controller. Further ones are imported with the next reconcile.
const maxWaitingUploads = 1024

// annotationUpload has the digest of the archive that the upload endpoint received last. It decides: the leader's volume may
// have an earlier upload, from when it was the leader before.
const annotationUpload = "zoscb.ibm.com/uploaded-digest"

// received records an archive that the upload endpoint received, and triggers its import.
func (p *pushedArchives) received(ctx context.Context, name types.NamespacedName, archive digest.Digest) error {
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationUpload, archive)
	if err := p.Client.Patch(ctx, oc, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(apply.FieldOwner)); err != nil {
		return fmt.Errorf("recording the upload for OperatorCollection %q in namespace %q: %w", name.Name, name.Namespace, err)
	}
	select {
	case p.uploads <- event.GenericEvent{Object: oc}: // The annotation may not have changed.
	default:
	}
	return nil
}

// uploadGrace is how long an archive was on the volume before it is removed because the OperatorCollection does not name it: its name
// is recorded when it was stored.
const uploadGrace = time.Hour

// removeUnused removes the archives of OperatorCollections that do not exist any more, and those that were uploaded before others
// or are imported: another manager may have been the leader meanwhile.
func (p *pushedArchives) removeUnused(ctx context.Context) error {
	names, err := p.Pushes.List()
	if err != nil || len(names) == 0 {
		return err
	}
	// An OperatorCollection exists before its first upload, so those of the names are in this list.
	list := &v2beta2.OperatorCollectionList{}
	if err := p.Reader.List(ctx, list); err != nil {
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
			errs = append(errs, p.Pushes.RemoveFormer(name.Namespace, name.Name, pushed, time.Now().Add(-uploadGrace)))
		} else {
			errs = append(errs, p.Pushes.Remove(name.Namespace, name.Name))
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
func (p *pushedArchives) isPushed(oc *v2beta2.OperatorCollection) (bool, error) {
	pushed := PushedDigest(oc)
	if pushed == "" || imports.IsImported(oc, pushed) {
		return false, nil
	}
	path, err := p.Pushes.Find(oc.Namespace, oc.Name, pushed)
	if err != nil {
		return false, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	return path != "", nil
}

func (p *pushedArchives) stagePushed(oc *v2beta2.OperatorCollection, pushed digest.Digest) (*fetch.File, error) {
	path, err := p.Pushes.Find(oc.Namespace, oc.Name, pushed)
	if err != nil {
		return nil, status.Retry(v2beta2.ReasonStorageFailed, err)
	}
	var file *fetch.File
	switch {
	case path != "":
		file, err = p.Collections.Store.Stage(path, p.Fetcher.MaxBytes)
	case (imports.IsImported(oc, pushed) || imports.InHistory(oc, pushed)) && p.Collections.Store.Has(pushed):
		// It is one that this OperatorCollection has or had, and the spec has changed.
		file, err = p.stageStored(pushed)
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

func (p *pushedArchives) stageStored(archive digest.Digest) (*fetch.File, error) {
	store := p.Collections.Store
	content, size, err := store.Open(archive)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	var staged *fetch.File
	err = store.WithRoom(size, func() (err error) {
		if _, err = content.Seek(0, io.SeekStart); err == nil {
			staged, err = fetch.Save(content, p.Fetcher.MaxBytes, store.TempDir())
		}
		return err
	})
	return staged, err
}
