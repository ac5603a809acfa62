package galaxy

import (
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

// soundGalaxy is a galaxy.yml of 5 lines.
const soundGalaxy = "namespace: acme\nname: demo\nversion: 1.2.3\nreadme: README.md\nauthors: [Acme]\n"

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		galaxy string
		want   []string
	}{
		"sound":                    {soundGalaxy, nil},
		"no readme and no authors": {"namespace: acme\nname: demo\nversion: 1.2.3\n", []string{"galaxy.yml:1:1: authors: is required", "galaxy.yml:1:1: readme: is required"}},
		"version":                  {"namespace: acme\nname: demo\nversion: one\nreadme: README.md\nauthors: [Acme]\n", []string{`galaxy.yml:3:10: version: "one" is not a semantic version such as 1.2.0`}},
		"manifest directives":      {soundGalaxy + "manifest: {directives: []}\n", []string{"galaxy.yml:6:11: manifest: manifest directives are not supported; use build_ignore"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{"galaxy.yml": {Data: []byte(test.galaxy)}}
			problems, err := Check(files)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range problems {
				if p.Rule != ruleGalaxyBuild.Name || p.Severity != findings.SeverityError || p.Refused {
					t.Errorf("unexpected problem %+v", p)
				}
				got = append(got, p.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			files["MANIFEST.json"] = &fstest.MapFile{}
			if problems, err := Check(files); err != nil || problems != nil {
				t.Errorf("of an unpacked archive: %v, %v", problems, err)
			}
		})
	}
	if problems, err := Check(fstest.MapFS{}); err != nil || problems != nil {
		t.Errorf("of a folder without galaxy.yml: %v, %v", problems, err)
	}
}
