package collection

import "testing"

func TestReplaces(t *testing.T) {
	for text, want := range map[string]ID{
		"old-demo":                   {"acme", "old-demo"},
		"other/demo":                 {"other", "demo"},
		"other.org/demo.v1.0.0":      {"other.org", "demo.v1.0.0"},
		"demo":                       {},
		"acme/demo":                  {},
		"acme-demo-operator.v0.9.0":  {},
		"acme-demo-operator.v0.9.0-": {},
		"The old one":                {},
		"a/b/c":                      {},
		"/demo":                      {},
		"other/":                     {},
		"''":                         {},
		"[demo]":                     {},
		"3":                          {"acme", "3"},
	} {
		c, err := Load(sealed(archiveOf(sound + "replaces: " + text + "\n")))
		if err != nil {
			t.Errorf("%s: a collection with it must stay installable: %v", text, err)
		} else if c.Replaces != want {
			t.Errorf("%s: got %v, want %v", text, c.Replaces, want)
		}
	}
}
