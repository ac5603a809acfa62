package metrics

import (
	"time"
)

// ReadyOf returns [BecameReady] for a kind.
func ReadyOf(kind string) func(after time.Duration) {
	return func(after time.Duration) { BecameReady(kind, after) }
}
