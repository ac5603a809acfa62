package metrics

import (
	"time"
)

func ReadyOf(kind string) func(after time.Duration) {
	return func(after time.Duration) { BecameReady(kind, after) }
}
