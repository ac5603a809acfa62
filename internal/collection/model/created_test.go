package model

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"testing"
	"time"

	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// The time of MANIFEST.json in its archive is when the archive was built. Nothing else says it.
func TestCreated(t *testing.T) {
	built := time.Date(2025, 6, 1, 12, 30, 5, 0, time.UTC)
	tests := map[string]struct{ manifest, want time.Time }{
		"as ansible-galaxy writes it": {built, built},
		"with a fraction":             {built.Add(time.Millisecond), built},
		"reproducible":                {time.Unix(0, 0), time.Time{}},
		"before 1970":                 {time.Unix(-1, 0), time.Time{}},
		"in a year of five digits":    {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Time{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files, err := archive.Read(bytes.NewReader(packedAt(t, tt.manifest)), archive.DefaultLimits, Keep)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Load(files)
			if err != nil {
				t.Fatal(err)
			}
			if !c.Created.Equal(tt.want) || c.Created.IsZero() != tt.want.IsZero() {
				t.Errorf("created %v, want %v", c.Created, tt.want)
			}
		})
	}
}

func TestFolderHasNoTimeOfItsOwn(t *testing.T) {
	folder := soundArchive()
	for _, file := range folder {
		file.ModTime = time.Date(2025, 6, 1, 12, 30, 5, 0, time.UTC)
	}
	c, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if !c.Created.IsZero() {
		t.Errorf("created %v", c.Created)
	}
}

// packedAt is an archive whose MANIFEST.json has a time, and all else one of long before.
func packedAt(t *testing.T, manifest time.Time) []byte {
	t.Helper()
	var content bytes.Buffer
	zipped := gzip.NewWriter(&content)
	packed := tar.NewWriter(zipped)
	for name, file := range soundArchive() {
		// PAX records have fractions of a second and any year.
		header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(file.Data)), ModTime: time.Unix(1e9, 0), Format: tar.FormatPAX}
		if name == ManifestFile {
			header.ModTime = manifest
		}
		if file.Mode.IsDir() {
			header.Typeflag, header.Name = tar.TypeDir, name+"/"
		}
		if err := packed.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := packed.Write(file.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}
