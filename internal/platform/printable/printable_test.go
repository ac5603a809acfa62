package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLines(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"plain\n\tindented  text":             "plain\n\tindented  text",
		"a\r\nb\rc\u0085d\u2028e\vf":          "a\nb\nc\nd\ne\nf",
		"\x1b[31;1mred\x1b[0m and \u009b2Jx":  "red and x",
		"\x1b]0;a title\x07b":                 "b",
		"\x1b]8;;http://a\x1b\\link":          "link",
		"\x1bPq#0\x1b\\sixel":                 "sixel",
		"\u009dtitle\u009cb":                  "b",
		"\x1bcreset\x1b(0":                    "reset",
		"cut off \x1b[":                       "cut off ",
		"\x1b]0;no end":                       "0;no end",
		"a\x00b\bc\x7fd\u0090":                "abcd",
		"file\u202egpj.exe\u2066\u200b\ufeff": "filegpj.exe",
		"ü €\u00a0字 e\u0301":                  "ü € 字 e\u0301",
		"no \xff\xfe disk":                    "no ? disk",
	} {
		if got := Lines(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, tc := range [][2]string{
		{"plain", "plain"},
		{" two\r\n lines\t", "two lines"},
		{"\x1b[31mred\x00\u202e", "red"},
		{"\u2028a", "a"},
		{"0123456789", "0123456789"},
		{"0123456789a", "012345 ..."},
		{"01234\u20ac789ab", "01234 ..."},
		{strings.Repeat(" ", 200) + "far", ""},
		{"a" + strings.Repeat(" ", 200) + "far", "a"},
	} {
		text, want := tc[0], tc[1]
		if got := Line(text, 10); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                  "plain",
		"a\x1b[2Jb\r\n\tä\u202e": `a\x1b[2Jb\r\n\tä\u202e`,
		"'\"\\":                  `'"\`,
		"\xff":                   "\ufffd",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, tc := range []struct{ text, cut, end string }{
		{"0123456789", "0123456789", "0123456789"}, {"0123456789a", "012345 ...", "123456789a"},
		{"01234\u20ac789ab", "01234 ...", "34\u20ac789ab"}, {"0123  6789ab", "0123 ...", "23  6789ab"},
	} {
		if got := Cut(tc.text, 10); got != tc.cut {
			t.Errorf("%q is %q, want %q", tc.text, got, tc.cut)
		}
		if got := CutStart(tc.text, 10); got != tc.end {
			t.Errorf("the end of %q is %q, want %q", tc.text, got, tc.end)
		}
	}
	if got := CutStart("\u20ac\u20ac", 1); got != "" {
		t.Errorf("a part of a character remains: %q", got)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{
		"", "SSH-2.0-\x1b[2J\r\nReady: True", "\u009b\u009d\u202e", "\x1b]0;\x1b[\x07\x1b\x1b[m", "\xff\xc2\x9b", "\u2028\u2029\u0085", "ab\u20accd", "\xc2\x1b[0m\x9b2J",
	} {
		f.Add(seed, 10)
	}
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = 8 + limit&0xff
		lines := Lines(text)
		for _, line := range strings.Split(strings.ReplaceAll(lines, "\t", " "), "\n") {
			check(t, text, line)
		}
		if again := Lines(lines); again != lines {
			t.Errorf("%q changes again from %q to %q", text, lines, again)
		}
		line := Line(text, limit)
		check(t, text, line)
		if len(line) > limit {
			t.Errorf("%q has more than %d bytes: %q", text, limit, line)
		}
		check(t, text, Escape(text))
		if cut := Cut(lines, limit); len(cut) > limit || !utf8.ValidString(cut) {
			t.Errorf("%q is cut to %q", lines, cut)
		}
		if end := CutStart(lines, limit); len(end) > limit || !strings.HasSuffix(lines, end) || !utf8.ValidString(end) {
			t.Errorf("%q ends with %q", lines, end)
		}
	})
}

func check(t *testing.T, text, line string) {
	t.Helper()
	if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q has become %q", text, line)
	}
}

func TestStable(t *testing.T) {
	for name, test := range map[string][2]string{
		"a time":        {"failed at 2026-11-21T10:00:00.123Z: x", "failed at 2026-11-21T11:30:07Z: x"},
		"a port":        {"read udp 10.0.0.1:40000->10.0.0.2:53: timeout", "read udp 10.0.0.1:41234->10.0.0.2:53: timeout"},
		"several lines": {"a\n\tb", "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			if a, b := Stable(test[0], 64), Stable(test[1], 64); a != b {
				t.Errorf("%q becomes %q, and %q becomes %q", test[0], a, test[1], b)
			}
		})
	}
	if got := Stable(strings.Repeat("long ", 64), 64); len(got) > 64 {
		t.Errorf("%d bytes", len(got))
	}
}
