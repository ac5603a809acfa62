package reader

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	long := strings.Repeat("a line\n", 100_000)
	for name, test := range map[string]struct {
		text, want string
		limit      int
	}{
		"empty":                {"", "", 100},
		"short":                {"one\ntwo\n", "one\ntwo\n", 100},
		"cut at a line":        {"one\ntwo\nthree\n", "three\n", 8},
		"long":                 {long + "end\n", "a line\na line\nend\n", 20},
		"longer than its room": {long + "end", long[:70_000] + "end", 70_008},
	} {
		got, err := tail(strings.NewReader(test.text), test.limit)
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %d bytes, want %d: %v", name, len(got), len(test.want), err)
		}
		if cap(got) != len(got) {
			t.Errorf("%s: %d bytes are kept for %d", name, cap(got), len(got))
		}
	}
}
