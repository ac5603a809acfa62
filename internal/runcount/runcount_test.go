package runcount

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCounts(t *testing.T) {
	c := &Counts{}
	c.Run("File", "lpar1", "Succeeded", 900*time.Millisecond, 0)
	c.Run("File", "lpar1", "Succeeded", 20*time.Second, 1500*time.Millisecond)
	c.Run("File", "lpar1", "Failed", 24*time.Hour, -time.Second)
	c.Skip("File", 7)
	c.Skip("Dataset", 1)
	again, err := Parse(c.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	want := &Counts{
		Rows: []Row{{"File", "lpar1", "Succeeded", 2}, {"File", "lpar1", "Failed", 1}},
		Kinds: map[string]*Kind{
			"File":    {Skipped: 7, Seconds: 86420.9, Buckets: []uint64{1, 0, 0, 1, 0, 0, 0, 0, 1}, Waited: 1.5},
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

func TestCountsAreBounded(t *testing.T) {
	c := &Counts{}
	for i := range 2000 {
		c.Run(fmt.Sprintf("Kind%d", i%2), fmt.Sprintf("endpoint-%s-%d", strings.Repeat("x", 200), i), "Succeeded", time.Second, 0)
	}
	var counted uint64
	for _, row := range c.Rows {
		counted += row.Count
	}
	if len(c.Rows) > maxRows || counted != 2000 {
		t.Errorf("%d rows of %d runs", len(c.Rows), counted)
	}
	if text := c.Marshal(); len(text) > maxBytes {
		t.Errorf("%d bytes", len(text))
	} else if _, err := Parse(text); err != nil {
		t.Error(err)
	}
	for i := range 1000 {
		c.Skip(fmt.Sprintf("Other%d", i), 1)
	}
	if len(c.Kinds) > maxKinds {
		t.Errorf("%d kinds", len(c.Kinds))
	}
}

func TestParseRefusesWhatIsNoCount(t *testing.T) {
	for name, annotation := range map[string]string{
		"no JSON":     "{",
		"negative":    `{"rows":[{"kind":"A","outcome":"Failed","count":-1}]}`,
		"null":        `{"kinds":{"A":null}}`,
		"buckets":     `{"kinds":{"A":{"buckets":[1,1,1,1,1,1,1,1,1,1]}}}`,
		"seconds":     `{"kinds":{"A":{"seconds":-1}}}`,
		"long":        `{"rows":[]` + strings.Repeat(" ", maxBytes) + `}`,
		"rows":        `{"rows":[` + strings.TrimSuffix(strings.Repeat(`{"kind":"A","outcome":"B","count":1},`, maxRows+1), ",") + `]}`,
		"not a count": `{"rows":[{"kind":"A","outcome":"Failed","count":"1"}]}`,
	} {
		if counts, err := Parse(annotation); err == nil {
			t.Errorf("%s: got %+v", name, counts)
		}
	}
	if counts, err := Parse(""); err != nil || len(counts.Rows) > 0 {
		t.Errorf("no annotation: got %+v, %v", counts, err)
	}
}
