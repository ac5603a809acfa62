package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func unused() (bool, error) { return false, nil }

// Two tenants import the same archive at once, and one of them is refused.
func TestDiscard(t *testing.T) {
	content := []byte("content")
	archive := digestOf(content)
	for name, test := range map[string]struct {
		run  func(store *Store, put func()) error
		kept bool
	}{
		"nobody else wants it": {func(store *Store, put func()) error {
			mine := store.Hold(archive)
			put()
			return mine.Discard(unused)
		}, false},
		"a status names it": {func(store *Store, put func()) error {
			mine := store.Hold(archive)
			put()
			return mine.Discard(func() (bool, error) { return true, nil })
		}, true},
		"it cannot be said whether it is used": {func(store *Store, put func()) error {
			mine := store.Hold(archive)
			put()
			if err := mine.Discard(func() (bool, error) { return false, os.ErrPermission }); !errors.Is(err, os.ErrPermission) {
				return errors.New("the error is lost")
			}
			return nil
		}, true},
		"another import has it, and no status yet": {func(store *Store, put func()) error {
			mine, _ := store.Hold(archive), store.Hold(archive)
			put()
			put()
			return mine.Discard(unused)
		}, true},
		"another import begins and ends meanwhile": {func(store *Store, put func()) error {
			mine := store.Hold(archive)
			put()
			return mine.Discard(func() (bool, error) {
				theirs := store.Hold(archive)
				put()
				theirs.Release()
				return false, nil // Its status was written after the look at it.
			})
		}, true},
		"another import begins and ends meanwhile, and another removal begins": {func(store *Store, put func()) error {
			mine := store.Hold(archive)
			put()
			looking, decided, ended := make(chan struct{}), make(chan struct{}), make(chan error)
			err := mine.Discard(func() (bool, error) {
				theirs := store.Hold(archive)
				put()
				theirs.Release()
				go func() {
					ended <- store.MarkUnused(archive, func() (bool, error) {
						close(looking)
						<-decided
						return true, nil
					})
				}()
				<-looking
				return false, nil
			})
			close(decided)
			return errors.Join(err, <-ended)
		}, true},
		"both are refused": {func(store *Store, put func()) error {
			mine, theirs := store.Hold(archive), store.Hold(archive)
			put()
			return errors.Join(mine.Discard(unused), theirs.Discard(unused))
		}, false},
		"it was there before": {func(store *Store, put func()) error {
			put()
			mine := store.Hold(archive)
			put()
			return mine.Discard(unused)
		}, true},
		"it was released before": {func(store *Store, put func()) error {
			mine, theirs := store.Hold(archive), store.Hold(archive)
			put()
			mine.Release()
			mine.Release()
			return errors.Join(mine.Discard(unused), theirs.Discard(func() (bool, error) { return true, nil }))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t)
			if err := test.run(store, func() { put(t, store, store.TempDir(), content) }); err != nil {
				t.Error(err)
			}
			if got := store.IsStored(archive); got != test.kept {
				t.Errorf("kept is %v", got)
			}
		})
	}
}

func TestMarkUnused(t *testing.T) {
	store := openStore(t)
	archive := put(t, store, store.TempDir(), []byte("content"))
	hold := store.Hold(archive)
	if err := store.MarkUnused(archive, unused); err != nil || !store.IsStored(archive) {
		t.Errorf("what an import has was set aside: %v", err)
	}
	hold.Release()
	for range 2 {
		if err := store.MarkUnused(archive, unused); err != nil || store.IsStored(archive) {
			t.Errorf("not set aside: %v", err)
		}
	}
	if err := store.RemoveExpired(time.Now().Add(-time.Hour)); err != nil || !store.Has(archive) || store.IsStored(archive) {
		t.Errorf("whoever asks for it moves it: %v", err)
	}
	for range 2 {
		if err := store.Restore(archive); err != nil || !store.IsStored(archive) {
			t.Errorf("not restored: %v", err)
		}
	}
	if err := store.Restore(digestOf([]byte("another"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("restore what is not there: %v", err)
	}
	if err := store.RemoveUnused(nil, time.Now().Add(time.Hour)); err != nil || store.IsStored(archive) {
		t.Errorf("not set aside: %v", err)
	}
	content, size, err := store.Open(archive)
	if err != nil || size != 7 {
		t.Fatalf("not brought back: %v", err)
	}
	content.Close()
	if err := errors.Join(store.MarkUnused(archive, unused), store.RemoveExpired(time.Now().Add(time.Hour))); err != nil || store.Has(archive) {
		t.Errorf("not deleted: %v", err)
	}
}

func TestFormat(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if _, err := Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	for content, want := range map[string]string{
		"2\n": "knows storage formats up to 1: install the later version again",
		"0":   "has no number", "": "has no number", "text": "has no number", strings.Repeat("1", 17): "has no number",
	} {
		if err := os.WriteFile(filepath.Join(dir, formatFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%q: got %v", content, err)
		}
	}
}
