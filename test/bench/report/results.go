package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Results are the measurements in a folder, by the number of collections or namespaces.
type Results struct {
	Install, Waiting, Mapping map[int][]Scale
	Peers                     map[string]map[int][]Peer
	// Profiles are texts by the name of their file.
	Profiles map[string]string
}

// Read reads all measurements of a folder.
func Read(folder string) (*Results, error) {
	r := &Results{
		Install: map[int][]Scale{}, Waiting: map[int][]Scale{}, Mapping: map[int][]Scale{},
		Peers: map[string]map[int][]Peer{"kubectl": {}, "helm": {}}, Profiles: map[string]string{},
	}
	files, err := filepath.Glob(filepath.Join(folder, "*-*"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := r.add(file); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return r, nil
}

func (r *Results) add(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	if strings.HasSuffix(name, ".txt") {
		r.Profiles[name] = string(content)
		return nil
	}
	kind, _, _ := strings.Cut(name, "-")
	scales := map[string]map[int][]Scale{"install": r.Install, "waiting": r.Waiting, "mapping": r.Mapping}
	if into, found := scales[kind]; found {
		var s Scale
		err := json.Unmarshal(content, &s)
		count := max(s.Collections, s.Namespaces)
		into[count] = append(into[count], s)
		return err
	}
	if into, found := r.Peers[kind]; found {
		var p Peer
		err := json.Unmarshal(content, &p)
		into[p.Collections] = append(into[p.Collections], p)
		return err
	}
	return nil
}

// spread is the median of values, with the least and the greatest if there are several.
func spread(values []float64, format string) string {
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	text := fmt.Sprintf(format, middle(values))
	if len(values) > 1 {
		text += fmt.Sprintf(" ("+format+" to "+format+")", values[0], values[len(values)-1])
	}
	return text
}

// middle is the median, 0 without values.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// of is a figure of a phase in each of several measurements. Those without the phase are left out.
func of(measured []Scale, phase string, figure func(*Phase) float64) []float64 {
	var values []float64
	for i := range measured {
		for j := range measured[i].Phases {
			if p := &measured[i].Phases[j]; p.Name == phase {
				values = append(values, figure(p))
			}
		}
	}
	return values
}

func seconds(p *Phase) float64    { return p.Seconds }
func cpuSeconds(p *Phase) float64 { return p.CPUSeconds }
func mebibytes(p *Phase) float64  { return float64(p.PeakBytes) / (1 << 20) }
func requests(p *Phase) float64   { return float64(p.Total()) }
func perObject(p *Phase) float64  { return p.PerObject() }
func writes(p *Phase) float64     { return float64(p.Writes) }

func perSecond(p *Phase) float64 { return float64(p.Total()) / p.Seconds }

func dryRunsPerSecond(p *Phase) float64 {
	dryRuns := 0
	for _, r := range p.Requests {
		if r.DryRun {
			dryRuns += r.Count
		}
	}
	return float64(dryRuns) / p.Seconds
}
