package archive_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/hostile"
)

func TestMistakesAreRecognized(t *testing.T) {
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	inside, err := w.Create("example-demo-1.0.0.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Write(hostile.Pack(collectionEntries...)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("a", 64) + "\nsize 12345\n"
	const page, other = "the file is a web page (HTML or XML), such as one to log in or of an error: use the address", "the file is not a gzip file; a collection archive is a .tar.gz"
	for name, tt := range map[string]struct {
		content    []byte
		reason     archive.Reason
		want       string
		recognized bool
	}{
		"nothing":           {nil, archive.Truncated, "the file is empty: build the archive", true},
		"HTML":              {[]byte("\ufeff\n<!DOCTYPE html>\n<html><body>Sign in</body></html>"), archive.NotGzip, page, true},
		"XML of a store":    {[]byte(`<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`), archive.NotGzip, page, true},
		"a Git LFS pointer": {[]byte(pointer), archive.NotGzip, "the file is a Git LFS pointer and not the archive that it stands for: run git lfs pull", true},
		"a zip":             {zipped.Bytes(), archive.NotGzip, "the file is a zip file: use the .tar.gz that is in it", true},
		"a tar":             {hostile.Tar(hostile.Entry{Name: "a", Body: "content", Type: tar.TypeReg}), archive.NotGzip, "the file is a tar file that is not compressed: compress it to a .tar.gz", true},
		"something else":    {[]byte("hello"), archive.NotGzip, other, false},
		"an archive":        {hostile.Pack(collectionEntries...), "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := archive.Read(bytes.NewReader(tt.content), archive.Limits{}, keepAll)
			var refused *archive.Error
			if (tt.reason != "") != errors.As(err, &refused) || refused != nil && (refused.Reason != tt.reason || !strings.HasPrefix(refused.Err.Error(), tt.want)) {
				t.Errorf("got %v", err)
			}
			switch recognized := archive.Recognize(bytes.NewReader(tt.content)); {
			case (recognized != nil) != tt.recognized:
				t.Errorf("recognized: %v", recognized)
			case tt.recognized && recognized.Error() != err.Error():
				t.Errorf("got %q and %q", recognized, err)
			}
		})
	}
}
