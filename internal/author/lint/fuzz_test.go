package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/author/lint"
)

// Whatever loads makes kinds that the API server accepts, unless they are too large to be stored.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(config))
	files, err := filepath.Glob("../../collection/model/testdata/*/operator-config.y*ml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		_, problems, err := lint.Check(folder(map[string]string{"operator-config.yml": string(content), "provision.yml": "- hosts: all\n"}))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			unexpected := p.Rule == "example" || p.Rule == "crd-schema" && !strings.Contains(p.Message, "cannot be stored")
			if unexpected {
				t.Errorf("%v", p)
			}
		}
	})
}
