package status

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNames is the maximum number of names in a message.
const maxNames = 5

// JoinNames lists the first names, followed by the number of the others.
func JoinNames(names []string) string {
	if len(names) > maxNames {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
	}
	return strings.Join(names, ", ")
}

// Truncate shortens a message to at most limit bytes.
func Truncate(message string, limit int) string {
	if len(message) <= limit {
		return message
	}
	cut := limit - len(" ...")
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return strings.TrimSpace(message[:cut]) + " ..."
}

// Printable returns untrusted text, such as a pod's termination message, as one line of printable characters.
func Printable(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
