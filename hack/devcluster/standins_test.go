package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
)

var repository = filepath.Join("..", "..")

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestDockerfileNamesEachBaseImageOnceWithItsVersion(t *testing.T) {
	dockerfile := readText(t, filepath.Join(repository, "Dockerfile"))
	known := []string{"scratch"}
	for argument, name := range readBaseImages(dockerfile) {
		known = append(known, "$"+argument)
		repositoryName, version, _ := strings.Cut(name, ":")
		if !regexp.MustCompile(`^v?\d+\.\d+`).MatchString(version) {
			t.Errorf("%s names %s, which has no version", argument, name)
		}
		if count := strings.Count(dockerfile, repositoryName); count != 1 {
			t.Errorf("the Dockerfile names %s %d times", repositoryName, count)
		}
	}
	if len(known) != 4 {
		t.Errorf("base images %q, want three and scratch", known)
	}
	stages := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+) AS (\S+)$`).FindAllStringSubmatch(dockerfile, -1)
	if count := strings.Count(dockerfile, "\nFROM "); count != len(stages) {
		t.Fatalf("%d of %d stages have the form FROM BASE AS NAME", len(stages), count)
	}
	for _, stage := range stages {
		if !slices.Contains(known, stage[1]) {
			t.Errorf("stage %s is based on %s, which is neither an argument nor an earlier stage", stage[2], stage[1])
		}
		known = append(known, stage[2])
	}
}

func TestNoImageIsLatest(t *testing.T) {
	for _, below := range []string{"Dockerfile", "Makefile", "config", "hack", "internal"} {
		err := filepath.WalkDir(filepath.Join(repository, below), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) == ".sum" {
				return err
			}
			for number, line := range strings.Split(readText(t, path), "\n") {
				if strings.Contains(line, ":latest") {
					t.Errorf("%s:%d: name the version: %s", path, number+1, line)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestImagesOfTheDockerfileHaveLicences(t *testing.T) {
	_, targets, _ := strings.Cut(readText(t, filepath.Join(repository, "Dockerfile")), " AS build\n")
	stages := strings.Split(targets, "\nFROM ")[1:]
	if len(stages) != 3 {
		t.Fatalf("the Dockerfile has %d images, want 3", len(stages))
	}
	for _, stage := range stages {
		if !strings.Contains(stage, "\nCOPY --from=build /out/licenses /licenses\n") {
			t.Errorf("no licences in FROM %s", strings.SplitN(stage, "\n", 2)[0])
		}
	}
}

func TestCertification(t *testing.T) {
	complete := v1.ImageConfig{User: "65532:0", Labels: map[string]string{}}
	for _, name := range requiredLabels {
		complete.Labels[name] = "x"
	}
	for name, test := range map[string]struct {
		change func(*image)
		want   string
	}{
		"complete":      {func(*image) {}, ""},
		"empty label":   {func(i *image) { i.config.Labels["release"] = "" }, "no label release"},
		"vendor of UBI": {func(i *image) { i.config.Labels["vendor"] = "Red Hat, Inc." }, "label vendor"},
		"root":          {func(i *image) { i.config.User = "0:0" }, "root"},
		"no user":       {func(i *image) { i.config.User = "" }, "root"},
		"many layers":   {func(i *image) { i.layers = make([]layer, 41) }, "41 layers"},
	} {
		t.Run(name, func(t *testing.T) {
			i := image{name: "tool", config: complete}
			i.config.Labels = map[string]string{}
			for label, value := range complete.Labels {
				i.config.Labels[label] = value
			}
			test.change(&i)
			err := i.certifiable()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestExportedImagesShareBlobs(t *testing.T) {
	b := buildah{project{root: t.TempDir(), caches: t.TempDir()}}
	base, top := testLayer(t, "base"), testLayer(t, "top")
	want := image{name: "tool", layers: []layer{base, top, base}, config: v1.ImageConfig{User: "1:0", Env: []string{"A=1"}}}
	adoptImage(t, b, image{name: "other", layers: []layer{base}})
	adoptImage(t, b, image{name: "tool", layers: []layer{testLayer(t, "old")}})
	adoptImage(t, b, want)
	if err := b.sweep(); err != nil {
		t.Fatal(err)
	}
	got, err := b.read("tool")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.layers) != 3 || got.config.User != "1:0" || !slices.Equal(got.config.Env, want.config.Env) {
		t.Errorf("read %+v", got)
	}
	for _, l := range got.layers {
		if measured, err := measure(l.File); err != nil || measured != l {
			t.Errorf("layer %+v is %+v, %v", l, measured, err)
		}
	}
	// Manifest and configuration of each, and two different layers: the one that was replaced is gone.
	if blobs, err := os.ReadDir(b.layout("tool", v1.ImageBlobsDir, "sha256")); err != nil || len(blobs) != 6 {
		t.Errorf("%d blobs, %v", len(blobs), err)
	}
}

// adoptImage has the layout adopt an image from a folder as buildah exports it.
func adoptImage(t *testing.T, b buildah, i image) {
	t.Helper()
	folder := t.TempDir()
	config, manifest, err := i.describe()
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string]string{"manifest.json": string(manifest.content), config.descriptor.Digest.Encoded(): string(config.content)}
	for _, l := range i.layers {
		contents[l.Digest.Encoded()] = readText(t, l.File)
	}
	for name, content := range contents {
		if err := writeFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.adopt(i.name, folder); err != nil {
		t.Fatal(err)
	}
}
