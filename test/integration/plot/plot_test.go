package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestFlood(t *testing.T) {
	flood := Flood{LimitBytes: 1 << 30, Parts: []Part{
		{Name: "nothing", End: 2, Installs: []float64{1, 2, 9}, Writes: []float64{0.1}}, {Name: "much", Begin: 2, End: 4, Installs: []float64{3, 3, 4}, Writes: []float64{0.2}},
	}, Memory: []Sample{{1, 50 << 20}, {3, 200 << 20}, {4, 100 << 20}}}
	for _, want := range []string{"| nothing | 2 s | 50 MiB | 3 | 2.0 s | 9.0 s | 1.0 | 1.0 |", "| much | 2 s | 200 MiB | 3 | 3.0 s | 4.0 s | 1.5 | 2.0 |"} {
		if table := flood.Table(); !strings.Contains(table, want+"\n") {
			t.Errorf("want %s in\n%s", want, table)
		}
	}
	for name := range Themes() {
		decoder := xml.NewDecoder(strings.NewReader(flood.SVG(name)))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
}
