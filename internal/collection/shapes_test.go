package collection

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
			if err := Build(fsys, &archive); err != nil {
				t.Fatal(err)
			}
			fromFolder, err := Load(fsys)
			if err != nil {
				t.Fatal(err)
			}
			fromArchive, err := Load(unpack(t, archive.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			got := listed(fromFolder.Problems)
			if diff := cmp.Diff(got, strings.ReplaceAll(listed(fromArchive.Problems), manifestFile, galaxyFile)); diff != "" {
				t.Errorf("the archive has other problems than its folder (-folder +archive):\n%s", diff)
			}
			golden := filepath.Join("shapes", folder.Name()+".golden.txt")
			if *update {
				if err := os.WriteFile(filepath.Join("testdata", golden), []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(readTestdata(t, golden)), got); diff != "" {
				t.Errorf("problems differ from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// listed prints one problem per line, with severity and rule.
func listed(problems Problems) string {
	var b strings.Builder
	for _, p := range problems {
		severity := p.Severity
		p.Severity = SeverityError // String marks all others.
		b.WriteString(string(severity) + " " + p.Rule + " " + p.String() + "\n")
	}
	return b.String()
}

func TestLargeIconIsKept(t *testing.T) {
	large := base64.StdEncoding.EncodeToString([]byte("GIF89a" + strings.Repeat("x", 200<<10)))
	c, err := Load(sealed(archiveOf(sound + "icon:\n- mediatype: image/gif\n  base64data: >-\n    " + large[:100] + "\n    " + large[100:] + "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Icons) != 1 || c.Icons[0].Base64Data != large || len(c.Problems) != 1 || c.Problems[0].Rule != ruleIconSize {
		t.Errorf("got %d icons and %v", len(c.Icons), c.Problems)
	}
}

// What does not fit is left out of the model, and the rest is there.
func TestLoadLeavesOutWhatDoesNotFit(t *testing.T) {
	c, err := Load(os.DirFS("testdata/shapes/defaults"))
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
		"switches": []any{true, false}, "logs": nil, "mounts": nil,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults differ (-want +got):\n%s", diff)
	}
}
