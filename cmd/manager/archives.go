package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/artifact"
	"github.com/collection-operator/collection-operator/internal/controller"
)

// removalInterval is how often the store is searched for archives that are not in use.
const removalInterval = time.Hour

// archiveSettings configure the store of archives.
type archiveSettings struct {
	// text is parsed by validate: a default from the environment may be wrong.
	text      string
	retention time.Duration
}

func (s *archiveSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.text, "archive-retention", cmp.Or(os.Getenv("ARCHIVE_RETENTION"), artifact.DefaultRetention.String()), "time for which archives that nothing uses are kept, such as 48h; 0s deletes them after an hour or two; default: environment variable ARCHIVE_RETENTION, or seven days")
}

func (s *archiveSettings) validate() (err error) {
	if s.retention, err = time.ParseDuration(s.text); err != nil || s.retention < 0 {
		return fmt.Errorf("--archive-retention: %q is not a duration such as 48h", s.text)
	}
	return nil
}

// removeArchives returns what sets unused archives aside, and deletes those that were set aside long enough ago. It runs in the leader
// alone, beside the controllers.
func (s *archiveSettings) removeArchives(mgr manager.Manager, collections *controller.CollectionCache) manager.RunnableFunc {
	return func(ctx context.Context) error {
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			now := time.Now()
			err := collections.RemoveUnused(ctx, mgr.GetAPIReader(), now.Add(-time.Minute), now.Add(-s.retention))
			if err != nil && !errors.Is(err, context.Canceled) {
				mgr.GetLogger().Error(err, "archives that are not in use are kept for another hour")
			}
		}, removalInterval)
		return nil
	}
}
