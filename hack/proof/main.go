// Command proof prints what `make test` ran as one table: each part with its seconds and the number of its specs, then the ten
// slowest specs. It fails if a spec was skipped where nothing may be: with CI=true in the environment.
//
//	go run ./hack/proof FOLDER
//
// FOLDER contains parts.tsv, a line of name, exit code and seconds for each part (hack/parts.sh writes it), and the reports of
// test programs: NAME.ginkgo.json (ginkgo --json-report) and NAME.test.json (gotestsum --jsonfile).
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onsi/ginkgo/v2/types"
)

// slowest is how many specs the second table has.
const slowest = 10

// spec is a spec or test that ran, or one that refused to run.
type spec struct {
	report, name string
	took         time.Duration
	skipped      string // why, "" if it ran
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: proof FOLDER")
		os.Exit(2)
	}
	if err := run(os.DirFS(os.Args[1]), os.Stdout, os.Getenv("CI") == "true"); err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
}

func run(folder fs.FS, out io.Writer, skipsFail bool) error {
	specs, err := readReports(folder)
	if err != nil {
		return err
	}
	if err := printParts(folder, out, specs); err != nil {
		return err
	}
	slices.SortStableFunc(specs, func(a, b spec) int { return int(b.took - a.took) })
	fmt.Fprintf(out, "\nthe %d slowest specs\n", slowest)
	for _, s := range specs[:min(slowest, len(specs))] {
		fmt.Fprintf(out, "%7.1f s  %-12s %s\n", s.took.Seconds(), s.report, s.name)
	}
	var skipped []string
	for _, s := range specs {
		if s.skipped != "" {
			skipped = append(skipped, fmt.Sprintf("%s: %s: %s", s.report, s.name, s.skipped))
		}
	}
	if len(skipped) == 0 {
		return nil
	}
	slices.Sort(skipped)
	fmt.Fprintf(out, "\nskipped\n  %s\n", strings.Join(skipped, "\n  "))
	if skipsFail {
		return fmt.Errorf("%d specs were skipped, see above", len(skipped))
	}
	return nil
}

func printParts(folder fs.FS, out io.Writer, specs []spec) error {
	content, err := fs.ReadFile(folder, "parts.tsv")
	if err != nil {
		return err
	}
	ran := map[string]int{}
	for _, s := range specs {
		if s.skipped == "" {
			ran[s.report]++
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "part\tresult\tseconds\tspecs")
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			return fmt.Errorf("parts.tsv has the line %q", line)
		}
		result, count := "passed", ""
		if fields[1] != "0" {
			result = "FAILED"
		}
		if n := ran[fields[0]]; n > 0 {
			count = fmt.Sprint(n)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", fields[0], result, fields[2], count)
	}
	return table.Flush()
}

// readReports reads all reports of a folder. A report is named after the part that it is of.
func readReports(folder fs.FS) ([]spec, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	var specs []spec
	for _, name := range names {
		file, err := folder.Open(name)
		if err != nil {
			return nil, err
		}
		read := readGinkgo
		part, isGinkgo := strings.CutSuffix(filepath.Base(name), ".ginkgo.json")
		if !isGinkgo {
			part, read = strings.TrimSuffix(part, ".test.json"), readTests
		}
		found, err := read(part, file)
		if err = errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		specs = append(specs, found...)
	}
	return specs, nil
}

// readGinkgo leaves out specs that a filter excluded: they have no reason to be skipped.
func readGinkgo(part string, in io.Reader) ([]spec, error) {
	var reports []types.Report
	if err := json.NewDecoder(in).Decode(&reports); err != nil {
		return nil, err
	}
	var specs []spec
	for _, report := range reports {
		for _, s := range report.SpecReports {
			isSpec := s.LeafNodeType.Is(types.NodeTypeIt)
			skipped := s.State.Is(types.SpecStateSkipped | types.SpecStatePending)
			if !isSpec || skipped && s.Failure.Message == "" {
				continue
			}
			found := spec{report: part, name: s.FullText(), took: s.RunTime}
			if skipped {
				found.skipped = s.Failure.Message
			}
			specs = append(specs, found)
		}
	}
	return specs, nil
}

// testEvent is a line of `go test -json`.
type testEvent struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

func readTests(part string, in io.Reader) ([]spec, error) {
	var specs []spec
	output := map[string]string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event testEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		if event.Test == "" {
			continue
		}
		test := event.Package[strings.LastIndex(event.Package, "/")+1:] + "." + event.Test
		switch event.Action {
		case "output":
			if text := strings.TrimSpace(event.Output); !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") {
				output[test] = text
			}
		case "pass", "fail", "skip":
			found := spec{report: part, name: test, took: time.Duration(event.Elapsed * float64(time.Second))}
			if event.Action == "skip" {
				found.skipped = "skipped"
				if reason := output[test]; reason != "" {
					found.skipped = reason
				}
			}
			specs = append(specs, found)
		}
	}
	return specs, lines.Err()
}
