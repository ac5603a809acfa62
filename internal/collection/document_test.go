package collection

import "testing"

func TestNearest(t *testing.T) {
	for key, want := range map[string]string{
		"displayname": "displayName", "display_name": "displayName", "typ": "type", "defaults": "default", "Name": "name",
		"kindreference": "kindReference", "requird": "required", "maturity": "", "x": "", "": "",
	} {
		if got := nearest(key, varKeys); got != want {
			t.Errorf("nearest to %q is %q, want %q", key, got, want)
		}
	}
}
