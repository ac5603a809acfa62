package suboperatorconfig

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/status"
)

// waits let the delays grow with which objects are looked at again that wait for what is not watched: a foreign object that is in the
// way, permissions that were bound without a label, playbooks that end, or what the Operator Lifecycle Manager does. They begin again
// when an object waits for something else. They are safe for concurrent use.
type waits struct{ since *lru.Cache }

// wait is what an object waits for.
type wait struct {
	text  string
	since time.Time
}

func newWaits() *waits { return &waits{since: lru.New(maxSeen)} }

// delay returns after which time an object is looked at again that waits for what a text says. That of a conflict does not grow.
func (w *waits) delay(object types.UID, text string, delay time.Duration, now time.Time) time.Duration {
	if delay <= 0 {
		w.since.Remove(object)
	}
	if delay <= intervals.Conflict {
		return delay
	}
	if found, ok := w.since.Get(object); ok && found.(wait).text == text {
		return status.Later(delay, now.Sub(found.(wait).since))
	}
	w.since.Add(object, wait{text: text, since: now})
	return delay
}
