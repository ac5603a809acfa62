package runner

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// skipsPerWrite is the number of calls without a run after which they are written to the Lease, if no run is before.
const skipsPerWrite = 1000

// maxSkips is the number of calls that are kept for the next time if the Lease cannot be written.
const maxSkips = 1 << 20

// countRun adds a run to the counts of the operator, and the calls without a run since the last time. A run whose outcome is recorded is
// not repeated because of that: if it cannot be counted, it is missing.
func (r *runner) countRun(ctx context.Context, entry *journalEntry) {
	endpoint := entry.Run.Endpoint
	if !r.endpointExists(endpoint) {
		endpoint = "" // Anybody who may create resources can make up names.
	}
	var took time.Duration
	if entry.Run.Finished != nil {
		took = entry.Run.Finished.Sub(entry.Run.Started.Time)
	}
	r.updateCounts(ctx, func(c *runcount.Counts) {
		c.Run(r.files.kindName, endpoint, string(entry.Run.Outcome), took, entry.Waited)
	})
}

func (r *runner) endpointExists(name string) bool {
	known, err := r.files.endpointVariables(name)
	return err == nil && known != nil
}

// countSkip counts a call without a run in a file, and in the Lease after many.
func (r *runner) countSkip(ctx context.Context) {
	skips := r.skips()
	n, err := skips.add()
	if err != nil {
		r.out.note("count a call without a run: %v", err)
		return
	}
	if n%skipsPerWrite == 0 { // If that fails, the next attempt is after as many.
		r.updateCounts(ctx, func(*runcount.Counts) {})
	}
}

// updateCounts changes the counts in the Lease. Counts that cannot be read begin again. Calls without a run remain in their file if the
// Lease cannot be written; those that this process has taken are lost if it ends meanwhile.
func (r *runner) updateCounts(ctx context.Context, change func(*runcount.Counts)) {
	skipped, err := r.skips().take()
	if err != nil {
		r.out.note("read the number of calls without a run: %v", err)
	}
	err = r.podLock.Change(ctx, runcount.Annotation, runcount.Label, func(was string) string {
		counts, err := runcount.Parse(was)
		if err != nil {
			counts = &runcount.Counts{}
		}
		counts.Skip(r.files.kindName, skipped)
		change(counts)
		return counts.Marshal(r.endpointExists)
	})
	if err == nil {
		return
	}
	r.out.note("the metrics lack something: %v", err)
	if err := r.skips().putBack(skipped); err != nil {
		r.out.note("keep the number of calls without a run: %v", err)
	}
}

func (r *runner) skips() skips {
	return skips{file: filepath.Join(r.files.stateDir, "skips", r.files.kindName)}
}

// skips is a file with one byte for each call without a run, since calls are processes.
type skips struct{ file string }

// add counts one, and returns the number.
func (s skips) add() (int64, error) { return s.append(1) }

// putBack counts again what was taken, up to maxSkips.
func (s skips) putBack(n uint64) error {
	if n == 0 {
		return nil
	}
	_, err := s.append(int(min(n, maxSkips)))
	return err
}

func (s skips) append(n int) (int64, error) {
	if err := os.MkdirAll(filepath.Dir(s.file), 0o770); err != nil {
		return 0, err
	}
	file, err := os.OpenFile(s.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o660)
	if err != nil {
		return 0, err
	}
	_, err = file.Write(bytes.Repeat([]byte{'.'}, n))
	info, statErr := file.Stat()
	if err := errors.Join(err, statErr, file.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// take returns the number and begins again. Of several processes that take, each has its own file.
func (s skips) take() (uint64, error) {
	taken := s.file + ".taken-" + strconv.Itoa(os.Getpid())
	if err := os.Rename(s.file, taken); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	info, err := os.Lstat(taken)
	if err != nil {
		return 0, err
	}
	return uint64(max(0, info.Size())), os.Remove(taken)
}
