package status

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNames bounds how many names a message lists.
const maxNames = 5

// JoinNames lists the first names and counts the others.
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

// Printable makes one printable line of untrusted text, such as a pod's termination message.
func Printable(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " ")
}
