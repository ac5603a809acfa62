package collection

import (
	"bytes"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Options of a pip requirements file (pip's documentation, "Requirements File Format"), by what follows them.
var (
	pipFlags   = []string{"--no-index", "--prefer-binary", "--pre", "--require-hashes"}
	pipValues  = []string{"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "--no-binary", "--only-binary", "--trusted-host", "--use-feature"}
	pipFiles   = []string{"-r", "--requirement", "-c", "--constraint"}
	pipEditing = []string{"-e", "--editable"}
)

var (
	pipComment = regexp.MustCompile(`(^|\s+)#.*$`)
	// pipName is the beginning of a requirement: name and extras (PEP 508).
	pipName      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\s*(\[[A-Za-z0-9._, -]*\])?\s*`)
	pipCondition = regexp.MustCompile(`^\s*(===|==|~=|!=|<=|>=|<|>)\s*[^\s,;<>=!~()]+\s*$`)
	pipLineOpts  = regexp.MustCompile(`\s--?[A-Za-z].*$`)
)

// readPythonRequirements reads every requirements.txt of the collection. Links, and folders whose name begins with a dot,
// are passed over.
func (l *loader) readPythonRequirements(c *Collection) error {
	var files []string
	err := fs.WalkDir(l.fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || ignoredDirs[entry.Name()]) {
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
		l.reportFile(files[maxPythonFiles], rulePythonRequirements, "the collection has more than %d files of this name", maxPythonFiles)
		return nil
	}
	slices.Sort(files)
	total := 0
	for _, file := range files {
		content, err := l.read(file)
		if err != nil {
			return err
		}
		p := l.parsePython(file, content)
		if len(p.Requirements) > 0 {
			c.Dependencies.Python = append(c.Dependencies.Python, p)
		}
		if total += len(p.Requirements); total > maxRequirements {
			l.reportFile(file, rulePythonRequirements, "the collection needs more than %d Python packages", maxRequirements)
			return nil
		}
	}
	return nil
}

// parsePython reads a pip requirements file. What pip could not read is reported.
func (l *loader) parsePython(file string, content []byte) PythonRequirements {
	p := PythonRequirements{File: file}
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	if !utf8.Valid(content) || bytes.IndexByte(content, 0) >= 0 {
		l.reportFile(file, rulePythonRequirements, "is not a text in UTF-8")
		return p
	}
	for _, line := range logicalLines(string(content)) {
		report := func(format string, args ...any) {
			place := Problem{File: file, Line: line.number, Column: 1}
			l.report(place, rulePythonRequirements, "%s "+format, append([]any{quote(line.text)}, args...)...)
		}
		if strings.HasPrefix(line.text, "-") {
			l.addPipOption(&p, line.text, report)
		} else if problem := l.checkPython(file, line.text); problem != "" {
			report("%s", problem)
		} else {
			p.Requirements = append(p.Requirements, line.text)
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

// addPipOption reads a line that begins with an option.
func (l *loader) addPipOption(p *PythonRequirements, line string, report func(string, ...any)) {
	option, value, _ := cutOption(line)
	switch {
	case slices.Contains(pipFlags, option) && value == "":
		p.Options = append(p.Options, option)
	case slices.Contains(pipValues, option) && value != "":
		p.Options = append(p.Options, option, value)
	case slices.Contains(pipEditing, option) && value != "":
		p.Requirements = append(p.Requirements, line)
	case slices.Contains(pipFiles, option) && value != "":
		if strings.Contains(value, "://") || path.IsAbs(value) || l.holds(path.Join(path.Dir(p.File), value)) {
			// What an included file asks for counts as asked for here.
			p.Requirements = append(p.Requirements, line)
			return
		}
		report("names a file that the collection does not hold")
	default:
		report("is not an option of a pip requirements file")
	}
}

// cutOption separates an option from its value: "-f x", "--find-links x" or "--find-links=x".
func cutOption(line string) (option, value string, found bool) {
	i := strings.IndexAny(line, " \t=")
	if i < 0 {
		return line, "", false
	}
	return line[:i], strings.Trim(strings.TrimSpace(line[i+1:]), `"'`), true
}

// checkPython says what is wrong with a requirement, "" for nothing: "name[extra]>=1,<2; marker", "name @ address", an
// address, or the path of a file.
func (l *loader) checkPython(file, text string) string {
	spec := strings.TrimSpace(pipLineOpts.ReplaceAllString(text, ""))
	name := pipName.FindString(spec)
	rest := spec[len(name):]
	switch {
	case name == "" || strings.HasPrefix(rest, "/") || strings.HasPrefix(rest, ":") || isPackageFile(spec):
		return l.checkPythonPath(file, spec)
	case strings.HasPrefix(rest, "@"):
		return ""
	}
	conditions, _, _ := strings.Cut(rest, ";")
	conditions = strings.TrimSpace(conditions)
	if inner, ok := strings.CutPrefix(conditions, "("); ok {
		conditions = strings.TrimSuffix(inner, ")")
	}
	conditions = strings.TrimSuffix(strings.TrimSpace(conditions), ",")
	if conditions == "" {
		return ""
	}
	for _, condition := range strings.Split(conditions, ",") {
		if !pipCondition.MatchString(condition) {
			return "is not a requirement that pip can read, such as requests>=2.31,<3"
		}
	}
	return ""
}

func isPackageFile(spec string) bool {
	spec, _, _ = strings.Cut(spec, ";")
	spec = strings.TrimSpace(spec)
	return strings.HasSuffix(spec, ".whl") || strings.HasSuffix(spec, ".tar.gz") || strings.HasSuffix(spec, ".zip")
}

func (l *loader) checkPythonPath(file, spec string) string {
	spec, _, _ = strings.Cut(spec, ";")
	spec = strings.TrimSpace(spec)
	switch {
	case strings.Contains(spec, ":") || strings.Contains(spec, "${") || path.IsAbs(spec):
		return ""
	case !strings.Contains(spec, "/") && !isPackageFile(spec):
		return "is not a requirement that pip can read, such as requests>=2.31,<3"
	}
	spec, _, _ = strings.Cut(spec, "[")
	if !l.holds(path.Join(path.Dir(file), spec)) {
		return "is a path that the collection does not hold, seen from this file"
	}
	return ""
}

// holds says whether the collection holds a file or folder.
func (l *loader) holds(name string) bool {
	exists, err := l.exists(name)
	return err == nil && exists
}
