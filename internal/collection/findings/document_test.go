package findings

import "testing"

func TestNearest(t *testing.T) {
	keys := []string{
		"name", "displayName", "type", "options", "required", "default", "description", "kindReference", "objectVariables", "array",
	}
	for key, want := range map[string]string{
		"displayname": "displayName", "display_name": "displayName", "typ": "type", "defaults": "default", "Name": "name",
		"kindreference": "kindReference", "requird": "required", "maturity": "", "x": "", "": "",
	} {
		if got := nearest(key, keys); got != want {
			t.Errorf("nearest to %q is %q, want %q", key, got, want)
		}
	}
}
