package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/collection-operator/collection-operator/test/integration/plot"
)

// profileLines are shown of each profile. The file has more.
const profileLines = 16

// Markdown is the section of docs/benchmarks.md, which refers to files in a folder beside it.
func (r *Results) Markdown(folder string) string {
	var b strings.Builder
	counts := slices.Sorted(maps.Keys(r.Install))
	if len(counts) > 0 {
		largest := r.Install[counts[len(counts)-1]]
		fmt.Fprintf(&b, "%s\n\n", largest[len(largest)-1].Machine.Text())
		b.WriteString(r.installTable(counts) + "\n" + r.costTable(counts) + "\n")
		fmt.Fprintf(&b, picture, folder, "Time, requests, processor time and memory over the number of collections", folder)
	}
	b.WriteString(r.waitingTable() + r.mappingTable())
	if len(counts) > 0 {
		b.WriteString(r.requestTables(counts))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Profiles)) {
		lines := slices.Collect(strings.Lines(r.Profiles[name]))
		fmt.Fprintf(&b, "\n[%s](%s/%s):\n\n```\n%s```\n", name, folder, name, strings.Join(lines[:min(len(lines), profileLines)], ""))
	}
	return b.String()
}

const picture = `<picture>
  <source media="(prefers-color-scheme: dark)" srcset="%s/scale-dark.svg">
  <img alt="%s" src="%s/scale-light.svg">
</picture>
`

func (r *Results) installTable(counts []int) string {
	var b strings.Builder
	b.WriteString("| collections | objects | all Ready | `kubectl apply` ended | its CRDs Established | Ready / Established | Helm, all Established and Available |\n|---|---|---|---|---|---|---|\n")
	for _, count := range counts {
		peers, helm := r.Peers["kubectl"][count], r.Peers["helm"][count]
		ready := of(r.Install[count], "install", seconds)
		var ended, established, helmed []float64
		objects := "-"
		for _, p := range peers {
			ended, established, objects = append(ended, p.Applied), append(established, max(p.Established, p.Available)), strconv.Itoa(p.Objects)
		}
		for _, p := range helm {
			helmed = append(helmed, max(p.Established, p.Available))
		}
		ratio := "-"
		if len(established) > 0 {
			ratio = fmt.Sprintf("%.2f", middle(ready)/middle(established))
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", count, objects, spread(ready, "%.1f s"), spread(ended, "%.1f s"), spread(established, "%.1f s"), ratio, spread(helmed, "%.1f s"))
	}
	return b.String()
}

func (r *Results) costTable(counts []int) string {
	var b strings.Builder
	b.WriteString("| collections | requests per object that is written | CPU per collection | most memory | a quiet minute: requests, memory | restart to rest | requests | change of one to Ready | requests |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, count := range counts {
		m := r.Install[count]
		cpu := of(m, "install", func(p *Phase) float64 { return p.CPUSeconds / float64(count) })
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s, %s | %s | %s | %s | %s |\n", count, spread(of(m, "install", perObject), "%.1f"), spread(cpu, "%.2f s"),
			spread(of(m, "install", mebibytes), "%.0f MiB"), spread(of(m, "a quiet minute", requests), "%.0f"), spread(of(m, "a quiet minute", mebibytes), "%.0f MiB"),
			spread(of(m, "restart", seconds), "%.1f s"), spread(of(m, "restart", requests), "%.0f"),
			spread(of(m, "change one", seconds), "%.1f s"), spread(of(m, "change one", requests), "%.0f"))
	}
	return b.String()
}

func (r *Results) waitingTable() string {
	counts := slices.Sorted(maps.Keys(r.Waiting))
	if len(counts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nWhile no pod can be scheduled:\n\n| collections | requests per second in the first minute | and in the next | of them dry runs | CPU in it | restart to rest | requests | pods start: all Ready |\n|---|---|---|---|---|---|---|---|\n")
	for _, count := range counts {
		m := r.Waiting[count]
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s |\n", count, spread(of(m, "the minute after", perSecond), "%.2f"), spread(of(m, "another minute", perSecond), "%.2f"),
			spread(of(m, "another minute", dryRunsPerSecond), "%.2f"), spread(of(m, "another minute", cpuSeconds), "%.1f s"),
			spread(of(m, "restart", seconds), "%.1f s"), spread(of(m, "restart", requests), "%.0f"), spread(of(m, "start at last", seconds), "%.1f s"))
	}
	return b.String()
}

func (r *Results) mappingTable() string {
	counts := slices.Sorted(maps.Keys(r.Mapping))
	if len(counts) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nOne collection in many namespaces, with 20 endpoints each:\n\n| namespaces | Ready | requests per object that is written | most memory | requests in a quiet minute | a rotated key has reached all | requests, writes | restart to rest | requests |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, count := range counts {
		m := r.Mapping[count]
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s, %s | %s | %s |\n", count, spread(of(m, "install", seconds), "%.1f s"), spread(of(m, "install", perObject), "%.1f"),
			spread(of(m, "install", mebibytes), "%.0f MiB"), spread(of(m, "a quiet minute", requests), "%.0f"), spread(of(m, "rotate a key", seconds), "%.1f s"),
			spread(of(m, "rotate a key", requests), "%.0f"), spread(of(m, "rotate a key", writes), "%.0f"),
			spread(of(m, "restart", seconds), "%.1f s"), spread(of(m, "restart", requests), "%.0f"))
	}
	return b.String()
}

// requestTables are those of the number of collections that is closest to 100.
func (r *Results) requestTables(counts []int) string {
	distance := func(count int) int { return max(count-100, 100-count) }
	count := slices.MinFunc(counts, func(a, b int) int { return distance(a) - distance(b) })
	measured := r.Install[count][0]
	var b strings.Builder
	for i := range measured.Phases {
		if p := &measured.Phases[i]; p.Name == "install" || p.Name == "restart" {
			fmt.Fprintf(&b, "\nRequests of the manager with %d collections, %s:\n\n%s", count, p.Name, p.RequestTable(count))
		}
	}
	return b.String()
}

// SVG draws time, requests, processor time and memory.
func (r *Results) SVG(theme string) string {
	line := func(name, phase string, figure func(*Phase) float64) plot.Series {
		series := plot.Series{Name: name}
		for _, count := range slices.Sorted(maps.Keys(r.Install)) {
			series.Points = append(series.Points, plot.Point{X: float64(count), Y: middle(of(r.Install[count], phase, figure))})
		}
		return series
	}
	peer := func(name, kind string) plot.Series {
		series := plot.Series{Name: name}
		for _, count := range slices.Sorted(maps.Keys(r.Peers[kind])) {
			var values []float64
			for _, p := range r.Peers[kind][count] {
				values = append(values, max(p.Established, p.Available))
			}
			series.Points = append(series.Points, plot.Point{X: float64(count), Y: middle(values)})
		}
		return series
	}
	return plot.Panels("What many collections cost", "collections", theme, []plot.Panel{
		{Title: "Time in s until all work", Series: []plot.Series{line("manager", "install", seconds), peer("kubectl apply", "kubectl"), peer("Helm", "helm")}},
		{Title: "Requests to the API server", Series: []plot.Series{line("installation", "install", requests), line("restart", "restart", requests)}},
		{Title: "Processor time in s", Series: []plot.Series{line("installation", "install", cpuSeconds), line("restart", "restart", cpuSeconds)}},
		{Title: "Most memory in MiB", Series: []plot.Series{line("installation", "install", mebibytes), line("at rest", "a quiet minute", mebibytes)}},
	})
}
