package lint_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/collection-operator/collection-operator/internal/author/galaxy"
	"github.com/collection-operator/collection-operator/internal/author/lint"
	"github.com/collection-operator/collection-operator/internal/collection/findings"
	"github.com/collection-operator/collection-operator/internal/collection/model"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Real collections come in these shapes. Each loads, with exactly the problems of its golden file, as a folder and as
// the archive that is built from it.
func TestShapes(t *testing.T) {
	folders, err := os.ReadDir("testdata/shapes")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		t.Run(folder.Name(), func(t *testing.T) {
			fsys := os.DirFS(filepath.Join("testdata/shapes", folder.Name()))
			var archive bytes.Buffer
			if err := galaxy.Build(fsys, &archive); err != nil {
				t.Fatal(err)
			}
			_, fromFolder, err := lint.Check(fsys)
			if err != nil {
				t.Fatal(err)
			}
			fromArchive, _, err := lint.CheckArchive(&archive)
			if err != nil {
				t.Fatal(err)
			}
			got := listed(fromFolder)
			if diff := cmp.Diff(got, strings.ReplaceAll(listed(fromArchive), model.ManifestFile, model.GalaxyFile)); diff != "" {
				t.Errorf("the archive has other problems than its folder (-folder +archive):\n%s", diff)
			}
			golden := filepath.Join("shapes", folder.Name()+".golden.txt")
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", golden), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(filepath.Join("testdata", golden))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("problems differ from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// listed prints one problem per line, with severity and rule.
func listed(problems findings.Problems) string {
	var b strings.Builder
	for _, p := range problems {
		severity := p.Severity
		p.Severity = findings.SeverityError // String marks all others.
		b.WriteString(string(severity) + " " + p.Rule + " " + p.String() + "\n")
	}
	return b.String()
}

// What does not fit is left out of the model, and the rest is there.
func TestLoadLeavesOutWhatDoesNotFit(t *testing.T) {
	c, err := model.Load(os.DirFS("testdata/shapes/defaults"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]any{}
	for _, v := range c.Resources[0].Vars {
		got[v.Name] = v.Default
	}
	want := map[string]any{
		"name": nil, "DFH_REGION_APPLID": nil, "DFS_IMSPlex": nil, "http_port": int64(9800), "https_port": int64(9801), "secure": true,
		"started": "2025-01-01", "release": "6.1", "edition": nil, "ratio": int64(1), "workers": nil, "home": "/u/{{ name }}",
		"switches": []any{int64(1), int64(2)}, "logs": nil, "mounts": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults differ (-want +got):\n%s", diff)
	}
}
