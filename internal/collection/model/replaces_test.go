package model

import "testing"

// The name of the ClusterServiceVersion of an older version of the same collection is for bundles; any other is not honoured.
func TestReplacesVersion(t *testing.T) {
	for text, want := range map[string]string{
		"acme-demo-operator.v0.9.0":      "acme-demo-operator.v0.9.0",
		"acme-demo.v0.9.0":               "acme-demo-operator.v0.9.0",
		"acme-demo-operator.v1.2.3-rc.1": "acme-demo-operator.v1.2.3-rc.1",
		"acme-demo-operator.v1.2.3":      "",
		"acme-demo-operator.v9.9.9":      "",
		"acme-demo-operator.v1.2.3-RC.1": "",
		"acme-demo-operator.v1.2":        "",
		"acme-other-operator.v0.9.0":     "",
		"other/demo":                     "",
	} {
		c, err := Load(sealed(archiveOf(sound + "replaces: " + text + "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if c.ReplacesVersion != want || want != "" && c.Replaces != (ID{}) {
			t.Errorf("%s: replaces version %q and collection %v, want version %q", text, c.ReplacesVersion, c.Replaces, want)
		}
	}
}

func TestReplaces(t *testing.T) {
	for text, want := range map[string]ID{
		"old-demo":                   {"acme", "old-demo"},
		"other/demo":                 {"other", "demo"},
		"other.org/demo.v1.0.0":      {"other.org", "demo.v1.0.0"},
		"demo":                       {},
		"acme/demo":                  {},
		"acme-demo-operator.v0.9.0":  {},
		"acme-demo-operator.v0.9.0-": {},
		"acme-demo-operator.v9.9.9":  {},
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
