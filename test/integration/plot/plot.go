// Package plot draws what floods and benchmarks measured.
package plot

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Flood is what was measured in a flood.
type Flood struct {
	// LimitBytes is the manager's memory limit.
	LimitBytes int64 `json:"limitBytes"`
	// Parts of the flood, of which the first is the time before it.
	Parts []Part `json:"parts"`
	// Memory of the manager over time.
	Memory []Sample `json:"memory"`
}

// Part is one kind of flood, and the installations beside it.
type Part struct {
	Name string `json:"name"`
	// Begin and End are in seconds since the measurement began.
	Begin float64 `json:"begin"`
	End   float64 `json:"end"`
	// Before has what was measured right before the flood, and During what was measured in it.
	Before Times `json:"before"`
	During Times `json:"during"`
}

// Times of what was measured, in seconds.
type Times struct {
	// Installs are those of installations in other namespaces.
	Installs []float64 `json:"installs"`
	// Writes are those of 25 writes with which the manager has nothing to do.
	Writes []float64 `json:"writes"`
}

// Sample is the resident memory at a time.
type Sample struct {
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
}

// MostBytes is the greatest memory of all samples.
func (f *Flood) MostBytes() int64 { return f.mostBetween(0, f.seconds()) }

func (f *Flood) seconds() float64 {
	if len(f.Memory) == 0 {
		return 1
	}
	return f.Memory[len(f.Memory)-1].Seconds
}

func (f *Flood) mostBetween(begin, end float64) int64 {
	var most int64
	for _, sample := range f.Memory {
		if sample.Seconds >= begin && sample.Seconds <= end {
			most = max(most, sample.Bytes)
		}
	}
	return most
}

func median(times []float64) float64 {
	if len(times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(times))[len(times)/2]
}

// ratio of two medians, or 0 if there is nothing to compare with.
func ratio(times, base []float64) float64 {
	if median(base) == 0 {
		return 0
	}
	return median(times) / median(base)
}

// Table is a table in Markdown: for each part the memory, and how long installations took, also as the ratio of the medians in the
// flood to those right before it. The same ratio of writes that the manager has nothing to do with tells how busy the API server and
// the machine were.
func (f *Flood) Table() string {
	var b strings.Builder
	b.WriteString("| flood | time | most memory | installs | before | median | slowest | ratio | ratio of 25 writes |\n|---|---|---|---|---|---|---|---|---|\n")
	for i := range f.Parts {
		part := &f.Parts[i]
		slowest := 0.0
		if len(part.During.Installs) > 0 {
			slowest = slices.Max(part.During.Installs)
		}
		fmt.Fprintf(&b, "| %s | %.0f s | %d MiB | %d | %.1f s | %.1f s | %.1f s | %.1f | %.1f |\n",
			part.Name, part.End-part.Begin, f.mostBetween(part.Begin, part.End)>>20, len(part.During.Installs), median(part.Before.Installs),
			median(part.During.Installs), slowest, ratio(part.During.Installs, part.Before.Installs), ratio(part.During.Writes, part.Before.Writes))
	}
	return b.String()
}

type theme struct{ background, text, grid, line, limit, third string }

var themes = map[string]theme{
	"light": {"#ffffff", "#24292f", "#d0d7de", "#0969da", "#cf222e", "#1a7f37"},
	"dark":  {"#0d1117", "#e6edf3", "#30363d", "#58a6ff", "#ff7b72", "#3fb950"},
}

// Themes are the names of the colors that SVG knows.
func Themes() iter.Seq[string] { return maps.Keys(themes) }

// Size of the plot, and its margins.
const (
	width, height            = 800, 340
	left, right, top, bottom = 60, 20, 20, 80
)

// SVG draws the memory over time, with the limit and the parts.
func (f *Flood) SVG(name string) string {
	colors := themes[name]
	most := 1.1 * float64(max(f.LimitBytes, f.MostBytes()))
	x := func(seconds float64) float64 { return left + (width-left-right)*seconds/f.seconds() }
	y := func(bytes float64) float64 { return height - bottom - (height-top-bottom)*bytes/most }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n", width, height, colors.text)
	fmt.Fprintf(&b, "<title>Memory of the manager in a flood</title>\n<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", width, height, colors.background)
	for bytes := 0.0; bytes <= most; bytes += 256 << 20 {
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%.0f MiB</text>`+"\n",
			left, y(bytes), width-right, colors.grid, left-5, y(bytes)+4, bytes/(1<<20))
	}
	for i, part := range f.Parts {
		fmt.Fprintf(&b, `<path d="M%.1f %dV%d" stroke="%s" stroke-dasharray="3"/><text x="%.1f" y="%d">%d</text>`+"\n",
			x(part.Begin), top, height-bottom, colors.grid, x(part.Begin)+3, top+10, i+1)
		fmt.Fprintf(&b, `<text x="%d" y="%d" font-size="11">%d %s</text>`+"\n", left+(i%2)*(width-left)/2, height-bottom+36+(i/2)*16, i+1, part.Name)
	}
	fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s" stroke-width="1.5"/><text x="%d" y="%.1f" text-anchor="end" fill="%s">limit</text>`+"\n",
		left, y(float64(f.LimitBytes)), width-right, colors.limit, width-right, y(float64(f.LimitBytes))-4, colors.limit)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%.0f s</text>`+"\n", width-right, height-bottom+16, f.seconds())
	b.WriteString(`<polyline fill="none" stroke="` + colors.line + `" stroke-width="1.5" points="`)
	for _, sample := range f.Memory {
		fmt.Fprintf(&b, "%.1f,%.1f ", x(sample.Seconds), y(float64(sample.Bytes)))
	}
	b.WriteString("\"/>\n</svg>\n")
	return b.String()
}
