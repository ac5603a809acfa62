package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// removalInterval is how often the store is searched for archives that are not in use.
const removalInterval = time.Hour

// archiveSettings configure the store of archives.
type archiveSettings struct {
	// retention is how long archives that nothing uses are kept.
	retention time.Duration
}

func (s *archiveSettings) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.retention, "archive-retention", store.DefaultRetention, "time for which archives that nothing uses are kept, such as 48h; 0s deletes them after an hour or two; they are deleted earlier if the space is needed")
}

func (s *archiveSettings) validate() error {
	if s.retention < 0 {
		return fmt.Errorf("--archive-retention must not be negative, not %s", s.retention)
	}
	return nil
}

// cleaner sets the archives aside that are not in use, and deletes those that were set aside long enough ago. It runs in every manager,
// for its own store.
type cleaner struct {
	collections *imports.CollectionCache
	mgr         manager.Manager
	retention   time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*cleaner) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (c *cleaner) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now := time.Now()
		err := c.collections.RemoveUnused(ctx, c.mgr.GetAPIReader(), now.Add(-time.Minute), now.Add(-c.retention))
		if err != nil && ctx.Err() == nil {
			c.mgr.GetLogger().Error(err, "archives that are not in use are kept for another hour")
		}
	}, removalInterval)
	return nil
}
