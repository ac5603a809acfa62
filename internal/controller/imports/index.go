// Package imports knows what OperatorCollections have imported: which collection, from which archive, and its content.
package imports

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// Index has what OperatorCollections have imported. Only the manager that leads writes that, so that the cache, together with what
// this manager read when it began to lead and wrote since then, lacks nothing: whose a collection is, and whether budgets allow it, is
// decided without reading all OperatorCollections from the API server.
type Index struct {
	// Client reads from the cache.
	Client client.Reader
	// Reader reads live objects.
	Reader client.Reader

	// beginning lets one reconcile at a time read all OperatorCollections.
	beginning sync.Mutex

	mu    sync.Mutex
	begun bool
	// newest are OperatorCollections as this manager wrote or read them last, until the cache has them.
	newest map[client.ObjectKey]*v2beta2.OperatorCollection
	// gone are the UIDs of OperatorCollections that do not exist any more, until the cache lacks them, too.
	gone map[client.ObjectKey]types.UID
	// written are the resourceVersions of what this manager wrote last.
	written map[client.ObjectKey]string
}

// begin reads all OperatorCollections once.
func (i *Index) begin(ctx context.Context) error {
	i.beginning.Lock()
	defer i.beginning.Unlock()
	i.mu.Lock()
	begun := i.begun
	i.mu.Unlock()
	if begun {
		return nil
	}
	live := &v2beta2.OperatorCollectionList{}
	if err := i.Reader.List(ctx, live); err != nil {
		return fmt.Errorf("listing OperatorCollections: %w", err)
	}
	for k := range live.Items {
		i.Record(&live.Items[k])
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.begun = true
	return nil
}

// Wrote remembers an OperatorCollection as the API server returned it for a write.
func (i *Index) Wrote(oc *v2beta2.OperatorCollection) {
	i.Record(oc)
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.written == nil {
		i.written = map[client.ObjectKey]string{}
	}
	i.written[client.ObjectKeyFromObject(oc)] = oc.ResourceVersion
}

// Record remembers an OperatorCollection, unless a newer one is known.
func (i *Index) Record(oc *v2beta2.OperatorCollection) {
	key := client.ObjectKeyFromObject(oc)
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.newest[key]; known != nil && !isNewer(oc, known) {
		return
	}
	if i.newest == nil {
		i.newest = map[client.ObjectKey]*v2beta2.OperatorCollection{}
	}
	if i.gone[key] == oc.UID {
		delete(i.gone, key) // It was created again when its predecessor was read as gone.
	}
	kept := oc.DeepCopy()
	kept.ManagedFields = nil
	i.newest[key] = kept
}

// Forget drops an OperatorCollection that does not exist. The cache may still have it.
func (i *Index) Forget(ctx context.Context, key client.ObjectKey) {
	cached := &v2beta2.OperatorCollection{}
	err := i.Client.Get(ctx, key, cached)
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.newest, key)
	delete(i.written, key)
	if err == nil {
		if i.gone == nil {
			i.gone = map[client.ObjectKey]types.UID{}
		}
		i.gone[key] = cached.UID
	}
}

// isNewer reports whether one state of an object is newer than another one.
func isNewer(a, b client.Object) bool {
	order, err := resourceversion.CompareResourceVersion(a.GetResourceVersion(), b.GetResourceVersion())
	return err != nil || order > 0
}

// List returns all OperatorCollections. They are shared: callers do not change them.
func (i *Index) List(ctx context.Context) ([]v2beta2.OperatorCollection, error) {
	return i.find(ctx, func(*v2beta2.OperatorCollection) bool { return true })
}

// Of returns the OperatorCollections that have a collection, replace it, or say by their labels that they will. They are shared.
func (i *Index) Of(ctx context.Context, id model.ID) ([]v2beta2.OperatorCollection, error) {
	concerns := func(oc *v2beta2.OperatorCollection) bool { return slices.Contains(CollectionsOf(oc), id.String()) }
	return i.find(ctx, concerns, client.MatchingFields{IndexCollection: id.String()})
}

// find returns the OperatorCollections that a function accepts. Options select a superset of them from the cache.
func (i *Index) find(ctx context.Context, accepts func(*v2beta2.OperatorCollection) bool, of ...client.ListOption) ([]v2beta2.OperatorCollection, error) {
	if err := i.begin(ctx); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.dropCached(ctx); err != nil {
		return nil, err
	}
	cached := &v2beta2.OperatorCollectionList{}
	if err := i.Client.List(ctx, cached, append(of, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	found := slices.DeleteFunc(cached.Items, func(oc v2beta2.OperatorCollection) bool {
		key := client.ObjectKeyFromObject(&oc)
		if i.gone[key] == oc.UID {
			return true
		}
		if newest := i.newest[key]; newest != nil && isNewer(newest, &oc) {
			return true
		}
		delete(i.newest, key)
		return false
	})
	for _, newest := range i.newest {
		if accepts(newest) {
			found = append(found, *newest)
		}
	}
	slices.SortFunc(found, func(a, b v2beta2.OperatorCollection) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found, nil
}

// dropCached forgets what the cache has.
func (i *Index) dropCached(ctx context.Context) error {
	for key, newest := range i.newest {
		cached := &v2beta2.OperatorCollection{}
		err := i.Client.Get(ctx, key, cached)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading OperatorCollection %q in namespace %q: %w", key.Name, key.Namespace, err)
		}
		if err == nil && !isNewer(newest, cached) {
			delete(i.newest, key)
		}
	}
	for key, uid := range i.gone {
		cached := &v2beta2.OperatorCollection{}
		if err := i.Client.Get(ctx, key, cached); apierrors.IsNotFound(err) || err == nil && cached.UID != uid {
			delete(i.gone, key)
		}
	}
	return nil
}

// NotOwn drops the updates that this manager made itself: the reconcile that made one has seen the state before.
func (i *Index) NotOwn() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		i.mu.Lock()
		defer i.mu.Unlock()
		return i.written[client.ObjectKeyFromObject(e.ObjectNew)] != e.ObjectNew.GetResourceVersion()
	}}
}
