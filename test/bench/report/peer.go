package report

import "fmt"

// Peer is another way to create the same objects. Times are in seconds since it began.
type Peer struct {
	Name        string `json:"name"`
	Collections int    `json:"collections"`
	Objects     int    `json:"objects"`
	// Applied is when the command ended.
	Applied float64 `json:"applied"`
	// Available is when all Deployments were.
	Available float64 `json:"available"`
	// Established is when all CRDs were, and the command had ended.
	Established float64 `json:"established"`
}

// Text is a summary in Markdown.
func (p *Peer) Text() string {
	return fmt.Sprintf("%s of %d objects of %d collections: ended after %.1f s, Deployments Available after %.1f s, CRDs Established after %.1f s\n",
		p.Name, p.Objects, p.Collections, p.Applied, p.Available, p.Established)
}
