package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

func itoa(number int) string { return strconv.Itoa(number) }

func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func testLayer(t *testing.T, name string) layer {
	t.Helper()
	p := project{root: t.TempDir()}
	l, err := fileLayer(p, name, entry{target: "bin/" + name, data: "content of " + name})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSameContentGivesSameDigest(t *testing.T) {
	if first, second := testLayer(t, "tool"), testLayer(t, "tool"); first.Digest != second.Digest {
		t.Errorf("layers %s and %s", first.Digest, second.Digest)
	}
	if first, second := testLayer(t, "tool"), testLayer(t, "other"); first.Digest == second.Digest {
		t.Error("different layers have one digest")
	}
}

func measure(path string) (layer, error) {
	content, err := os.ReadFile(path)
	return layer{File: path, Digest: digest.FromBytes(content), Size: int64(len(content))}, err
}

func TestLayerDigestIsThatOfItsFile(t *testing.T) {
	l := testLayer(t, "tool")
	measured, err := measure(l.File)
	if err != nil {
		t.Fatal(err)
	}
	if measured != l {
		t.Errorf("wrote %+v, measured %+v", l, measured)
	}
}

func TestArchiveLeavesOutWhatTheReaderHas(t *testing.T) {
	base, top := testLayer(t, "base"), testLayer(t, "top")
	i := image{name: "tool", layers: []layer{base, top}, config: v1.ImageConfig{User: "1:0"}}
	config, manifest, err := i.describe()
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := i.archive(&written, map[digest.Digest]bool{base.Digest: true}); err != nil {
		t.Fatal(err)
	}
	want := []string{v1.ImageLayoutFile, blobPath(config.descriptor.Digest), blobPath(manifest.descriptor.Digest), blobPath(top.Digest), v1.ImageIndexFile}
	if got := tarNames(t, &written); !slices.Equal(got, want) {
		t.Errorf("archive holds %q, want %q", got, want)
	}
}

func tarNames(t *testing.T, r io.Reader) []string {
	t.Helper()
	var names []string
	archive := tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
}

func TestHoldsImage(t *testing.T) {
	d := digest.FromString("one")
	list := "REF TYPE DIGEST SIZE\nlocalhost/a:dev application/vnd.oci.image.manifest.v1+json " + d.String() + " 1 MiB\n"
	for _, test := range []struct {
		reference string
		digest    digest.Digest
		want      bool
	}{
		{"localhost/a:dev", d, true},
		{"localhost/a:dev", digest.FromString("two"), false},
		{"localhost/b:dev", d, false},
	} {
		if got := holdsImage(list, test.reference, test.digest); got != test.want {
			t.Errorf("holdsImage(%s, %s) = %v", test.reference, test.digest, got)
		}
	}
}

func TestSourceLinesKeepsDebianOnly(t *testing.T) {
	targets := "Debian|http://mirror.example/debian|bookworm|main\nNodesource|https://deb.example|nodistro|main\n|http://unknown.example|x|main\n"
	if got, err := sourceLines(targets); err != nil || got != "deb http://mirror.example/debian bookworm main\n" {
		t.Errorf("sourceLines = %q, %v", got, err)
	}
}

func TestSourcesAreReachableFromAnotherRootFileSystem(t *testing.T) {
	list := func(content string) string {
		file := filepath.Join(t.TempDir(), "debian.list")
		if err := writeFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	mirrors := list("# nearest first\n\nhttps://a.example/debian\tpriority:1\nhttps://b.example/debian\n")
	for site, want := range map[string]string{
		"http://mirror.example/debian":    "http://mirror.example/debian",
		"mirror+file:" + mirrors:          "https://a.example/debian",
		"mirror+file://" + mirrors:        "https://a.example/debian",
		"mirror://mirror.example/list":    "mirror://mirror.example/list",
		"mirror+file:" + list("# none\n"): "names no mirror",
		"mirror+file:" + list("file:/x"):  "only on this machine",
		"mirror+file:/nowhere/list":       "no such file",
		"file:/srv/debian":                "only on this machine",
		"cdrom://[Debian 12]":             "only on this machine",
		"copy:/srv/debian":                "only on this machine",
	} {
		got, err := remoteSite(site)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("remoteSite(%s) = %s, want %s", site, got, want)
		}
	}
}
