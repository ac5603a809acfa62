// Package imports knows what OperatorCollections have imported: which collection, from which archive, and its content.
package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// Index has what OperatorCollections have imported. Only the manager that leads writes that, and its client reads what it has written: whose
// a collection is, and whether budgets allow it, is decided by the cache.
type Index struct {
	// Client reads from the cache, and what this manager wrote.
	Client client.Reader
	// Reader reads live objects.
	Reader client.Reader

	// beginning is one wait for all who ask at the same time.
	beginning singleflight.Group
	begun     atomic.Bool
}

// ErrBehind is in the error of [Index.List] while the cache lacks what others, or this manager, have written.
var ErrBehind = errors.New("the manager's cache is behind the API server")

// catchUpTime is how long [Index] waits for the cache at most. It is tried again with what is there then: an OperatorCollection may be
// deleted before the cache has it.
const catchUpTime = 10 * time.Second

// begin waits once until the cache has what is live when this manager begins to lead: the one before may have written it just now.
func (i *Index) begin(ctx context.Context) error {
	if i.begun.Load() {
		return nil
	}
	done := i.beginning.DoChan("", func() (any, error) { return nil, i.catchUp(context.WithoutCancel(ctx)) })
	select {
	case <-ctx.Done():
		return ctx.Err()
	case result := <-done:
		return result.Err
	}
}

func (i *Index) catchUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpTime)
	defer cancel()
	live := &v2beta2.OperatorCollectionList{}
	if err := i.Reader.List(ctx, live); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		cached := &v2beta2.OperatorCollectionList{}
		err := i.Client.List(ctx, cached, client.UnsafeDisableDeepCopy)
		return err == nil && hasAll(cached.Items, live.Items), err
	})
	if err == nil {
		i.begun.Store(true)
	}
	return err
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

// List returns OperatorCollections, sorted. With [IndexCollection] they are those that have a collection, replace it, or say by their labels that
// they will. They are shared: callers do not change them.
func (i *Index) List(ctx context.Context, of ...client.ListOption) ([]v2beta2.OperatorCollection, error) {
	found := &v2beta2.OperatorCollectionList{}
	err := i.begin(ctx)
	if err == nil {
		err = i.Client.List(ctx, found, append(of, client.UnsafeDisableDeepCopy)...)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded): // Of this wait, or of that of the client for what it has written.
		return nil, status.Waiting(v2beta2.ReasonProgressing, intervals.Poll, "waiting for all OperatorCollections: %w", ErrBehind)
	case err != nil:
		return nil, fmt.Errorf("listing OperatorCollections: %w", err)
	}
	slices.SortFunc(found.Items, func(a, b v2beta2.OperatorCollection) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return found.Items, nil
}
