// Package imports knows what OperatorCollections have imported: which collection, from which archive, and its content.
package imports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Index has what OperatorCollections have imported. Only the manager that leads writes that, and its client reads what it has written: whose
// a collection is, and whether budgets allow it, is decided by the cache.
type Index struct {
	// Client reads from the cache, and what this manager wrote.
	Client client.Reader
	// Reader reads live objects.
	Reader client.Reader

	mu    sync.Mutex
	begun bool
}

// catchUpTime is how long [Index] waits for the cache at most. It is tried again with what is there then: an OperatorCollection may be
// deleted before the cache has it.
const catchUpTime = 10 * time.Second

// begin waits once until the cache has what is live when this manager begins to lead: the one before may have written it just now.
func (i *Index) begin(ctx context.Context) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.begun {
		return nil
	}
	live := &v2beta2.OperatorCollectionList{}
	if err := i.Reader.List(ctx, live); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, catchUpTime, true, func(ctx context.Context) (bool, error) {
		cached := &v2beta2.OperatorCollectionList{}
		err := i.Client.List(ctx, cached, client.UnsafeDisableDeepCopy)
		return err == nil && hasAll(cached.Items, live.Items), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the cache has all OperatorCollections: %w", err)
	}
	i.begun = true
	return nil
}

// hasAll reports whether the cache has each live object as it is, or a newer one.
func hasAll(cached, live []v2beta2.OperatorCollection) bool {
	versions := map[types.UID]string{}
	for k := range cached {
		versions[cached[k].UID] = cached[k].ResourceVersion
	}
	return !slices.ContainsFunc(live, func(oc v2beta2.OperatorCollection) bool {
		order, err := resourceversion.CompareResourceVersion(versions[oc.UID], oc.ResourceVersion)
		return err != nil || order < 0
	})
}

// List returns all OperatorCollections, sorted. They are shared: callers do not change them.
func (i *Index) List(ctx context.Context) ([]v2beta2.OperatorCollection, error) {
	return i.find(ctx)
}

// Of returns the OperatorCollections that have a collection, replace it, or say by their labels that they will. They are shared.
func (i *Index) Of(ctx context.Context, id model.ID) ([]v2beta2.OperatorCollection, error) {
	return i.find(ctx, client.MatchingFields{IndexCollection: id.String()})
}

func (i *Index) find(ctx context.Context, of ...client.ListOption) ([]v2beta2.OperatorCollection, error) {
	if err := i.begin(ctx); err != nil {
		return nil, err
	}
	found := &v2beta2.OperatorCollectionList{}
	if err := i.Client.List(ctx, found, append(of, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	slices.SortFunc(found.Items, func(a, b v2beta2.OperatorCollection) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found.Items, nil
}
