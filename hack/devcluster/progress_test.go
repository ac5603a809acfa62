package main

import (
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestProgress(t *testing.T) {
	for name, test := range map[string]struct {
		read    progress
		printed []string
		want    string
	}{
		"compile":         {compileProgress(3), []string{"go: finding module\nk8s.io/a", "pi/v1\nbytes\n", "os"}, "2 of 3 packages"},
		"link":            {compileProgress(1), []string{"bytes\n"}, "links programs"},
		"only links":      {compileProgress(0), nil, "3 s"},
		"download":        {downloadProgress(), []string{"go: downloading a v1\ngo: downloading b v1\n"}, "2 modules downloaded"},
		"build an image":  {imageProgress(), []string{"STEP 1/7: FROM a\nhash\n[2/2] STEP 2/7: RUN ", strings.Repeat("x", 80) + "\n\n"}, "step 2 of 7: RUN " + strings.Repeat("x", 56)},
		"run in an image": {imageProgress(), []string{"STEP 2/7: RUN a\nSetting up b\n"}, "step 2 of 7: Setting up b"},
		"anything else":   {lastLine, []string{"a\nb\n\n", "c"}, "b"},
	} {
		printed := &transcript{read: test.read}
		for _, part := range test.printed {
			if _, err := printed.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if got := printed.status(3 * time.Second); got != test.want {
			t.Errorf("%s: the status is %q, want %q", name, got, test.want)
		}
	}
}

func TestFailuresShowTheEndOfTheOutput(t *testing.T) {
	err := runNoting("build", exec.Command("sh", "-c", "seq 1 50; echo broken >&2; exit 3"), lastLine)
	if err == nil || !strings.HasPrefix(err.Error(), "build: exit status 3\n22\n") || !strings.HasSuffix(err.Error(), "50\nbroken") {
		t.Errorf("got %v", err)
	}
}

func TestTail(t *testing.T) {
	for text, want := range map[string]string{"a\nb\nc\n": "b\nc", "a": "a", "": ""} {
		if got := tail(text, 2); got != want {
			t.Errorf("tail(%q) = %q, want %q", text, got, want)
		}
	}
}
