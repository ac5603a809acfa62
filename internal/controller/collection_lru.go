package controller

import (
	"container/list"
	"reflect"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/collection"
)

// DefaultLoadedBytes is the default of [CollectionCache.LoadedBytes].
const DefaultLoadedBytes = 128 << 20

// loadedCollections are the collections that were used last, as many as fit into a number of bytes.
type loadedCollections struct {
	mu   sync.Mutex
	used int64
	// order has a *loadedCollection for each, the last used first.
	order list.List
	of    map[digest.Digest]*list.Element
}

type loadedCollection struct {
	digest     digest.Digest
	collection *collection.Collection
	bytes      int64
}

func (l *loadedCollections) get(archive digest.Digest) *collection.Collection {
	l.mu.Lock()
	defer l.mu.Unlock()
	element := l.of[archive]
	if element == nil {
		return nil
	}
	l.order.MoveToFront(element)
	return element.Value.(*loadedCollection).collection
}

// add remembers a collection and forgets those that were not used for the longest time, until at most limit bytes are used. One
// that alone needs more is not remembered.
func (l *loadedCollections) add(archive digest.Digest, loaded *collection.Collection, limit int64) {
	bytes := sizeOf(reflect.ValueOf(loaded))
	l.remove(archive)
	if bytes > limit {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.used+bytes > limit {
		l.removeElement(l.order.Back())
	}
	if l.of == nil {
		l.of = map[digest.Digest]*list.Element{}
	}
	l.of[archive] = l.order.PushFront(&loadedCollection{archive, loaded, bytes})
	l.used += bytes
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
