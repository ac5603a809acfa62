package kit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Palette colours text for a terminal, or leaves it alone.
type Palette bool

// Colored is on for a terminal that wants colour: https://no-color.org.
func Colored(w io.Writer) Palette {
	f, ok := w.(*os.File)
	return Palette(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

// severityColors are ANSI's red, yellow and cyan.
var severityColors = map[findings.Severity]string{
	findings.SeverityError: "31", findings.SeverityWarning: "33", findings.SeverityInfo: "36",
}

// Severity returns the name of a severity in its colour.
func (on Palette) Severity(s findings.Severity) string {
	if !on {
		return string(s)
	}
	return "\x1b[" + severityColors[s] + "m" + string(s) + "\x1b[0m"
}

// escapeSequence is what Ansible colours its output with, and what else moves a terminal's cursor.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)

// Plain returns a line without colours, with all other control characters escaped.
func Plain(line string) string {
	line = escapeSequence.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
	return printable.Escape(strings.ReplaceAll(line, "\t", "    "))
}

// Clock returns a time in UTC.
func Clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// EncodeJSON writes a value as indented JSON.
func EncodeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// Confirm asks whether to go on. Without an answer it must not.
func Confirm(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprint(out, question)
	answer, _ := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
}

// ShortDigest is the length of a digest in the tree, its algorithm included.
const ShortDigest = len("sha256:") + 12

// Table has aligned columns. A text ends with its line, and control characters are escaped.
type Table struct {
	writer *tabwriter.Writer
	text   bytes.Buffer
}

// NewTable returns a table with a head, if there is one.
func NewTable(head ...string) *Table {
	t := &Table{}
	t.writer = tabwriter.NewWriter(&t.text, 0, 8, 3, ' ', 0)
	if len(head) > 0 {
		t.Row(head...)
	}
	return t
}

// Row adds a line with one text for each column.
func (t *Table) Row(columns ...string) {
	escaped := make([]string, len(columns))
	for i, column := range columns {
		escaped[i] = printable.Escape(column)
	}
	fmt.Fprintln(t.writer, strings.Join(escaped, "\t"))
}

// Print writes all rows, without space at the ends of lines.
func (t *Table) Print(w io.Writer) error {
	if err := t.writer.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(t.text.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
