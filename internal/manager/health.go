package manager

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// storageInterval limits how often the storage is checked.
const storageInterval = 10 * time.Second

// readiness says whether a manager can serve archives and the catalog, and take over.
type readiness struct {
	store   *store.Store
	warmUp  *warmUp
	cluster *olm.Cluster
	catalog *catalog.Server

	synced atomic.Bool

	mu        sync.Mutex
	checkedAt time.Time
	stored    error
}

// addTo adds the checks to a manager before it starts.
func (r *readiness) addTo(mgr manager.Manager) error {
	return errors.Join(
		mgr.Add(r),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("storage", r.checkStorage),
		mgr.AddReadyzCheck("caches", r.checkCaches),
		mgr.AddReadyzCheck("archives", r.checkArchives),
		mgr.AddReadyzCheck("catalog", r.checkCatalog),
	)
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*readiness) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. The manager calls it when its caches are synced.
func (r *readiness) Start(context.Context) error {
	r.synced.Store(true)
	return nil
}

// check reports whether the manager is ready.
func (r *readiness) check() error {
	return errors.Join(r.checkStorage(nil), r.checkCaches(nil), r.checkArchives(nil), r.checkCatalog(nil))
}

func (r *readiness) checkStorage(*http.Request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checkedAt) >= storageInterval {
		r.stored, r.checkedAt = r.store.CheckWritable(), time.Now()
	}
	return r.stored
}

func (r *readiness) checkCaches(*http.Request) error {
	if !r.synced.Load() {
		return errors.New("the caches are not synced yet")
	}
	return nil
}

// checkArchives delays readiness after a start until this manager has copied the archives of others, so that one pod after the
// other can be replaced without a loss.
func (r *readiness) checkArchives(*http.Request) error {
	if !r.warmUp.complete.Load() {
		return errors.New("the archives of the other managers are not copied yet")
	}
	return nil
}

// checkCatalog passes where the Operator Lifecycle Manager is not used.
func (r *readiness) checkCatalog(*http.Request) error {
	if r.catalog == nil || r.catalog.Listening() || r.cluster.Checked() && !r.cluster.Available() {
		return nil
	}
	return errors.New("the catalog is not served yet")
}
