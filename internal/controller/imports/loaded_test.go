package imports

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/opencontainers/go-digest"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// described is a collection with a description of a number of bytes.
func described(bytes int) *model.Collection {
	return &model.Collection{Description: strings.Repeat("x", bytes)}
}

func TestLoadedCollections(t *testing.T) {
	var loaded loadedCollections
	limit := 8 * sizeOf(described(100))
	for _, name := range []digest.Digest{"a", "b", "c", "e", "f", "g", "h", "i", "d"} {
		loaded.add(name, described(100), limit)
	}
	if loaded.get("d") == nil || len(loaded.of) != 8 || loaded.used != limit {
		t.Errorf("%d are remembered with %d bytes", len(loaded.of), loaded.used)
	}
	loaded.add("large", described(int(limit)/4/bytesInMemory), limit)
	if loaded.get("large") != nil || loaded.get("d") == nil {
		t.Error("one that is too large took the place of others")
	}
	loaded.add("d", described(150), limit)
	if loaded.get("d") == nil || loaded.used > limit {
		t.Errorf("%d bytes are used", loaded.used)
	}
	for _, name := range []digest.Digest{"a", "b", "c", "d", "d", "e", "f", "g", "h", "i"} {
		loaded.remove(name)
	}
	if loaded.used != 0 || len(loaded.of) != 0 {
		t.Errorf("%d bytes are left", loaded.used)
	}
}

// Collections are only remembered while controllers use them: a manager with thousands of them must stay small.
func TestUnusedCollectionsAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded loadedCollections
		loaded.add("unused", described(10), DefaultLoadedBytes)
		loaded.add("used", described(10), DefaultLoadedBytes)
		expect := func(want ...digest.Digest) {
			t.Helper()
			synctest.Wait()
			loaded.mu.Lock()
			defer loaded.mu.Unlock()
			if len(loaded.of) != len(want) || loaded.used != int64(len(want))*sizeOf(described(10)) {
				t.Errorf("%d are remembered with %d bytes", len(loaded.of), loaded.used)
			}
			for _, name := range want {
				if loaded.of[name] == nil {
					t.Errorf("%s is not remembered", name)
				}
			}
		}
		<-time.After(loadedTime / 2)
		loaded.get("used")
		<-time.After(loadedTime/2 + time.Second)
		expect("used")
		<-time.After(loadedTime)
		expect()
	})
}

// The estimate decides how much memory the manager takes.
func TestSizeOf(t *testing.T) {
	for name, test := range map[string]struct {
		description int
		options     []string
		value       any
	}{
		"short values":      {description: 1},
		"long descriptions": {description: 2000},
		"lists":             {description: 50, options: []string{"a", "b"}, value: map[string]any{"a": []any{"x", int64(1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.GC() // What pools of json had is gone with the second one.
			runtime.ReadMemStats(&before)
			c := &model.Collection{}
			for range 100 {
				resource := model.Resource{Description: strings.Repeat("d", test.description)}
				for range 100 {
					v := model.Var{Name: strings.Repeat("n", 10), Description: strings.Repeat("d", test.description), Options: slices.Clone(test.options)}
					if test.value != nil {
						v.Default = k8sruntime.DeepCopyJSONValue(test.value)
					}
					resource.Vars = append(resource.Vars, v)
				}
				c.Resources = append(c.Resources, resource)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			taken, estimate := int64(after.HeapAlloc-before.HeapAlloc), sizeOf(c)
			runtime.KeepAlive(c)
			if estimate < taken/3 || estimate > 3*taken {
				t.Errorf("estimated %d bytes, it takes %d", estimate, taken)
			}
		})
	}
	if sizeOf(&model.Collection{Resources: []model.Resource{{Vars: []model.Var{{Default: math.NaN()}}}}}) <= DefaultLoadedBytes {
		t.Error("what is not JSON is remembered")
	}
}
