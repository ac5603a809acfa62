package main

import (
	"archive/tar"
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestBytecodeIsValidForSourcesOf1970(t *testing.T) {
	const magic, size = "\xa7\x0d\x0d\x0a", "\x10\x00\x00\x00"
	for name, test := range map[string]struct {
		file, content, want string
	}{
		"of a time":     {"a.pyc", magic + "\x00\x00\x00\x00" + "\x01\x02\x03\x04" + size, "1 .pyc files"},
		"of 1970":       {"a.pyc", magic + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" + size, ""},
		"checked hash":  {"a.pyc", magic + "\x03\x00\x00\x00" + "\x01\x02\x03\x04" + size, ""},
		"incomplete":    {"a.pyc", magic, "unexpected EOF"},
		"other content": {"a.py", magic + "\x00\x00\x00\x00" + "\x01\x02\x03\x04" + size, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var content bytes.Buffer
			archive := tar.NewWriter(&content)
			if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "usr/lib/" + test.file, Size: int64(len(test.content))}); err != nil {
				t.Fatal(err)
			}
			if _, err := archive.Write([]byte(test.content)); err != nil {
				t.Fatal(err)
			}
			if err := archive.Close(); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "layer")
			if err := writeFile(file, content.String(), 0o644); err != nil {
				t.Fatal(err)
			}
			err := image{layers: []layer{{File: file}}}.validBytecode()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
