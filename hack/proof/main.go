// Command proof prints what `make test` ran as one table: each part with its seconds and the number of its specs, then the ten
// slowest specs. What failed comes last, since the end of a long output is what is read first: each message once, with the specs
// that failed with it. It fails if a spec was skipped where nothing may be: with CI=true in the environment.
//
//	go run ./hack/proof FOLDER
//
// FOLDER contains parts.tsv, a line of name, exit code and seconds for each part (hack/parts.sh writes it), and the reports of
// test programs: NAME.ginkgo.json (ginkgo --json-report) and NAME.test.json (gotestsum --jsonfile).
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
	failed       string // what it expected and saw, "" if it did not fail
}

// dependent is why Ginkgo skips the rest of an ordered container after a failure, which is reported itself.
const dependent = "Spec skipped because an earlier spec in an ordered container failed"

// The lines that are shown of a failure, the characters of a line, and the specs that are named of those that failed alike.
const (
	failureLines = 12
	failureWidth = 300
	failedAlike  = 5
)

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
		if s.skipped != "" && s.skipped != dependent {
			skipped = append(skipped, fmt.Sprintf("%s: %s: %s", s.report, s.name, s.skipped))
		}
	}
	if len(skipped) > 0 {
		slices.Sort(skipped)
		fmt.Fprintf(out, "\nskipped\n  %s\n", strings.Join(skipped, "\n  "))
	}
	printFailures(out, specs)
	if skipsFail && len(skipped) > 0 {
		return fmt.Errorf("%d specs were skipped, see above", len(skipped))
	}
	return nil
}

// printFailures prints the rarest failures last: what failed in hundreds of specs is often a consequence.
func printFailures(out io.Writer, specs []spec) {
	alike := map[string][]string{}
	for _, s := range specs {
		if s.failed != "" {
			alike[s.failed] = append(alike[s.failed], s.report+": "+s.name)
		}
	}
	messages := slices.SortedFunc(maps.Keys(alike), func(a, b string) int {
		return cmp.Or(len(alike[b])-len(alike[a]), strings.Compare(a, b))
	})
	for _, message := range messages {
		names := alike[message]
		slices.Sort(names)
		fmt.Fprintf(out, "\nFAILED  %s\n", strings.Join(names[:min(failedAlike, len(names))], "\n        "))
		if more := len(names) - failedAlike; more > 0 {
			fmt.Fprintf(out, "        and %d more\n", more)
		}
		fmt.Fprintf(out, "  %s\n", strings.ReplaceAll(message, "\n", "\n  "))
	}
}

// shorten returns the last lines of a text, or the first ones.
func shorten(text string, last bool) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last {
		lines = lines[max(0, len(lines)-failureLines):]
	}
	lines = lines[:min(failureLines, len(lines))]
	for i, line := range lines {
		lines[i] = strings.ToValidUTF8(line[:min(failureWidth, len(line))], "")
	}
	return strings.Join(lines, "\n")
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
			failed := s.State.Is(types.SpecStateFailureStates)
			if !isSpec && !failed || skipped && s.Failure.Message == "" {
				continue
			}
			found := spec{report: part, name: cmp.Or(s.FullText(), s.LeafNodeType.String()), took: s.RunTime}
			if failed {
				failure := s.Failure
				for _, also := range s.AdditionalFailures {
					if also.State == types.SpecStateAborted { // It says why the spec failed.
						failure = also.Failure
					}
				}
				found.failed = shorten(failure.Message, false) + "\n" + failure.Location.String()
			}
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

// readTests reports a package that failed, and no test of it, as a test without a name: one that does not compile.
func readTests(part string, in io.Reader) ([]spec, error) {
	var specs []spec
	output, failedIn := map[string]string{}, map[string]bool{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event testEvent
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, err
		}
		test := strings.TrimSuffix(event.Package[strings.LastIndex(event.Package, "/")+1:]+"."+event.Test, ".")
		switch event.Action {
		case "output":
			if text := strings.TrimSpace(event.Output); !strings.HasPrefix(text, "---") && !strings.HasPrefix(text, "===") && text != "" {
				output[test] += text + "\n"
			}
		case "pass", "fail", "skip":
			isPackage := event.Test == ""
			if isPackage && (event.Action != "fail" || failedIn[event.Package]) {
				continue
			}
			found := spec{report: part, name: test, took: time.Duration(event.Elapsed * float64(time.Second))}
			switch event.Action {
			case "fail":
				failedIn[event.Package] = true
				found.failed = shorten(output[test], true)
			case "skip":
				reasons := strings.Split(strings.TrimSpace(output[test]), "\n")
				found.skipped = cmp.Or(reasons[len(reasons)-1], "skipped")
			}
			specs = append(specs, found)
		}
	}
	return specs, lines.Err()
}
