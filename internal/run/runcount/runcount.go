// Package runcount has the numbers of an operator's runs, as counters that only grow. The operator keeps them in an annotation of its
// Lease, from which the manager makes metrics: they survive the pods of both, and neither needs a port for the other.
package runcount

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

const (
	// Annotation on the Lease of an operator has its Counts.
	Annotation = "zoscb.ibm.com/run-counts"
	// Label on that Lease, with the value "true", selects those that the manager caches.
	Label = "zoscb.ibm.com/run-counts"

	// MaxBytes is the size of the longest annotation that is written, and read.
	MaxBytes = 96 << 10
	// maxKinds is the number of different kinds. A namespace may have no more by default: --max-kinds-per-namespace.
	maxKinds = 200
	// maxEntries is the number of kinds with endpoints, and maxOutcomes that of outcomes of one, in all that is read.
	maxEntries, maxOutcomes = 4000, 16
)

// Bounds are the upper bounds of the buckets of durations, in seconds. Those of earlier versions must not change.
var Bounds = []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600}

// Counts are the numbers of all runs of an operator. The zero value is that of an operator that never ran anything.
type Counts struct {
	// Kinds by their names.
	Kinds map[string]*Kind `json:"kinds,omitempty"`
}

// Outcomes has the number of runs by their outcome.
type Outcomes map[string]uint64

func (o Outcomes) runs() uint64 {
	var sum uint64
	for _, count := range o {
		sum += count
	}
	return sum
}

// Kind counts the runs of a kind.
type Kind struct {
	// Outcomes of all runs.
	Outcomes Outcomes `json:"outcomes,omitempty"`
	// Endpoints has the outcomes of the runs on each ZosEndpoint. Some are missing if there are too many.
	Endpoints map[string]Outcomes `json:"endpoints,omitempty"`
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
	if len(annotation) > MaxBytes {
		return nil, fmt.Errorf("annotation %s has %d bytes, more than %d", Annotation, len(annotation), MaxBytes)
	}
	if err := json.Unmarshal([]byte(annotation), c); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return c, nil
}

func (c *Counts) check() error {
	entries := len(c.Kinds)
	for _, kind := range c.Kinds {
		if kind == nil || len(kind.Buckets) > len(Bounds)+1 || !(kind.Seconds >= 0) || !(kind.Waited >= 0) || len(kind.Outcomes) > maxOutcomes {
			return errors.New("it has counters that cannot be")
		}
		entries += len(kind.Endpoints)
		for _, outcomes := range kind.Endpoints {
			if len(outcomes) > maxOutcomes {
				return errors.New("it has counters that cannot be")
			}
		}
	}
	if len(c.Kinds) > maxKinds || entries > maxEntries {
		return errors.New("it has too many counters")
	}
	return nil
}

// Marshal returns the annotation: the same text for equal counts, of at most MaxBytes. What does not fit is removed: first the endpoints
// that do not exist, then those with the fewest runs. Nothing of the numbers of kinds is lost, unless they alone do not fit.
func (c *Counts) Marshal(exists func(endpoint string) bool) string {
	content := c.text()
	if len(content) <= MaxBytes && c.check() == nil {
		return content
	}
	for _, kind := range c.Kinds {
		maps.DeleteFunc(kind.Endpoints, func(endpoint string, _ Outcomes) bool { return !exists(endpoint) })
	}
	c.dropEndpoints()
	for content = c.text(); len(content) > MaxBytes; content = c.text() {
		fewest := slices.MinFunc(slices.Sorted(maps.Keys(c.Kinds)), func(a, b string) int {
			return cmp.Compare(c.Kinds[a].Runs(), c.Kinds[b].Runs())
		})
		delete(c.Kinds, fewest)
	}
	return content
}

func (c *Counts) text() string {
	content, err := json.Marshal(c)
	if err != nil {
		return "" // Only numbers that are infinite cannot be written, and sums of durations are not.
	}
	return string(content)
}

// dropEndpoints removes the endpoints of kinds with the fewest runs until the rest fits.
func (c *Counts) dropEndpoints() {
	type entry struct {
		kind, endpoint string
		runs           uint64
		bytes          int
	}
	var entries []entry
	for name, kind := range c.Kinds {
		for endpoint, outcomes := range kind.Endpoints {
			text, _ := json.Marshal(map[string]Outcomes{endpoint: outcomes})
			entries = append(entries, entry{name, endpoint, outcomes.runs(), len(text) - 1}) // A comma instead of two braces.
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.runs, b.runs), cmp.Compare(b.kind, a.kind), cmp.Compare(b.endpoint, a.endpoint))
	})
	size, rest := len(c.text()), len(entries)+len(c.Kinds)
	for _, e := range entries {
		if size <= MaxBytes && rest <= maxEntries {
			return
		}
		delete(c.Kinds[e.kind].Endpoints, e.endpoint)
		size, rest = size-e.bytes, rest-1
	}
}

// Run counts a run that ended: how long it took, and how long it waited for its endpoint before. The endpoint is the name of a
// ZosEndpoint, or empty if that does not exist.
func (c *Counts) Run(kind, endpoint, outcome string, took, waited time.Duration) {
	k := c.kind(kind)
	if k == nil {
		return
	}
	if k.Outcomes == nil {
		k.Outcomes = Outcomes{}
	}
	k.Outcomes[outcome]++
	if endpoint != "" {
		k.onEndpoint(endpoint)[outcome]++
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

func (k *Kind) onEndpoint(name string) Outcomes {
	if k.Endpoints == nil {
		k.Endpoints = map[string]Outcomes{}
	}
	if k.Endpoints[name] == nil {
		k.Endpoints[name] = Outcomes{}
	}
	return k.Endpoints[name]
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
