package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
)

// putUnused stores archives and marks them unused, the first as the oldest. Each has one byte.
func putUnused(t *testing.T, store *Store, contents ...string) []digest.Digest {
	t.Helper()
	var archives []digest.Digest
	for i, content := range contents {
		archive := put(t, store, store.TempDir(), []byte(content))
		if err := store.MarkUnused(archive, unused); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-len(contents)) * time.Hour)
		if err := os.Chtimes(filepath.Join(store.dir, unusedFolder, archive.Encoded()+suffix), at, at); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	return archives
}

// aside returns which of the archives are still aside.
func aside(store *Store, archives []digest.Digest) (left string) {
	for i, archive := range archives {
		if _, err := os.Stat(filepath.Join(store.dir, unusedFolder, archive.Encoded()+suffix)); err == nil {
			left += fmt.Sprint(i)
		}
	}
	return left
}

func TestWithRoom(t *testing.T) {
	full := &fs.PathError{Op: "write", Err: syscall.ENOSPC}
	for name, test := range map[string]struct {
		archives []string
		bytes    int64
		errs     []error
		want     error
		left     string
	}{
		"there is room":                {[]string{"a", "b", "c"}, 2, []error{nil}, nil, "012"},
		"the oldest are deleted":       {[]string{"a", "b", "c"}, 2, []error{full, nil}, nil, "2"},
		"all are deleted":              {[]string{"a", "b", "c"}, 9, []error{full, nil}, nil, ""},
		"that is not enough":           {[]string{"a", "b", "c"}, 1, []error{full, full}, syscall.ENOSPC, "12"},
		"nothing can be deleted":       {nil, 1, []error{full}, syscall.ENOSPC, ""},
		"it fails for another reason":  {[]string{"a", "b", "c"}, 1, []error{os.ErrPermission}, os.ErrPermission, "012"},
		"the second time fails anyhow": {[]string{"a"}, 1, []error{full, os.ErrPermission}, os.ErrPermission, ""},
	} {
		t.Run(name, func(t *testing.T) {
			store := openStore(t)
			used := put(t, store, store.TempDir(), []byte("used"))
			archives := putUnused(t, store, test.archives...)
			calls := 0
			err := store.WithRoom(test.bytes, func() error {
				calls++
				return test.errs[calls-1]
			})
			if !errors.Is(err, test.want) || calls != len(test.errs) {
				t.Errorf("got %v after %d calls", err, calls)
			}
			if left := aside(store, archives); left != test.left || !store.IsStored(used) {
				t.Errorf("aside are %q, want %q", left, test.left)
			}
		})
	}
}

// What is set aside takes only the space that is left.
func TestMaxBytes(t *testing.T) {
	store := openStore(t)
	store.MaxBytes = 6
	archives := putUnused(t, store, "a", "b", "c")
	used := put(t, store, store.TempDir(), []byte("four"))
	if left := aside(store, archives); left != "12" {
		t.Errorf("after an archive was stored, aside are %q", left)
	}
	other := put(t, store, store.TempDir(), []byte("other"))
	if left := aside(store, archives); left != "" || !store.IsStored(used) || !store.IsStored(other) {
		t.Errorf("after another one was stored, aside are %q", left)
	}
	if err := store.RemoveUnused(map[digest.Digest]bool{other: true}, time.Now().Add(time.Hour)); err != nil || store.Has(used) || !store.IsStored(other) {
		t.Errorf("what does not fit was kept: %v", err)
	}
}
