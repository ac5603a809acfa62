package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/collection-operator/collection-operator/test/bench/report"
	"github.com/collection-operator/collection-operator/test/integration/plot"
)

// document is where the figures belong.
const document = "docs/benchmarks.md"

// writeScale writes the measurements in a folder into the document, and draws them there.
func writeScale(folder string) error {
	results, err := report.Read(folder)
	if err != nil {
		return err
	}
	for theme := range plot.Themes() {
		if err := os.WriteFile(filepath.Join(folder, "scale-"+theme+".svg"), []byte(results.SVG(theme)), 0o644); err != nil {
			return err
		}
	}
	from, err := filepath.Abs(filepath.Dir(document))
	if err != nil {
		return err
	}
	to, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	link, err := filepath.Rel(from, to)
	if err != nil {
		return err
	}
	return report.ReplaceSection(document, "bench-scale", results.Markdown(strings.TrimSuffix(filepath.ToSlash(link), "/")))
}

// writeFigures writes each of the figures in a folder into the section of its name.
func writeFigures(folder string) error {
	all, err := report.ReadFigures(folder)
	if err != nil {
		return err
	}
	for i := range all {
		if err := report.ReplaceSection(document, all[i].Name, all[i].Markdown()); err != nil {
			return err
		}
	}
	return nil
}
