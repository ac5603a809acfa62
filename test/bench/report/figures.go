package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Figures are values that were measured several times each.
type Figures struct {
	// Name is the file's and the section's.
	Name    string  `json:"name"`
	Machine Machine `json:"machine"`
	Rows    []Row   `json:"rows"`
}

// Row is what one figure was each time.
type Row struct {
	What string `json:"what"`
	// Unit such as s or MiB, empty for a ratio.
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
}

// Add adds values to the row of a name, which it makes if it is new.
func (f *Figures) Add(what, unit string, values ...float64) {
	for i := range f.Rows {
		if f.Rows[i].What == what {
			f.Rows[i].Values = append(f.Rows[i].Values, values...)
			return
		}
	}
	f.Rows = append(f.Rows, Row{What: what, Unit: unit, Values: values})
}

// AddRatio adds the ratio of the medians of two rows.
func (f *Figures) AddRatio(what, of, to string) {
	medians := map[string]float64{}
	for _, row := range f.Rows {
		medians[row.What] = middle(row.Values)
	}
	if medians[to] > 0 {
		f.Add(what, "", medians[of]/medians[to])
	}
}

// Markdown has a row for each figure.
func (f *Figures) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| what | median | least | greatest | measured |\n|---|---|---|---|---|\n", f.Machine.Text())
	for _, row := range f.Rows {
		if len(row.Values) == 0 {
			continue
		}
		median := middle(row.Values)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %d |\n", row.What, row.text(median), row.text(row.Values[0]), row.text(row.Values[len(row.Values)-1]), len(row.Values))
	}
	return b.String()
}

func (r *Row) text(value float64) string {
	switch r.Unit {
	case "":
		return fmt.Sprintf("%.2f", value)
	case "MiB", "ms":
		return fmt.Sprintf("%.0f %s", value, r.Unit)
	}
	return fmt.Sprintf("%.1f %s", value, r.Unit)
}

// ReadFigures reads all figures of a folder.
func ReadFigures(folder string) ([]Figures, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []Figures
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var f Figures
		if err := json.Unmarshal(content, &f); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, f)
	}
	return all, nil
}
