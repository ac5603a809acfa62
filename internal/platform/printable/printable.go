// Package printable makes untrusted text safe to show: what z/OS hosts, servers, archives and playbooks say. Terminals and log
// viewers obey escape sequences, and readers take a line break or a change of the text direction for the start of another message.
package printable

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cutMark shows that a text was cut.
const cutMark = " ..."

// terminalSequence matches the sequences that terminals obey: those with parameters, such as colors, those with a text, such as
// window titles, and those of one character.
var terminalSequence = regexp.MustCompile(
	"(?:\x1b\\[|\u009b)[0-9:;<=>?]*[ -/]*[@-~]?" +
		"|(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f])[^\x07\x1b\u009c\r\n]*(?:\x07|\x1b\\\\|\u009c)" +
		"|\x1b[ -/]*[0-~]?")

// lineBreaks turns other line breaks into \n. U+0085 comes from EBCDIC.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Lines returns a text without escape sequences, control characters, and characters that change the direction of text or are
// invisible. It keeps line breaks as \n, and tabs. Bytes that are not valid UTF-8 become question marks.
func Lines(s string) string {
	if isClean(s) {
		return s
	}
	s = lineBreaks.Replace(terminalSequence.ReplaceAllString(strings.ToValidUTF8(s, "?"), ""))
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t', unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, s)
}

// isClean reports whether a text consists of printable ASCII characters, line breaks and tabs.
func isClean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c != '\n' && c != '\t' && (c < ' ' || c > '~') {
			return false
		}
	}
	return true
}

// Line returns a text like Lines, but as one line of at most limit bytes, in which words are separated by one space. Of the text it
// reads at most 16 times limit: a host may send megabytes. The limit must be at least 8.
func Line(s string, limit int) string {
	s = s[:min(len(s), 16*limit)]
	return Cut(strings.Join(strings.Fields(Lines(s)), " "), limit)
}

// unstable matches times and local ports.
var unstable = regexp.MustCompile(`\d{4}[-/]\d{2}[-/]\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:?\d{2})?|[0-9a-fA-F.:\[\]]+:\d+->`)

// Stable returns a text like Line, but without what differs between attempts that fail for the same reason: times and local ports.
func Stable(s string, limit int) string {
	return Line(unstable.ReplaceAllString(s[:min(len(s), 16*limit)], ""), limit)
}

// Escape returns a text in which everything but printable characters is escaped as in Go: it shows what was there.
func Escape(s string) string {
	if isClean(s) && !strings.ContainsAny(s, "\n\t") {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
	}
	return b.String()
}

// Cut returns the start of a text, at most limit bytes. The limit must be at least 8.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	end := limit - len(cutMark)
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.TrimSpace(s[:end]) + cutMark
}

// URL returns a URL without user, query and fragment, which may have passwords and tokens.
func URL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}

// CutStart returns the end of a text, at most limit bytes.
func CutStart(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	start := len(s) - limit
	for start < len(s) && !utf8.RuneStart(s[start]) {
		start++
	}
	return s[start:]
}
