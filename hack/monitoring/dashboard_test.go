package monitoring

import (
	"bufio"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

var update = flag.Bool("update", false, "draw the picture of the dashboard")

const picture = "../../docs/operations/dashboard.svg"

// recorded returns a storage with the metrics that `make dashboard` recorded, and their time.
func recorded(t *testing.T) (storage *teststorage.TestStorage, begin, end time.Time) {
	t.Helper()
	file, err := os.Open("testdata/recorded.prom")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	storage = teststorage.New(t)
	appender := storage.Appender(context.Background())
	parse := parser.NewParser(parser.Options{})
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if at, isTime := strings.CutPrefix(line, "# scraped at "); isTime {
			milliseconds, err := strconv.ParseInt(at, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			end = time.UnixMilli(milliseconds)
			if begin.IsZero() {
				begin = end
			}
			continue
		}
		i := strings.LastIndex(line, " ")
		value, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		metric, err := parse.ParseMetric(line[:i])
		if err != nil {
			t.Fatal(err)
		}
		metric = labels.NewBuilder(metric).Set("job", "collection-operator-metrics").Set("pod", "collection-operator-controller-manager-0").Labels()
		if _, err := appender.Append(0, metric, end.UnixMilli(), value); err != nil {
			t.Fatal(line, err)
		}
	}
	if err := errors.Join(lines.Err(), appender.Commit()); err != nil || begin.Equal(end) {
		t.Fatalf("from %s to %s: %v", begin, end, err)
	}
	return storage, begin, end
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// lackData are the panels without lines: the recording has no OLM, and no ZosEndpoint with a limit.
var lackData = []string{"Catalog for OLM", "Runs that wait for a ZosEndpoint"}

func TestDashboardShowsWhatWasRecorded(t *testing.T) {
	dashboard, err := ReadDashboard(filepath.Join(Component, "dashboard.json"))
	if err != nil || len(dashboard.Panels) == 0 {
		t.Fatalf("%d panels, %v", len(dashboard.Panels), err)
	}
	storage, begin, end := recorded(t)
	engine := newEngine(t)
	variables := strings.NewReplacer("$object_namespace", ".*", "$__rate_interval", "10s")
	all := make([][]Line, len(dashboard.Panels))
	for i, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			query, err := engine.NewRangeQuery(context.Background(), storage, nil, variables.Replace(target.Expr), begin, end, time.Second)
			if err != nil {
				t.Fatalf("%s: %v", panel.Title, err)
			}
			matrix, err := query.Exec(context.Background()).Matrix()
			if err != nil {
				t.Fatalf("%s: %v", panel.Title, err)
			}
			for _, series := range matrix {
				name := legendLabel.ReplaceAllStringFunc(target.Legend, func(text string) string {
					return series.Metric.Get(legendLabel.FindStringSubmatch(text)[1])
				})
				all[i] = append(all[i], Line{Name: name, Points: slices.Clone(series.Floats)})
			}
			query.Close()
		}
		if lacks := slices.Contains(lackData, panel.Title); lacks != (len(all[i]) == 0) {
			t.Errorf("%s shows %d lines", panel.Title, len(all[i]))
		}
	}
	drawn := Draw(dashboard.Panels, all, begin.UnixMilli(), end.UnixMilli())
	expectXML(t, drawn)
	if *update {
		if err := os.WriteFile(picture, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if was, err := os.ReadFile(picture); err != nil || string(was) != drawn {
		t.Errorf("%s is not of this dashboard and recording: run make dashboard (%v)", picture, err)
	}
}

func expectXML(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
