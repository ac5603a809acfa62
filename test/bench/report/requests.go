package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// sortRequests puts the most frequent first.
func sortRequests(requests []Requests) {
	slices.SortFunc(requests, func(a, b Requests) int {
		return cmp.Or(b.Count-a.Count, cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
}

// Total is the number of requests.
func (p *Phase) Total() int {
	total := 0
	for _, r := range p.Requests {
		total += r.Count
	}
	return total
}

// PerObject is the number of requests for each object that was written, 0 if none was.
func (p *Phase) PerObject() float64 {
	if p.Objects == 0 {
		return 0
	}
	return float64(p.Total()) / float64(p.Objects)
}

// RequestTable is a table in Markdown of the requests by verb and resource, in all and for each installation.
func (p *Phase) RequestTable(installations int) string {
	var b strings.Builder
	b.WriteString("| requests | per installation | verb | resource |\n|---|---|---|---|\n")
	for _, r := range p.Requests {
		verb := r.Verb
		if r.DryRun {
			verb += " (dry run)"
		}
		fmt.Fprintf(&b, "| %d | %.2f | %s | %s |\n", r.Count, float64(r.Count)/float64(installations), verb, r.Resource)
	}
	return b.String()
}
