// Package report renders what the benchmarks measured.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/collection-operator/collection-operator/test/fixture"
)

// Scale is a measurement with many collections.
type Scale struct {
	// Collections are installed in one namespace each, or one is in as many Namespaces.
	Collections int     `json:"collections,omitempty"`
	Namespaces  int     `json:"namespaces,omitempty"`
	Machine     Machine `json:"machine"`
	Phases      []Phase `json:"phases"`
}

// Phase is what the manager used while something went on.
type Phase struct {
	Name       string  `json:"name"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
	// PeakBytes is the most resident memory.
	PeakBytes int64 `json:"peakBytes"`
	// Requests to the API server.
	Requests []Requests `json:"requests"`
	// Objects is the number of objects that were written, and Writes how often in all. Events are left out.
	Objects int `json:"objects"`
	Writes  int `json:"writes"`
}

// Requests is how often the same was asked for.
type Requests struct {
	fixture.Request
	Count int `json:"count"`
}

// SetRequests stores what was counted.
func (p *Phase) SetRequests(requests *fixture.Requests) {
	p.Requests = nil
	for request, count := range requests.Counts {
		p.Requests = append(p.Requests, Requests{request, count})
	}
	sortRequests(p.Requests)
	p.Objects, p.Writes = len(requests.Written), requests.Writes()
}

// Write stores a measurement in a file.
func Write(file string, measurement any) error {
	content, err := json.MarshalIndent(measurement, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o644)
}

// Text is a summary in Markdown.
func (s *Scale) Text() string {
	var b strings.Builder
	b.WriteString("| phase | time | CPU | most memory | requests | objects written | writes | requests per object |\n|---|---|---|---|---|---|---|---|\n")
	for i := range s.Phases {
		p := &s.Phases[i]
		fmt.Fprintf(&b, "| %s | %.1f s | %.1f s | %d MiB | %d | %d | %d | %.1f |\n", p.Name, p.Seconds, p.CPUSeconds, p.PeakBytes>>20, p.Total(), p.Objects, p.Writes, p.PerObject())
	}
	for i := range s.Phases {
		p := &s.Phases[i]
		fmt.Fprintf(&b, "\n%s\n\n%s", p.Name, p.RequestTable(max(s.Collections, s.Namespaces)))
	}
	return b.String()
}
