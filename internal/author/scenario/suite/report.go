package suite

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/collection-operator/collection-operator/internal/author/scenario"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Print writes a step for people: one line, and if it did not pass what was expected, what came, and the output of the run.
func (s Step) Print(w io.Writer) {
	word := "ok"
	switch {
	case s.Err != nil:
		word = "ERROR"
	case s.Expected != "":
		word = "FAILED"
	case s.Skipped != "":
		word = "skipped"
	}
	note := s.Summary
	if s.Skipped != "" {
		note = s.Skipped
	}
	fmt.Fprintf(w, "%s\n", strings.TrimRight(fmt.Sprintf("  %-8s %-12s %5.1f s  %s", word, s.Name, s.Took.Seconds(), note), " "))
	if s.Passed() {
		return
	}
	for _, part := range []struct{ title, text string }{{"expected", s.Expected}, {"got", s.Got}, {"error", errorText(s.Err)}, {"output", s.Output}} {
		if part.text == "" {
			continue
		}
		fmt.Fprintf(w, "      %s:\n", part.title)
		for line := range strings.Lines(printable.Lines(strings.TrimRight(part.text, "\n"))) {
			fmt.Fprintf(w, "        %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Count returns how many steps were done, and the names of those that did not pass, as SCENARIO/STEP.
func Count(results []Result) (done int, failed []string) {
	for _, r := range results {
		for _, s := range r.Steps {
			if s.Skipped == "" {
				done++
			}
			if !s.Passed() {
				failed = append(failed, r.Scenario.Name+"/"+s.Name)
			}
		}
	}
	return done, failed
}

// HasErrors reports whether a step could not be done.
func HasErrors(results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool {
		return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Err != nil })
	})
}

// The part of JUnit's XML that Jenkins, GitLab and others read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Time    string        `xml:"time,attr"`
		Failure *junitProblem `xml:"failure"`
		Error   *junitProblem `xml:"error"`
		Skipped *junitSkipped `xml:"skipped"`
		Output  string        `xml:"system-out,omitempty"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
)

// WriteJUnit writes the results as JUnit's XML: a suite for each scenario, and a case for each step. collection is the name of the
// collection, for the names of classes.
func WriteJUnit(w io.Writer, collection string, results []Result) error {
	all := junitSuites{}
	total := 0.0
	for _, r := range results {
		suite, seconds := junitOf(collection, r)
		total += seconds
		all.Tests, all.Failures, all.Errors = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Errors+suite.Errors
		all.Suites = append(all.Suites, suite)
	}
	all.Time = duration(total)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func junitOf(collection string, r Result) (suite junitSuite, seconds float64) {
	suite = junitSuite{Name: r.Scenario.Name}
	for _, s := range r.Steps {
		c := junitCase{Name: s.Name, Class: collection + "." + r.Scenario.Name, File: r.Scenario.File, Time: duration(s.Took.Seconds())}
		switch {
		case s.Err != nil:
			suite.Errors++
			c.Error = &junitProblem{firstLine(s.Err.Error()), s.Err.Error()}
		case s.Expected != "":
			suite.Failures++
			c.Failure = &junitProblem{"expected: " + firstLine(s.Expected), "expected:\n" + s.Expected + "\ngot:\n" + s.Got}
		case s.Skipped != "":
			suite.Skipped++
			c.Skipped = &junitSkipped{s.Skipped}
		}
		if !s.Passed() {
			c.Output = printable.Lines(s.Output)
		}
		suite.Tests++
		seconds += s.Took.Seconds()
		suite.Cases = append(suite.Cases, c)
	}
	suite.Time = duration(seconds)
	return suite, seconds
}

func duration(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// Title is the line above the steps of a scenario.
func Title(s scenario.Scenario) string {
	if s.Description == "" {
		return s.Name
	}
	return s.Name + ": " + printable.Line(s.Description, 200)
}
