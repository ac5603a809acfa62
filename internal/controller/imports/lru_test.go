package imports

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// described is a collection with a description of a number of bytes.
func described(bytes int) *model.Collection {
	return &model.Collection{Description: strings.Repeat("x", bytes)}
}

func TestLoadedCollections(t *testing.T) {
	var loaded loadedCollections
	overhead := sizeOf(reflect.ValueOf(described(0)))
	limit := 3 * (overhead + 100)
	for _, name := range []digest.Digest{"a", "b", "c"} {
		loaded.add(name, described(100), limit)
	}
	if loaded.get("a") == nil { // It is used again.
		t.Fatal("a is not remembered")
	}
	loaded.add("d", described(100), limit)
	for name, want := range map[digest.Digest]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := loaded.get(name) != nil; got != want {
			t.Errorf("%s is remembered: %t", name, got)
		}
	}
	loaded.add("large", described(int(limit)), limit)
	if loaded.get("large") != nil || loaded.get("d") == nil {
		t.Error("one that is too large took the place of others")
	}
	for _, name := range []digest.Digest{"a", "c", "d", "d"} {
		loaded.remove(name)
	}
	if loaded.used != 0 || loaded.order.Len() != 0 || len(loaded.of) != 0 {
		t.Errorf("%d bytes are left", loaded.used)
	}
}

func TestLargeCollectionsTakeThePlaceOfLargeOnes(t *testing.T) {
	var loaded loadedCollections
	overhead := sizeOf(reflect.ValueOf(described(0)))
	limit := 4*overhead + 2200
	loaded.add("small", described(100), limit)
	for _, name := range []digest.Digest{"large-1", "large-2", "large-3", "large-4"} {
		loaded.add(name, described(1000), limit)
	}
	for name, want := range map[digest.Digest]bool{"small": true, "large-2": false, "large-3": true, "large-4": true} {
		if got := loaded.get(name) != nil; got != want {
			t.Errorf("%s is remembered: %t", name, got)
		}
	}
	loaded.add("larger", described(1100), limit)
	if loaded.get("larger") == nil || loaded.used > limit {
		t.Errorf("%d bytes are used of %d", loaded.used, limit)
	}
}

// Collections are only remembered while controllers use them: a manager with thousands of them must stay small.
func TestUnusedCollectionsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded loadedCollections
		loaded.add("unused", described(10), DefaultLoadedBytes)
		loaded.add("used", described(10), DefaultLoadedBytes)
		<-time.After(loadedTime / 2)
		loaded.get("used")
		<-time.After(loadedTime/2 + time.Second)
		loaded.mu.Lock()
		if len(loaded.of) != 1 || loaded.of["used"] == nil {
			t.Errorf("%d are remembered", len(loaded.of))
		}
		loaded.mu.Unlock()
		<-time.After(loadedTime)
		loaded.mu.Lock()
		defer loaded.mu.Unlock()
		if len(loaded.of) != 0 || loaded.used != 0 || loaded.dropping {
			t.Errorf("%d are remembered with %d bytes; a timer runs: %t", len(loaded.of), loaded.used, loaded.dropping)
		}
	})
}

// The estimate decides how much memory the manager takes.
func TestSizeOf(t *testing.T) {
	make500 := func() *model.Collection {
		c := &model.Collection{}
		for range 500 {
			resource := model.Resource{Description: strings.Repeat("d", 500)}
			for range 50 {
				resource.Vars = append(resource.Vars, model.Var{
					Name: strings.Repeat("n", 10), Description: strings.Repeat("d", 50), Options: []string{strings.Clone("a"), strings.Clone("b")},
					Default: map[string]any{"a": []any{"x", int64(1)}},
				})
			}
			c.Resources = append(c.Resources, resource)
		}
		return c
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	c := make500()
	runtime.GC()
	runtime.ReadMemStats(&after)
	taken, estimate := int64(after.HeapAlloc-before.HeapAlloc), sizeOf(reflect.ValueOf(c))
	runtime.KeepAlive(c)
	if estimate < taken/2 || estimate > 2*taken {
		t.Errorf("estimated %d bytes, it takes %d", estimate, taken)
	}
}
