package kit

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/collection/findings"
)

func TestColor(t *testing.T) {
	if got := Palette(false).Severity(findings.SeverityError); got != "error" {
		t.Errorf("without colour: %q", got)
	}
	if got := Palette(true).Severity(findings.SeverityWarning); got != "\x1b[33mwarning\x1b[0m" {
		t.Errorf("with colour: %q", got)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if Colored(f) || Colored(&bytes.Buffer{}) {
		t.Error("a file or a buffer is coloured")
	}
}

func TestConfirmed(t *testing.T) {
	for answer, want := range map[string]bool{
		"y\n": true, "Yes\n": true, "yes\r\n": true, "YES": true,
		"": false, "\n": false, "n\n": false, "yesterday\n": false, "\ny\n": false, strings.Repeat(" ", 2000) + "y\n": false,
	} {
		if Confirm(strings.NewReader(answer), io.Discard, "Remove it? [y/N] ") != want {
			t.Errorf("%.20q is taken for %v", answer, !want)
		}
	}
}
