package mustgather

import (
	"regexp"
	"strings"
)

// redacted replaces a value.
const redacted = "REDACTED"

var (
	// passName and otherName match the end of a name whose value is secret. A password may have blanks, other secrets have none.
	passName  = `pass(?:word|wd|phrase)?|pwd`
	otherName = `(?:client|app|shared|consumer)[_-]?secret|\bsecret|[_.-]secret|token|(?:api|private|access|secret)[_-]?key|credentials?`

	// named matches such a name and what is between it and its value: in name=value, "name": "value", and JSON within JSON.
	named = regexp.MustCompile(`(?i)(?:(` + passName + `)|` + otherName + `)\\*["']?[ \t]*[:=][ \t]*`)
	// quote opens a quoted value.
	quote = regexp.MustCompile(`^\\*["']`)
	// plain matches values that say nothing.
	plain = regexp.MustCompile(`^(?:true|false|null)[ \t]*(?:[,}\])"\\\r\n]|$)`)

	// address matches a URL, and proxy what is before the host of a proxy without a scheme.
	address = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://\S+`)
	proxy   = regexp.MustCompile(`[^\s:@/"'=,\\]+:[^\s"'/][^\s"']*(@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+|:[0-9]{2,5}\b))`)
	// query matches the query of a URL, and a fragment with parameters, also with characters that JSON escapes.
	query = regexp.MustCompile(`(?i)(\b[a-z][a-z0-9+.-]*://[^\s"'<>\\?#]*(?:\?|#[^\s"'<>\\=]*=))(?:[^\s"<>\\]|\\+u[0-9a-f]{4})+`)

	header     = regexp.MustCompile(`(?i)(\b(?:bearer|basic)[ \t]+)[a-z0-9._~+/-]{6,}=*`)
	webToken   = regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`)
	keyBegin   = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	keyEnd     = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	privateKey = regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----)(?:.*?)(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)`)
)

// withoutSecrets replaces what looks like a secret in a text.
func withoutSecrets(text string) string {
	text = withoutKeys(text)
	text = address.ReplaceAllStringFunc(text, withoutUser)
	text = proxy.ReplaceAllString(text, redacted+"${1}")
	text = query.ReplaceAllString(text, "${1}"+redacted)
	text = header.ReplaceAllString(text, "${1}"+redacted)
	text = webToken.ReplaceAllString(text, redacted)
	return withoutNamed(text)
}

// withoutKeys replaces private keys, also the rest of one whose begin was cut off with the begin of a log.
func withoutKeys(text string) string {
	begin, end := keyBegin.FindStringIndex(text), keyEnd.FindStringIndex(text)
	if end != nil && (begin == nil || end[0] < begin[0]) {
		text = redacted + text[end[0]:]
	}
	return privateKey.ReplaceAllString(text, "${1}"+redacted+"${2}")
}

// withoutUser replaces what is between :// and the last @: passwords may have characters that a URL must not have. The @ before the
// digest of an image is none.
func withoutUser(found string) string {
	scheme, rest, _ := strings.Cut(found, "://")
	for at := strings.LastIndex(rest, "@"); at >= 0; at = strings.LastIndex(rest[:at], "@") {
		if !strings.HasPrefix(rest[at:], "@sha256:") {
			return scheme + "://" + redacted + rest[at:]
		}
	}
	return found
}

// withoutNamed replaces values after the name of a secret.
func withoutNamed(text string) string {
	var out strings.Builder
	for {
		at := named.FindStringSubmatchIndex(text)
		if at == nil {
			break
		}
		out.WriteString(text[:at[1]])
		text = text[at[1]:]
		opening := quote.FindString(text)
		text = text[len(opening):]
		end := endOfValue(text, opening, at[2] >= 0)
		out.WriteString(opening)
		if end > 0 && (opening != "" || !plain.MatchString(text)) {
			out.WriteString(redacted)
			text = text[end:]
		}
	}
	out.WriteString(text)
	return out.String()
}

// endOfValue returns the length of the value that a text begins with. A value without quotes ends with its line if it may have blanks, or
// is an object or a list.
func endOfValue(text, opening string, hasBlanks bool) int {
	line := strings.IndexByte(text, '\n')
	if line < 0 {
		line = len(text)
	}
	if opening != "" {
		return endOfQuoted(text[:line], opening)
	}
	if hasBlanks || strings.HasPrefix(text, "[") || strings.HasPrefix(text, "{") {
		return line
	}
	if end := strings.IndexAny(text[:line], " \t\r\""); end >= 0 {
		return end
	}
	return line
}

// endOfQuoted returns the index of the quote that closes a value, or the length of the line if none does. In a text that was quoted n
// times a quote has 2^n-1 backslashes more than in the first text, where those that the value has come in pairs.
func endOfQuoted(line, opening string) int {
	escapes, mark := len(opening)-1, opening[len(opening)-1]
	backslashes := 0
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			backslashes++
			continue
		case line[i] != mark || backslashes%(2*(escapes+1)) != escapes:
		case opening == "'" && strings.HasPrefix(line[i+1:], "'"): // YAML doubles it.
			i++
		default:
			return i - escapes
		}
		backslashes = 0
	}
	return len(line)
}
