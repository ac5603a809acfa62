package runner

import (
	"context"
	"path/filepath"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/runcount"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
)

// counts are the numbers of runs in the operator's Lease, from which the manager makes metrics.
type counts struct{ *scope }

// skipsPerWrite is the number of calls without a run after which they are written to the Lease, if no run is before.
const skipsPerWrite = 1000

// run adds a run to the counts of the operator, and the calls without a run since the last time. A run whose outcome is recorded is
// not repeated because of that: if it cannot be counted, it is missing.
func (r counts) run(ctx context.Context, entry *podfiles.Entry) {
	endpoint := entry.Run.Endpoint
	if !r.endpointExists(endpoint) {
		endpoint = "" // Anybody who may create resources can make up names.
	}
	var took time.Duration
	if entry.Run.Finished != nil {
		took = entry.Run.Finished.Sub(entry.Run.Started.Time)
	}
	r.update(ctx, func(c *runcount.Counts) {
		c.Run(r.files.KindName, endpoint, string(entry.Run.Outcome), took, entry.Waited)
	})
}

func (r counts) endpointExists(name string) bool {
	known, err := r.files.EndpointVariables(name)
	return err == nil && known != nil
}

// skip counts a call without a run in a file, and in the Lease after many.
func (r counts) skip(ctx context.Context) {
	skips := r.skips()
	n, err := skips.Add()
	if err != nil {
		r.out.Note("count a call without a run: %v", err)
		return
	}
	if n%skipsPerWrite == 0 { // If that fails, the next attempt is after as many.
		r.update(ctx, func(*runcount.Counts) {})
	}
}

// update changes the counts in the Lease. Counts that cannot be read begin again. Calls without a run remain in their file if the
// Lease cannot be written; those that this process has taken are lost if it ends meanwhile.
func (r counts) update(ctx context.Context, change func(*runcount.Counts)) {
	skipped, err := r.skips().Take()
	if err != nil {
		r.out.Note("read the number of calls without a run: %v", err)
	}
	err = r.podLock.Change(ctx, runcount.Annotation, runcount.Label, func(was string) string {
		counts, err := runcount.Parse(was)
		if err != nil {
			counts = &runcount.Counts{}
		}
		counts.Skip(r.files.KindName, skipped)
		change(counts)
		return counts.Marshal(r.endpointExists)
	})
	if err == nil {
		return
	}
	r.out.Note("the metrics lack something: %v", err)
	if err := r.skips().PutBack(skipped); err != nil {
		r.out.Note("keep the number of calls without a run: %v", err)
	}
}

func (r counts) skips() podfiles.Skips {
	return podfiles.Skips{File: filepath.Join(r.files.StateDir, "skips", r.files.KindName)}
}
