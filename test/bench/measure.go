package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/source/archive"
)

// manifests does with an archive what the manager does: digest, archive, collection, objects. It returns how many
// objects there are.
func manifests(path string) (int, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	archived, err := digest.FromReader(f)
	if err != nil {
		return 0, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, err
	}
	files, err := archive.Read(f, archive.DefaultLimits, model.Keep)
	if err != nil {
		return 0, err
	}
	c, err := model.Load(files)
	if err != nil {
		return 0, err
	}
	crds, err := render.CRDs(c, c.Group(false))
	if err != nil {
		return 0, err
	}
	objects, err := render.Installation(c, render.InstallationOptions{
		Namespace: "zos", Group: c.Group(false), Digest: archived, ArtifactURL: "http://manager/" + archived.String(),
		Runtime: v2beta2.RuntimeSpec{Image: "registry.example/runtime:1"},
	})
	return len(crds) + len(objects), err
}

// result is what the measuring process prints: how long manifests took inside it, and the most memory that it took.
type result struct {
	Took   time.Duration
	Memory int64
}

func measure(path string) error {
	start := time.Now()
	if _, err := manifests(path); err != nil {
		return err
	}
	took := time.Since(start)
	memory, err := peakMemory()
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result{Took: took, Memory: memory})
}

// peakMemory asks Linux what this process held in memory at most. What wait(2) tells the parent does not do: there a
// process counts the memory of the one that started it.
func peakMemory() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var kibibytes int64
	if _, err := fmt.Sscanf(after, "%d kB", &kibibytes); err != nil {
		return 0, fmt.Errorf("read the peak of memory: %w", err)
	}
	return kibibytes << 10, nil
}
