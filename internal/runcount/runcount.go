// Package runcount has the numbers of an operator's runs, as counters that only grow. The operator keeps them in an annotation of its
// Lease, from which the manager makes metrics: they survive the pods of both, and neither needs a port for the other.
package runcount

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// Annotation on the Lease of an operator has its Counts.
	Annotation = "zoscb.ibm.com/run-counts"
	// Label on that Lease, with the value "true", selects those that the manager caches.
	Label = "zoscb.ibm.com/run-counts"

	// maxBytes is the size from which on counts are not read.
	maxBytes = 128 << 10
	// maxRows is the number of different rows. Runs that would need another one count for no endpoint, and then not at all.
	maxRows = 400
	// maxKinds is the number of different kinds.
	maxKinds = 500
)

// Bounds are the upper bounds of the buckets of durations, in seconds. Those of earlier versions must not change.
var Bounds = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600}

// Counts are the numbers of all runs of an operator. The zero value is that of an operator that never ran anything.
type Counts struct {
	Rows []Row `json:"rows,omitempty"`
	// Kinds by their names.
	Kinds map[string]*Kind `json:"kinds,omitempty"`
}

// Row counts the runs of a kind on an endpoint with an outcome. The endpoint is the name of a ZosEndpoint, or empty if there are too many.
type Row struct {
	Kind     string `json:"kind"`
	Endpoint string `json:"endpoint,omitempty"`
	Outcome  string `json:"outcome"`
	Count    uint64 `json:"count"`
}

// Kind counts the runs of a kind.
type Kind struct {
	// Skipped is how often no run was needed.
	Skipped uint64 `json:"skipped,omitempty"`
	// Seconds is the sum of the durations of runs, and Buckets the number of runs in each of Bounds, and longer ones: a run counts in one.
	Seconds float64  `json:"seconds,omitempty"`
	Buckets []uint64 `json:"buckets,omitempty"`
	// Waited is the sum of the seconds that runs waited for their endpoint.
	Waited float64 `json:"waited,omitempty"`
}

// Runs returns the number of runs.
func (k *Kind) Runs() uint64 {
	var sum uint64
	for _, count := range k.Buckets {
		sum += count
	}
	return sum
}

// Parse reads an annotation. Anybody who may write Leases can write it: the result has no more than the limits of this package, and no
// negative numbers.
func Parse(annotation string) (*Counts, error) {
	c := &Counts{}
	if annotation == "" {
		return c, nil
	}
	if len(annotation) > maxBytes {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", Annotation, len(annotation), maxBytes)
	}
	if err := json.Unmarshal([]byte(annotation), c); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if len(c.Rows) > maxRows || len(c.Kinds) > maxKinds {
		return nil, fmt.Errorf("annotation %s has too many counters", Annotation)
	}
	for _, kind := range c.Kinds {
		if kind == nil || len(kind.Buckets) > len(Bounds)+1 || !(kind.Seconds >= 0) || !(kind.Waited >= 0) {
			return nil, errors.New("annotation " + Annotation + " has counters that cannot be")
		}
	}
	return c, nil
}

// Marshal returns the annotation: the same text for equal counts.
func (c *Counts) Marshal() string {
	content, err := json.Marshal(c)
	if err != nil {
		return "" // Only numbers that are infinite cannot be written, and sums of durations are not.
	}
	return string(content)
}

// Run counts a run that ended: how long it took, and how long it waited for its endpoint before.
func (c *Counts) Run(kind, endpoint, outcome string, took, waited time.Duration) {
	if row := c.row(kind, endpoint, outcome); row != nil {
		row.Count++
	}
	k := c.kind(kind)
	if k == nil {
		return
	}
	k.Buckets = append(k.Buckets, make([]uint64, len(Bounds)+1-len(k.Buckets))...)
	bucket, _ := slices.BinarySearch(Bounds, took.Seconds())
	k.Buckets[bucket]++
	k.Seconds += milliseconds(took)
	k.Waited += milliseconds(waited)
}

// milliseconds returns seconds that are not negative, with three digits.
func milliseconds(d time.Duration) float64 { return math.Round(max(0, d.Seconds())*1000) / 1000 }

// Skip counts how often no run was needed.
func (c *Counts) Skip(kind string, times uint64) {
	if k := c.kind(kind); k != nil && times > 0 {
		k.Skipped += times
	}
}

// row returns the row to count a run in, or nil if there are too many.
func (c *Counts) row(kind, endpoint, outcome string) *Row {
	for _, wanted := range []Row{{Kind: kind, Endpoint: endpoint, Outcome: outcome}, {Kind: kind, Outcome: outcome}} {
		i := slices.IndexFunc(c.Rows, func(r Row) bool {
			return r.Kind == wanted.Kind && r.Endpoint == wanted.Endpoint && r.Outcome == wanted.Outcome
		})
		if i >= 0 {
			return &c.Rows[i]
		}
		// The last quarter is for runs of endpoints that have no row of their own.
		if len(c.Rows) < maxRows*3/4 || wanted.Endpoint == "" && len(c.Rows) < maxRows {
			c.Rows = append(c.Rows, wanted)
			return &c.Rows[len(c.Rows)-1]
		}
	}
	return nil
}

// kind returns the counters of a kind, or nil if there are too many.
func (c *Counts) kind(name string) *Kind {
	if found := c.Kinds[name]; found != nil || len(c.Kinds) >= maxKinds {
		return found
	}
	if c.Kinds == nil {
		c.Kinds = map[string]*Kind{}
	}
	c.Kinds[name] = &Kind{}
	return c.Kinds[name]
}
