package v2beta2

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// gofmt replaces two apostrophes in the doc comment of a type with a typographic quote, which makes the marker of a CEL
// rule, and thus the CRD, invalid.
func TestMarkersSurviveFormatting(t *testing.T) {
	files, err := filepath.Glob("*_types.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no sources found", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(content), "\n") {
			if strings.HasPrefix(line, "// +kubebuilder") && (strings.ContainsAny(line, "“”‘’") || strings.Contains(line, "''")) {
				t.Errorf("%s:%d: a marker of a type must not hold quotes that gofmt changes; write size(x) > 0 instead of x != '': %s", file, i+1, line)
			}
		}
	}
}

func TestEffectivePort(t *testing.T) {
	for port, want := range map[int32]int32{0: 22, 22: 22, 2022: 2022} {
		if got := (&ZosEndpointSpec{Port: port}).EffectivePort(); got != want {
			t.Errorf("port %d: got %d, want %d", port, got, want)
		}
	}
}
