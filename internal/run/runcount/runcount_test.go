package runcount

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func all(string) bool { return true }

func TestCounts(t *testing.T) {
	c := &Counts{}
	c.Run("File", "lpar1", "Succeeded", 900*time.Millisecond, 0)
	c.Run("File", "lpar1", "Succeeded", 20*time.Second, 1500*time.Millisecond)
	c.Run("File", "", "Failed", 24*time.Hour, -time.Second)
	c.Skip("File", 7)
	c.Skip("Dataset", 1)
	again, err := Parse(c.Marshal(all))
	if err != nil {
		t.Fatal(err)
	}
	want := &Counts{
		Kinds: map[string]*Kind{
			"File": {
				Outcomes: Outcomes{"Succeeded": 2, "Failed": 1}, Endpoints: map[string]Outcomes{"lpar1": {"Succeeded": 2}},
				Skipped: 7, Seconds: 86420.9, Buckets: []uint64{1, 0, 0, 1, 0, 0, 0, 0, 1}, Waited: 1.5,
			},
			"Dataset": {Skipped: 1},
		},
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Error(diff)
	}
	if runs := again.Kinds["File"].Runs(); runs != 3 {
		t.Errorf("%d runs", runs)
	}
}

// However many endpoints an operator sees, each run counts for its kind, and the endpoints with most runs keep their numbers.
func TestNoRunIsLostWithManyEndpoints(t *testing.T) {
	c := &Counts{}
	long := strings.Repeat("x", 200)
	for i := range 3000 {
		c.Run(fmt.Sprintf("Kind%d", i%20), fmt.Sprintf("gone-%s-%d", long, i), "Succeeded", time.Second, 0)
		c.Run(fmt.Sprintf("Kind%d", i%20), fmt.Sprintf("lpar%d", i%100), "Failed", time.Second, 0)
		if i%500 > 0 {
			continue
		}
		again, err := Parse(c.Marshal(func(endpoint string) bool { return strings.HasPrefix(endpoint, "lpar") }))
		if err != nil {
			t.Fatal(err)
		}
		c = again
	}
	text := c.Marshal(func(endpoint string) bool { return strings.HasPrefix(endpoint, "lpar") })
	if len(text) > MaxBytes {
		t.Errorf("%d bytes", len(text))
	}
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var runs, onEndpoints uint64
	for _, kind := range c.Kinds {
		runs += kind.Outcomes.runs()
		for _, outcomes := range kind.Endpoints {
			onEndpoints += outcomes["Failed"]
		}
	}
	if runs != 6000 || onEndpoints != 3000 {
		t.Errorf("%d runs, and %d on endpoints that exist", runs, onEndpoints)
	}
}

func TestEndpointsWithTheFewestRunsAreDropped(t *testing.T) {
	c := &Counts{}
	for i := range 5000 {
		c.Run("File", fmt.Sprintf("lpar%d", i), "Succeeded", time.Second, 0)
	}
	c.Run("File", "lpar4999", "Failed", time.Second, 0)
	text := c.Marshal(all)
	again, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	file := again.Kinds["File"]
	if file.Outcomes["Succeeded"] != 5000 || file.Endpoints["lpar4999"]["Failed"] != 1 {
		t.Errorf("got %v, and %v", file.Outcomes, file.Endpoints["lpar4999"])
	}
	if kept := len(file.Endpoints); kept < 2000 || kept >= maxEntries {
		t.Errorf("%d endpoints remain", kept)
	}
	if text != again.Marshal(all) {
		t.Error("what fits was changed")
	}
}

// A namespace may have 200 kinds: their numbers fit, also after ten thousand million runs of each.
func TestKindsFit(t *testing.T) {
	c := &Counts{}
	names := []string{"Succeeded", "Failed", "TimedOut", "Cancelled", "Interrupted", "Unreachable", "Refused", "Requeued"}
	for i := range maxKinds + 100 {
		kind := fmt.Sprintf("%060d%03d", 0, i)
		c.Run(kind, "lpar1", "Succeeded", time.Second, 0)
		if k := c.Kinds[kind]; k != nil {
			k.Skipped, k.Seconds, k.Waited = 9999999999, 9999999999.999, 9999999999.999
			for _, name := range names {
				k.Outcomes[name] = 9999999999
			}
			for bucket := range k.Buckets {
				k.Buckets[bucket] = 9999999999
			}
		}
	}
	again, err := Parse(c.Marshal(all))
	if err != nil || len(again.Kinds) != maxKinds {
		t.Fatalf("%d kinds, %v", len(again.Kinds), err)
	}
	for _, kind := range again.Kinds {
		kind.Skipped = math.MaxUint64
		for _, name := range append(names, "a", "b", "c", "d", "e", "f", "g", "h") {
			kind.Outcomes[name] = math.MaxUint64
		}
	}
	if text := again.Marshal(all); len(text) > MaxBytes || len(again.Kinds) < 100 {
		t.Errorf("%d bytes of %d kinds", len(text), len(again.Kinds))
	}
}

func TestParseRefusesWhatIsNoCount(t *testing.T) {
	endpoints := make([]string, maxEntries+1)
	for i := range endpoints {
		endpoints[i] = fmt.Sprintf(`"%d":{}`, i)
	}
	for name, annotation := range map[string]string{
		"no JSON":     "{",
		"negative":    `{"kinds":{"A":{"outcomes":{"Failed":-1}}}}`,
		"null":        `{"kinds":{"A":null}}`,
		"buckets":     `{"kinds":{"A":{"buckets":[1,1,1,1,1,1,1,1,1,1]}}}`,
		"seconds":     `{"kinds":{"A":{"seconds":-1}}}`,
		"long":        `{"kinds":{}` + strings.Repeat(" ", MaxBytes) + `}`,
		"endpoints":   `{"kinds":{"A":{"endpoints":{` + strings.Join(endpoints, ",") + `}}}}`,
		"not a count": `{"kinds":{"A":{"outcomes":{"Failed":"1"}}}}`,
	} {
		if counts, err := Parse(annotation); err == nil {
			t.Errorf("%s: got %+v", name, counts)
		}
	}
	if counts, err := Parse(""); err != nil || len(counts.Kinds) > 0 {
		t.Errorf("no annotation: got %+v, %v", counts, err)
	}
}
