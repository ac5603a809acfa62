package plot

import (
	"fmt"
	"math"
	"strings"
)

// Panel draws series over the same axis.
type Panel struct {
	// Title has the unit of the values.
	Title  string
	Series []Series
}

// Series is a line.
type Series struct {
	Name   string
	Points []Point
}

// Point is a value at a place of the axis.
type Point struct{ X, Y float64 }

// Size of a panel, and of its margins.
const (
	panelWidth, panelHeight                      = 420, 270
	panelLeft, panelRight, panelTop, panelBottom = 64, 16, 36, 60
	// legendStep is the distance between two names of series.
	legendStep = 130
)

// Panels draws panels in two columns, over an axis with this name.
func Panels(title, axis, themeName string, panels []Panel) string {
	colors := themes[themeName]
	rows := (len(panels) + 1) / 2
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="%s">`+"\n", 2*panelWidth, rows*panelHeight, colors.text)
	fmt.Fprintf(&b, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", title, 2*panelWidth, rows*panelHeight, colors.background)
	for i := range panels {
		fmt.Fprintf(&b, "<g transform=\"translate(%d %d)\">\n", i%2*panelWidth, i/2*panelHeight)
		panels[i].draw(&b, axis, colors)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *Panel) draw(b *strings.Builder, axis string, colors theme) {
	mostX, mostY := 1e-9, 1e-9
	for _, series := range p.Series {
		for _, point := range series.Points {
			mostX, mostY = max(mostX, point.X), max(mostY, point.Y)
		}
	}
	x := func(value float64) float64 { return panelLeft + (panelWidth-panelLeft-panelRight)*value/mostX }
	y := func(value float64) float64 {
		return panelHeight - panelBottom - (panelHeight-panelTop-panelBottom)*value/(1.05*mostY)
	}
	fmt.Fprintf(b, `<text x="%d" y="20" font-weight="bold">%s</text>`+"\n", panelLeft, p.Title)
	for _, tick := range ticks(mostY) {
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			panelLeft, y(tick), panelWidth-panelRight, colors.grid, panelLeft-5, y(tick)+4, number(tick))
	}
	for _, tick := range ticks(mostX) {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(tick), panelHeight-panelBottom+16, number(tick))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", panelWidth-panelRight, panelHeight-panelBottom+32, axis)
	lines := []string{colors.line, colors.limit, colors.third}
	for i, series := range p.Series {
		color := lines[i%len(lines)]
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="`, color)
		for _, point := range series.Points {
			fmt.Fprintf(b, "%.1f,%.1f ", x(point.X), y(point.Y))
		}
		b.WriteString("\"/>\n")
		for _, point := range series.Points {
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x(point.X), y(point.Y), color)
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="%s">%s</text>`+"\n", panelLeft+i*legendStep-40, panelHeight-10, color, series.Name)
	}
}

// ticks are round numbers from 0 to the greatest value, about four.
func ticks(most float64) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 2
	case most/step > 4:
		step *= 2
	}
	var found []float64
	for i := 0; float64(i)*step <= most; i++ {
		found = append(found, float64(i)*step)
	}
	return found
}

// number has a letter for thousands.
func number(value float64) string {
	if value >= 10000 {
		return fmt.Sprintf("%gk", value/1000)
	}
	return fmt.Sprintf("%.4g", value)
}
