package imports

import (
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/collection/model"
)

// DefaultLoadedBytes is the default of [CollectionCache.LoadedBytes].
const DefaultLoadedBytes = 128 << 20

// loadedTime is how long a collection is remembered that is not used. The controllers that need it after an import use it within
// seconds; later it is only needed when something changes.
const loadedTime = 2 * time.Minute

// loadedCollections are the collections that were used within loadedTime, as many as fit into a number of bytes.
type loadedCollections struct {
	mu   sync.Mutex
	used int64
	of   map[digest.Digest]*loadedCollection
}

type loadedCollection struct {
	collection *model.Collection
	bytes      int64
	// unload fires when it was not used for loadedTime.
	unload *time.Timer
}

func (l *loadedCollections) get(archive digest.Digest) *model.Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.of[archive]
	if found == nil {
		return nil
	}
	found.unload.Reset(loadedTime)
	return found.collection
}

// add remembers a collection, in place of any others if there is no room: they are loaded again when they are needed. One that alone
// needs more than a quarter of the limit is not remembered: it would displace many small ones.
func (l *loadedCollections) add(archive digest.Digest, loaded *model.Collection, limit int64) {
	bytes := sizeOf(loaded)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(archive)
	if bytes > limit/4 {
		return
	}
	for other := range l.of {
		if l.used+bytes <= limit {
			break
		}
		l.drop(other)
	}
	if l.of == nil {
		l.of = map[digest.Digest]*loadedCollection{}
	}
	l.of[archive] = &loadedCollection{loaded, bytes, time.AfterFunc(loadedTime, func() { l.remove(archive) })}
	l.used += bytes
}

func (l *loadedCollections) remove(archive digest.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(archive)
}

// drop is called with the lock.
func (l *loadedCollections) drop(archive digest.Digest) {
	if found := l.of[archive]; found != nil {
		found.unload.Stop()
		l.used -= found.bytes
		delete(l.of, archive)
	}
}

// bytesInMemory is about what a byte of the JSON of a collection takes in memory: more if it has many short values, less if it has long texts.
const bytesInMemory = 3

// sizeOf estimates how much memory a collection takes. Unlike its files, its JSON repeats what YAML aliases repeat.
func sizeOf(c *model.Collection) int64 {
	content, err := json.Marshal(c)
	if err != nil { // JSON lacks some numbers.
		return math.MaxInt64
	}
	return int64(len(content)) * bytesInMemory
}
