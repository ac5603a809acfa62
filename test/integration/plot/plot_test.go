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
		{Name: "nothing", End: 2, Before: Times{Installs: []float64{2}, Writes: []float64{0.1}}, During: Times{Installs: []float64{1, 2, 9}, Writes: []float64{0.1}}},
		{Name: "much", Begin: 2, End: 4, Before: Times{Installs: []float64{2}, Writes: []float64{0.1}}, During: Times{Installs: []float64{3, 3, 4}, Writes: []float64{0.2}}},
	}, Memory: []Sample{{1, 50 << 20}, {3, 200 << 20}, {4, 100 << 20}}}
	for _, want := range []string{
		"| nothing | 2 s | 50 MiB | 3 | 2.0 s | 2.0 s | 9.0 s | 1.0 | 1.0 |", "| much | 2 s | 200 MiB | 3 | 2.0 s | 3.0 s | 4.0 s | 1.5 | 2.0 |",
	} {
		if table := flood.Table(); !strings.Contains(table, want+"\n") {
			t.Errorf("want %s in\n%s", want, table)
		}
	}
	for name := range Themes() {
		expectXML(t, flood.SVG(name))
	}
}

func TestPanels(t *testing.T) {
	panels := []Panel{
		{Title: "Time in s", Series: []Series{{"ours", []Point{{10, 1.5}, {1000, 120}}}, {"kubectl", []Point{{10, 1}, {1000, 100}}}}},
		{Title: "Nothing was measured"},
	}
	for name := range Themes() {
		svg := Panels("Scale", "collections", name, panels)
		expectXML(t, svg)
		for _, want := range []string{">Time in s<", ">kubectl<", ">collections<", ">1000<", ">50<"} {
			if !strings.Contains(svg, want) {
				t.Errorf("%s: no %s in\n%s", name, want, svg)
			}
		}
	}
}

func expectXML(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
