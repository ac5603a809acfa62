package budget

import (
	"strings"
	"testing"
)

func items(names ...string) Items {
	all := Items{}
	for _, name := range names {
		all[name] = 1
	}
	return all
}

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		limits Limits
		claims []Claim
		own    int
		want   string // "" means that it fits
	}{
		"nothing is used": {Limits{1, 1}, []Claim{{"a", nil, items("x")}}, 0, ""},
		"no limits":       {Limits{}, []Claim{{"a", items("x"), nil}, {"a", nil, items("y", "z")}}, 1, ""},
		"the namespace is full": {Limits{1, 9}, []Claim{{"a", items("x"), nil}, {"a", nil, items("y")}}, 1,
			`things in namespace "a" is exceeded: 1 of 1 are used and 1 more are needed: delete some that are not needed, or ask an administrator to raise --max-things-per-namespace`},
		"another namespace is full": {Limits{1, 9}, []Claim{{"b", items("x"), nil}, {"a", nil, items("y")}}, 1, ""},
		"all are full": {Limits{9, 1}, []Claim{{"b", items("x"), nil}, {"a", nil, items("y")}}, 1,
			"things in all namespaces is exceeded: 1 of 1 are used and 1 more are needed: delete some that are not needed, or ask an administrator to raise --max-things"},
		"what is shared counts once":               {Limits{1, 1}, []Claim{{"a", items("x"), nil}, {"a", nil, items("x")}}, 1, ""},
		"an older one that waits comes first":      {Limits{1, 9}, []Claim{{"a", nil, items("x")}, {"a", nil, items("y")}}, 1, "1 of 1"},
		"a younger one that waits does not":        {Limits{1, 9}, []Claim{{"a", nil, items("x")}, {"a", nil, items("y")}}, 0, ""},
		"an older one that cannot fit does not":    {Limits{2, 9}, []Claim{{"a", nil, items("x", "y", "z")}, {"a", nil, items("y")}}, 1, ""},
		"a younger one that holds keeps":           {Limits{1, 9}, []Claim{{"a", nil, items("x")}, {"a", items("y"), nil}}, 0, "1 of 1"},
		"a lowered limit takes nothing away":       {Limits{1, 9}, []Claim{{"a", items("x", "y"), items("x", "y")}}, 0, ""},
		"less than before always fits":             {Limits{1, 9}, []Claim{{"a", items("x", "y", "z"), items("v", "w")}}, 0, ""},
		"more than before must fit":                {Limits{2, 9}, []Claim{{"a", items("x", "y"), items("x", "y", "z")}}, 0, "0 of 2 are used and 3 more"},
		"what is replaced does not count any more": {Limits{2, 9}, []Claim{{"a", items("x", "y"), items("v", "w")}}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Budget{Limits: tt.limits, Name: "things", Flag: "--max-things"}.Check(tt.claims, tt.own)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestMiB(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0 MiB", 1: "1 MiB", 1 << 20: "1 MiB", 1<<20 + 1: "2 MiB"} {
		if got := MiB(bytes); got != want {
			t.Errorf("%d: got %s, want %s", bytes, got, want)
		}
	}
}
