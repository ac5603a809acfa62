package runner

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
)

// maxChecks limits how many other run folders, chosen at random, are checked after a run.
const maxChecks = 20

// tidy removes files of earlier runs and the run folders of resources that do not exist any more. Failures are only logged.
func (r *runner) tidy(ctx context.Context, live *unstructured.Unstructured) {
	usual := cmp.Or(r.files.kind.MaxArtifacts, r.files.settings.MaxArtifacts)
	keep := artifactsLimit(gate.Annotation(live.GetAnnotations(), gate.AnnotationMaxArtifacts), usual)
	if err := r.call.artifacts().rotate(keep); err != nil {
		r.out.note("rotate artifacts: %v", err)
	}
	parent, own := filepath.Split(filepath.Clean(r.call.dir))
	entries, err := os.ReadDir(parent)
	if err != nil {
		r.out.note("clean up run folders: %v", err)
		return
	}
	checks := 0
	for _, i := range rand.Perm(len(entries)) {
		entry := entries[i]
		if !entry.IsDir() || entry.Name() == own {
			continue
		}
		if checks++; checks > maxChecks {
			return
		}
		if err := r.removeFolder(ctx, filepath.Join(parent, entry.Name()), entry.Name()); err != nil {
			r.out.note("clean up run folder of %s: %v", entry.Name(), err)
		}
	}
}

// removeFolder removes the run folder of a resource that does not exist, unless a run uses it.
func (r *runner) removeFolder(ctx context.Context, dir, name string) error {
	_, err := r.resource.client.Get(ctx, name, metav1.GetOptions{})
	if !isNotFound(err, name) {
		return err
	}
	lock, err := lockFolder(dir)
	if lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return os.RemoveAll(dir)
}
