package archive_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/collection-operator/collection-operator/internal/source/archive"
	"github.com/collection-operator/collection-operator/test/hostile"
)

// seed adds archives and the tars in them, to bypass gzip's checksum.
func seed(f *testing.F) {
	contents := [][]byte{hostile.Pack(collectionEntries...)}
	for _, h := range hostile.Archives(testLimits) {
		contents = append(contents, h.Content())
	}
	for _, content := range contents {
		f.Add(content)
		r, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			continue
		}
		if tar, err := io.ReadAll(r); err == nil && len(tar) < 16<<10 {
			f.Add(bytes.TrimRight(tar, "\x00"))
		}
	}
}

// variants returns the input as an archive, and as a tar with valid header checksums.
func variants(content []byte) [][]byte {
	tar := bytes.Clone(content)
	for at := 0; at+512 <= len(tar); {
		header := tar[at : at+512]
		copy(header[148:156], "        ")
		sum := 0
		for _, b := range header {
			sum += int(b)
		}
		copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
		size, err := strconv.ParseInt(strings.Trim(string(header[124:136]), " \x00"), 8, 32)
		if err != nil || size < 0 {
			break
		}
		at += 512 + int(size+511)/512*512
	}
	return [][]byte{content, hostile.Gzip(append(tar, make([]byte, 1024)...))}
}

func FuzzWalk(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, content := range variants(content) {
			walkAndCheck(t, content)
		}
	})
}

func walkAndCheck(t *testing.T, content []byte) {
	seen := map[string]bool{}
	var total int64
	err := archive.Walk(bytes.NewReader(content), testLimits, func(name string, mode fs.FileMode, size int64, content io.Reader) error {
		if !fs.ValidPath(name) || name == "." || len(name) > testLimits.NameBytes || strings.Count(name, "/") >= testLimits.Depth {
			t.Errorf("visited the path %q", name)
		}
		if seen[strings.ToLower(name)] {
			t.Errorf("visited %q twice", name)
		}
		seen[strings.ToLower(name)] = true
		if kind := mode.Type(); kind != 0 && kind != fs.ModeDir && kind != fs.ModeSymlink {
			t.Errorf("visited %q of type %v", name, mode)
		}
		n, err := io.Copy(io.Discard, content)
		if err == nil && n != size {
			t.Errorf("%q holds %d bytes, not %d", name, n, size)
		}
		total += n
		return err
	})
	if total > testLimits.TotalBytes+int64(testLimits.NameBytes*testLimits.Entries) || len(seen) > testLimits.Entries {
		t.Errorf("read %d bytes in %d entries", total, len(seen))
	}
	var refused *archive.Error
	if err != nil && !errors.As(err, &refused) {
		t.Errorf("got an error without a reason: %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, content := range variants(content) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "root")
			err := extractInto(t, dir, content, testLimits)
			if entries, readErr := os.ReadDir(outer); readErr != nil || len(entries) != 1 {
				t.Fatalf("something was written outside: %v, %v", entries, readErr)
			}
			if err == nil {
				checkLinks(t, dir)
			}
		}
	})
}

func checkLinks(t *testing.T, dir string) {
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range listing(t, dir) {
		resolved, err := filepath.EvalSymlinks(filepath.Join(top, name))
		if err != nil {
			t.Errorf("%q leads nowhere: %v", name, err)
		} else if !strings.HasPrefix(resolved, top+"/") {
			t.Errorf("%q leads to %q", name, resolved)
		}
	}
}
