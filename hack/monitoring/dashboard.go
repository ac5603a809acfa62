package monitoring

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"strings"

	"github.com/prometheus/prometheus/promql"
)

// Dashboard is the part of a Grafana dashboard that is tested and drawn.
type Dashboard struct {
	Panels []Panel `json:"panels"`
}

// Panel is one graph.
type Panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr   string `json:"expr"`
		Legend string `json:"legendFormat"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

// ReadDashboard reads a dashboard as Grafana imports it.
func ReadDashboard(path string) (*Dashboard, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	d := &Dashboard{}
	return d, json.Unmarshal(content, d)
}

// Line is one series of a panel.
type Line struct {
	Name   string
	Points []promql.FPoint
}

// Size of a panel in the picture, and the margins of its plot.
const (
	panelWidth, panelHeight = 480, 200
	left, right, top, below = 56, 12, 28, 52
)

var colors = []string{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#7f7f7f"}

// Draw returns a picture of panels with their lines, as SVG. All lines are drawn from begin to end, in milliseconds since 1970.
func Draw(panels []Panel, lines [][]Line, begin, end int64) string {
	var b strings.Builder
	height := (len(panels) + 1) / 2 * panelHeight
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"11\" fill=\"#333\">\n", 2*panelWidth, height)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", 2*panelWidth, height)
	for i, panel := range panels {
		fmt.Fprintf(&b, "<g transform=\"translate(%d,%d)\">\n", i%2*panelWidth, i/2*panelHeight)
		drawPanel(&b, panel, lines[i], begin, end)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawPanel(b *strings.Builder, panel Panel, lines []Line, begin, end int64) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"18\" font-weight=\"bold\">%s</text>\n", left, html.EscapeString(panel.Title))
	most := 0.0
	for _, line := range lines {
		for _, point := range line.Points {
			if !math.IsNaN(point.F) && !math.IsInf(point.F, 0) {
				most = max(most, point.F)
			}
		}
	}
	if most == 0 {
		most = 1
	}
	width, height := float64(panelWidth-left-right), float64(panelHeight-top-below)
	for _, part := range []float64{0, 0.5, 1} {
		y := top + height*(1-part)
		fmt.Fprintf(b, "<path d=\"M%d %.1fh%.0f\" stroke=\"#ddd\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
			left, y, width, left-6, y+4, format(most*part, panel.FieldConfig.Defaults.Unit))
	}
	x := 0
	for i, line := range lines {
		color := colors[i%len(colors)]
		var path strings.Builder
		command := "M"
		for _, point := range line.Points {
			if math.IsNaN(point.F) || math.IsInf(point.F, 0) {
				command = "M"
				continue
			}
			fmt.Fprintf(&path, "%s%.1f %.1f", command, left+width*float64(point.T-begin)/float64(end-begin), top+height*(1-point.F/most))
			command = "L"
		}
		fmt.Fprintf(b, "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n", path.String(), color)
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>\n", left+x%400, panelHeight-below+20+x/400*14, color, html.EscapeString(line.Name))
		x += 12 + 6*len(line.Name)
	}
	if len(lines) == 0 {
		fmt.Fprintf(b, "<text x=\"%d\" y=\"%.0f\" fill=\"#999\">nothing</text>\n", left+8, top+height/2)
	}
}

func format(value float64, unit string) string {
	switch unit {
	case "s":
		return fmt.Sprintf("%.3g s", value)
	case "percentunit":
		return fmt.Sprintf("%.3g %%", 100*value)
	}
	return fmt.Sprintf("%.3g", value)
}
