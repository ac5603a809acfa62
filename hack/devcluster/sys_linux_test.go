package main

import "testing"

func TestParseStat(t *testing.T) {
	tail := " 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 4711 100 200"
	for _, test := range []struct {
		name, stat, start string
		running           bool
	}{
		{"ordinary", "42 (etcd) S" + tail, "4711", true},
		{"name with parenthesis and spaces", "42 (a) Z (b) R" + tail, "4711", true},
		{"zombie", "42 (etcd) Z" + tail, "", false},
		{"dead", "42 (etcd) X" + tail, "", false},
		{"cut short", "42 (etcd) S 1 2", "", false},
		{"empty", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if start, running := parseStat(test.stat); start != test.start || running != test.running {
				t.Errorf("parseStat = %q, %v, want %q, %v", start, running, test.start, test.running)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	for path, want := range map[string]bool{"/a/b": true, "/a/b/c": true, "/a/bc": false, "/a": false} {
		if got := within(path, []string{"/a/b"}); got != want {
			t.Errorf("within(%s) = %v", path, got)
		}
	}
}
