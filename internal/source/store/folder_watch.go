package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// burstTime is how long events that follow each other count once.
	burstTime = settleTime / 5
	// readInterval is how often the folder is read where it cannot be watched. At most a tenth of the time is spent on that.
	readInterval = time.Second
)

// NeedLeaderElection implements manager.LeaderElectionRunnable: clients may copy into the pod of any manager.
func (*UploadFolder) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It watches the folder until ctx ends, and reads it every second where that is not possible.
func (u *UploadFolder) Start(ctx context.Context) error {
	watch, unwatched := func(string) {}, false
	wake := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer watcher.Close()
		watch = func(dir string) {
			if addErr := watcher.Add(dir); addErr != nil && !errors.Is(addErr, fs.ErrNotExist) {
				err = addErr
			}
		}
		go forward(ctx, watcher, wake)
	}
	for {
		began := time.Now()
		next := u.Scan(ctx, began, watch)
		if err != nil && !unwatched {
			u.Warn(fmt.Errorf("cannot watch the folder of uploads, which is read every second instead: %w", err))
			unwatched = true
		}
		if poll := max(readInterval, 10*time.Since(began)); unwatched && (next == 0 || poll < next) {
			next = poll
		}
		if !wait(ctx, wake, next) {
			return nil
		}
	}
}

// forward wakes for each event, and for each error: events may be lost then.
func forward(ctx context.Context, watcher *fsnotify.Watcher, wake chan<- struct{}) {
	for open := true; open; {
		select {
		case <-ctx.Done():
			return
		case _, open = <-watcher.Events:
		case _, open = <-watcher.Errors:
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// wait returns when the folder must be read again, or false if ctx has ended. Next is a delay; zero means none.
func wait(ctx context.Context, wake <-chan struct{}, next time.Duration) bool {
	var timer <-chan time.Time
	if next > 0 {
		timer = time.After(next)
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer:
		return true
	case <-wake:
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(burstTime):
		return true
	}
}
