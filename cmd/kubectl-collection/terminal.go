package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// palette colours text for a terminal, or leaves it alone.
type palette bool

// colored is on for a terminal that wants colour: https://no-color.org.
func colored(w io.Writer) palette {
	f, ok := w.(*os.File)
	return palette(ok && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd())))
}

// severityColors are ANSI's red, yellow and cyan.
var severityColors = map[findings.Severity]string{
	findings.SeverityError: "31", findings.SeverityWarning: "33", findings.SeverityInfo: "36",
}

func (on palette) severity(s findings.Severity) string {
	if !on {
		return string(s)
	}
	return "\x1b[" + severityColors[s] + "m" + string(s) + "\x1b[0m"
}
