package controller

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/status"
)

// awaitedUploads has the [awaitedUpload] of each OperatorCollection that waits for an archive in the upload folder, by its
// [client.ObjectKey].
type awaitedUploads struct{ sync.Map }

// awaitedUpload is the name and version of a folder in the upload folder.
type awaitedUpload struct{ name, version string }

// watchUploads reads the upload folder every [status.PollInterval] for those that wait, which needs no request to the API server, and
// triggers their reconciles.
func (a *ArchiveSource) watchUploads(ctx context.Context) error {
	ticker := time.NewTicker(status.PollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		a.awaited.Range(func(key, value any) bool {
			folder := value.(awaitedUpload)
			if _, err := artifact.LatestUpload(a.UploadDir, folder.name, folder.version); err != nil {
				return true
			}
			name := key.(client.ObjectKey)
			select {
			case a.uploads <- event.GenericEvent{Object: &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}:
				a.awaited.CompareAndDelete(key, value)
			default: // The next time.
			}
			return true
		})
	}
}
