package process

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/test/apiserver"
)

func TestOutputHasTheResource(t *testing.T) {
	reader, writer, err := os.Pipe()
	apiserver.Must(t, err)
	o := &Output{File: writer, line: outputLine{Run: "42"}}
	o.SetResource("Region", "team", "one")
	lines := make(chan []outputLine)
	go func() {
		var got []outputLine
		scanner := bufio.NewScanner(reader)
		scanner.Buffer(nil, 1<<20)
		for scanner.Scan() {
			var line outputLine
			if json.Unmarshal(scanner.Bytes(), &line) == nil {
				got = append(got, line)
			}
		}
		lines <- got
	}()
	long := strings.Repeat("x", maxLineBytes)
	o.copyLines(strings.NewReader("PLAY\r\n\n\xffTASK\n" + long + "y\nend"))
	apiserver.Must(t, writer.Close())
	got := <-lines
	var texts []string
	for _, line := range got {
		texts = append(texts, line.Line)
		if _, err := time.Parse(time.RFC3339Nano, line.Time); err != nil {
			t.Error(err)
		}
		line.Time, line.Line = "", ""
		if diff := cmp.Diff(outputLine{Kind: "Region", Namespace: "team", Name: "one", Run: "42"}, line); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"PLAY", "", "?TASK", long, "y", "end"}, texts); diff != "" {
		t.Error(diff)
	}
	if want := []string{"PLAY", "?TASK", long, "y", "end"}; !slices.Equal(o.Last, want) {
		t.Errorf("last lines %d", len(o.Last))
	}
}
