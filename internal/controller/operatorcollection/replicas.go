package operatorcollection

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/status"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

const (
	// copyInterval is how soon another manager is asked again for an archive that an import waits for.
	copyInterval = time.Second
	// copiesInterval is how often the leader checks that the other managers have all archives.
	copiesInterval = 10 * time.Second
)

// replicas knows which other managers lack the archive of an OperatorCollection.
type replicas struct {
	Client client.Client
	Peers  *replica.Peers
	// changed has OperatorCollections whose archive another manager lacks, or has again.
	changed chan event.GenericEvent
}

// checkReplicas asks the other managers for the archive.
func (r *replicas) checkReplicas(ctx context.Context, oc *v2beta2.OperatorCollection, scope *importScope) error {
	scope.alreadyImported = oc.Status.Artifact != nil && oc.Status.Artifact.Digest == scope.Artifact.Digest &&
		meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionImported)
	var err error
	scope.replicas, err = r.Peers.Copies(ctx, digest.Digest(scope.Artifact.Digest))
	return err
}

// awaitReplicas waits until the other managers have copied the archive that status names now. An archive that was imported
// already remains so if one of them loses it.
func (r *replicas) awaitReplicas(_ context.Context, _ *v2beta2.OperatorCollection, scope *importScope) error {
	if len(scope.replicas.Awaited) > 0 && !scope.alreadyImported {
		return status.Waiting(v2beta2.ReasonReplicating, copyInterval,
			"waiting until every manager has a copy of the archive: %s", strings.Join(scope.replicas.Awaited, ", "))
	}
	scope.imported = true
	return nil
}

// watchReplicas triggers a reconcile of each OperatorCollection whose archive another manager lacks now, or has again.
func (r *replicas) watchReplicas(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx).WithName("replicas")
	lacking := map[types.NamespacedName]string{}
	for r.Peers != nil {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(copiesInterval):
		}
		now, err := r.listMissing(ctx)
		if err != nil {
			log.Error(err, "cannot check whether all managers have all archives, retrying")
			continue
		}
		all := maps.Clone(lacking)
		maps.Copy(all, now)
		for name := range all {
			if now[name] != lacking[name] {
				r.reportReplicas(ctx, name)
			}
		}
		lacking = now
	}
	return nil
}

// listMissing says who lacks the archive of which OperatorCollection.
func (r *replicas) listMissing(ctx context.Context) (map[types.NamespacedName]string, error) {
	list := &v2beta2.OperatorCollectionList{}
	if err := r.Client.List(ctx, list); err != nil {
		return nil, err
	}
	lacking := map[types.NamespacedName]string{}
	for i := range list.Items {
		oc := &list.Items[i]
		if oc.Status.Artifact == nil {
			continue
		}
		copies, err := r.Peers.Copies(ctx, digest.Digest(oc.Status.Artifact.Digest))
		if err != nil {
			return nil, err
		}
		if copies.Missing() {
			lacking[client.ObjectKeyFromObject(oc)] = fmt.Sprint(copies)
		}
	}
	return lacking, nil
}

func (r *replicas) reportReplicas(ctx context.Context, name types.NamespacedName) {
	oc := &v2beta2.OperatorCollection{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}
	select {
	case r.changed <- event.GenericEvent{Object: oc}:
	case <-ctx.Done():
	}
}
