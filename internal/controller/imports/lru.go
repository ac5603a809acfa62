package imports

import (
	"container/list"
	"reflect"
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

// loadedCollections are the collections that were used last, as many as fit into a number of bytes.
type loadedCollections struct {
	mu   sync.Mutex
	used int64
	// order has a *loadedCollection for each, the last used first.
	order list.List
	of    map[digest.Digest]*list.Element
	// dropping is true while a timer is set that drops those that are not used.
	dropping bool
}

type loadedCollection struct {
	digest     digest.Digest
	collection *model.Collection
	bytes      int64
	usedAt     time.Time
}

func (l *loadedCollections) get(archive digest.Digest) *model.Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	element := l.of[archive]
	if element == nil {
		return nil
	}
	l.order.MoveToFront(element)
	found := element.Value.(*loadedCollection)
	found.usedAt = time.Now()
	return found.collection
}

// add remembers a collection and forgets those that were not used for the longest time, until at most limit bytes are used. A large
// one takes the place of others that are at least as large, as long as there are any: many large ones do not displace all small
// ones. One that alone needs more than the limit is not remembered.
func (l *loadedCollections) add(archive digest.Digest, loaded *model.Collection, limit int64) {
	bytes := sizeOf(reflect.ValueOf(loaded))
	l.remove(archive)
	if bytes > limit {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.used+bytes > limit {
		l.removeElement(l.oldest(bytes))
	}
	if l.of == nil {
		l.of = map[digest.Digest]*list.Element{}
	}
	l.of[archive] = l.order.PushFront(&loadedCollection{archive, loaded, bytes, time.Now()})
	l.used += bytes
	l.dropLater(loadedTime)
}

// oldest returns the one that was not used for the longest time of those that take at least this many bytes, or else of all.
func (l *loadedCollections) oldest(bytes int64) *list.Element {
	for element := l.order.Back(); element != nil; element = element.Prev() {
		if element.Value.(*loadedCollection).bytes >= bytes {
			return element
		}
	}
	return l.order.Back()
}

// dropLater sets the timer, unless it is set.
func (l *loadedCollections) dropLater(after time.Duration) {
	if !l.dropping {
		l.dropping = true
		time.AfterFunc(after, l.dropUnused)
	}
}

// dropUnused forgets the collections that were not used for loadedTime.
func (l *loadedCollections) dropUnused() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropping = false
	for element := l.order.Back(); element != nil; element = l.order.Back() {
		if left := loadedTime - time.Since(element.Value.(*loadedCollection).usedAt); left > 0 {
			l.dropLater(left)
			return
		}
		l.removeElement(element)
	}
}

func (l *loadedCollections) remove(archive digest.Digest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if element := l.of[archive]; element != nil {
		l.removeElement(element)
	}
}

func (l *loadedCollections) removeElement(element *list.Element) {
	removed := l.order.Remove(element).(*loadedCollection)
	l.used -= removed.bytes
	delete(l.of, removed.digest)
}

// mapEntryBytes is about what a map needs for an entry beside key and value.
const mapEntryBytes = 32

// sizeOf estimates how much memory a value takes with all that it refers to. What is referred to twice counts twice.
func sizeOf(value reflect.Value) int64 {
	switch value.Kind() {
	case reflect.Invalid:
		return 0
	case reflect.Pointer, reflect.Interface:
		return int64(value.Type().Size()) + sizeOf(value.Elem())
	case reflect.String:
		return int64(value.Type().Size()) + int64(value.Len())
	case reflect.Struct:
		size := int64(value.Type().Size())
		for i := range value.NumField() {
			field := value.Field(i)
			size += sizeOf(field) - int64(field.Type().Size())
		}
		return size
	case reflect.Slice:
		size := int64(value.Type().Size()) + int64(value.Cap())*int64(value.Type().Elem().Size())
		for i := range value.Len() {
			size += sizeOf(value.Index(i)) - int64(value.Type().Elem().Size())
		}
		return size
	case reflect.Map:
		size := int64(value.Type().Size())
		for entries := value.MapRange(); entries.Next(); {
			size += mapEntryBytes + sizeOf(entries.Key()) + sizeOf(entries.Value())
		}
		return size
	}
	return int64(value.Type().Size())
}
