package suboperatorconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxSeen is the maximum number of objects of which the manager knows what it has seen last.
const maxSeen = 1 << 14

// lastSeen reads objects live, and from the cache if that has what was read live or written last. Then a live read would tell nothing
// new but a change that the cache is about to report. It is safe for concurrent use.
type lastSeen struct {
	cache, live client.Reader
	// versions has resourceVersions.
	versions *lru.Cache
}

// seenBy names an object, and for whom it was read.
type seenBy struct{ reader, object types.UID }

func newLastSeen(cache, live client.Reader) *lastSeen {
	return &lastSeen{cache: cache, live: live, versions: lru.New(maxSeen)}
}

// get reads an object for the one with the UID reader, which may be "".
func (l *lastSeen) get(ctx context.Context, reader types.UID, key client.ObjectKey, into client.Object) error {
	if err := l.cache.Get(ctx, key, into); err == nil {
		if seen, ok := l.versions.Get(seenBy{reader, into.GetUID()}); ok && seen == into.GetResourceVersion() {
			return nil
		}
	}
	return l.getLive(ctx, reader, key, into)
}

// getLive reads an object live.
func (l *lastSeen) getLive(ctx context.Context, reader types.UID, key client.ObjectKey, into client.Object) error {
	err := l.live.Get(ctx, key, into)
	if err == nil {
		l.remember(reader, into)
	}
	return err
}

// remember notes that an object was read live, or written.
func (l *lastSeen) remember(reader types.UID, object client.Object) {
	l.versions.Add(seenBy{reader, object.GetUID()}, object.GetResourceVersion())
}
