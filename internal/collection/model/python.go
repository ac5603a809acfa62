package model

import (
	"bytes"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// Options of a pip requirements file (pip's documentation, "Requirements File Format"), by what follows them.
var (
	pipFlags        = []string{"--no-index", "--prefer-binary", "--pre", "--require-hashes"}
	pipValues       = []string{"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-binary", "--only-binary", "--trusted-host", "--use-feature"}
	pipRequirements = []string{"-r", "--requirement", "-c", "--constraint", "-e", "--editable"}
)

var pipComment = regexp.MustCompile(`(^|\s+)#.*$`)

// readPythonRequirements reads every requirements.txt of the collection. It skips links, and folders whose name begins with a
// dot.
func readPythonRequirements(l *loader, c *Collection) error {
	var files []string
	err := fs.WalkDir(l.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if entry.Type().IsRegular() && entry.Name() == pythonFile {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the collection's files: %w", err)
	}
	if len(files) > maxPythonFiles {
		l.ReportFile(files[maxPythonFiles], rulePythonRequirements, "the collection has more than %d files of this name", maxPythonFiles)
		return nil
	}
	slices.Sort(files)
	total := 0
	for _, file := range files {
		content, err := l.readAtMost(file, maxFileBytes)
		if err != nil {
			return err
		}
		p := parsePython(l, file, content)
		if len(p.Requirements) > 0 {
			c.Dependencies.Python = append(c.Dependencies.Python, p)
		}
		if total += len(p.Requirements); total > maxRequirements {
			l.ReportFile(file, rulePythonRequirements, "the collection needs more than %d Python packages", maxRequirements)
			return nil
		}
	}
	return nil
}

// parsePython reads a pip requirements file. Whether its requirements can be met is for pip to say, which gets the file
// itself. Options are checked, because pip gets them on its command line, too.
func parsePython(l *loader, file string, content []byte) PythonRequirements {
	p := PythonRequirements{File: file}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		l.ReportFile(file, rulePythonRequirements, "is not a text in UTF-8")
		return p
	}
	for _, line := range logicalLines(string(content)) {
		if !p.add(line.text) {
			place := findings.Problem{File: file, Line: line.number, Column: 1}
			l.Report(place, rulePythonRequirements, "%s is not an option of a pip requirements file", findings.Quote(line.text))
		}
	}
	return p
}

type logicalLine struct {
	number int
	text   string
}

// logicalLines joins lines that end with a backslash, and drops comments and empty lines. A comment line ends a joined
// line, as in pip.
func logicalLines(content string) []logicalLine {
	var lines []logicalLine
	var open *logicalLine
	number := 0
	for raw := range strings.Lines(content) {
		number++
		raw = strings.TrimRight(raw, "\r\n")
		if open == nil {
			open = &logicalLine{number: number}
		}
		comment := strings.HasPrefix(strings.TrimSpace(raw), "#")
		if body, joined := strings.CutSuffix(raw, `\`); joined && !comment {
			open.text += body
			continue
		}
		open.text += " " + raw
		lines, open = append(lines, *open), nil
	}
	if open != nil {
		lines = append(lines, *open)
	}
	kept := lines[:0]
	for _, line := range lines {
		if line.text = strings.Join(strings.Fields(pipComment.ReplaceAllString(line.text, "")), " "); line.text != "" {
			kept = append(kept, line)
		}
	}
	return kept
}

// add takes in a line. ok is false for an option that is none of a pip requirements file.
func (p *PythonRequirements) add(line string) (ok bool) {
	option, value := cutOption(line)
	switch {
	case !strings.HasPrefix(line, "-"), value != "" && slices.Contains(pipRequirements, option):
		p.Requirements = append(p.Requirements, line) // What an included file asks for counts as asked for here.
	case value == "" && slices.Contains(pipFlags, option):
		p.Options = append(p.Options, option)
	case value != "" && slices.Contains(pipValues, option):
		p.Options = append(p.Options, option, value)
	default:
		return false
	}
	return true
}

// cutOption separates an option from its value: "-f x", "--find-links x" or "--find-links=x".
func cutOption(line string) (option, value string) {
	i := strings.IndexAny(line, " \t=")
	if i < 0 {
		return line, ""
	}
	return line[:i], strings.Trim(strings.TrimSpace(line[i+1:]), `"'`)
}
