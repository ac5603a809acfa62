package pace

import (
	"math/rand/v2"
	"time"
)

// Jitter is the interval, give or take a tenth, so that repeated work spreads over time.
func Jitter(interval time.Duration) time.Duration {
	return interval + time.Duration((rand.Float64()-0.5)*0.2*float64(interval))
}
