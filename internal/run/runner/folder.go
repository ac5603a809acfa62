package runner

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runner/podfiles"
)

// prepareFolder removes what former calls left, reduces the extra vars to what the playbook gets, and removes the address of
// ansible-operator: only the gate answers it. For a migration it replaces the playbook.
func prepareFolder(r *scope, supply gate.Supply, m *gate.Migration) error {
	if err := r.call.Artifacts().RemoveLinks(); err != nil {
		return err
	}
	for _, file := range []string{r.call.ReportFile(), r.call.OptionsFile()} {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	vars, _ := supply.ExtraVars(r.files.Given)
	if m != nil {
		vars = m.Vars(vars, r.files.Settings.MigrationPlaybook)
	}
	if err := podfiles.WriteJSON(r.call.ExtraVarsFile(), vars); err != nil {
		return err
	}
	settings := map[string]any{}
	if err := podfiles.ReadJSON(r.call.SettingsFile(), &settings); err != nil {
		return err
	}
	delete(settings, "runner_http_url")
	delete(settings, "runner_http_path")
	return podfiles.WriteJSON(r.call.SettingsFile(), settings)
}

// maxChecks limits how many other run folders, chosen at random, are checked after a run.
const maxChecks = 20

// tidy removes files of earlier runs and the run folders of resources that do not exist any more. Failures are only logged.
func tidy(ctx context.Context, r *scope, live *unstructured.Unstructured) {
	usual := cmp.Or(r.files.Kind.MaxArtifacts, r.files.Settings.MaxArtifacts)
	keep := podfiles.ArtifactsLimit(gate.Annotation(live.GetAnnotations(), gate.AnnotationMaxArtifacts), usual)
	if err := r.call.Artifacts().Rotate(keep); err != nil {
		r.out.Note("rotate artifacts: %v", err)
	}
	parent, own := filepath.Split(filepath.Clean(r.call.Dir))
	entries, err := os.ReadDir(parent)
	if err != nil {
		r.out.Note("clean up run folders: %v", err)
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
		if err := removeFolder(ctx, r, filepath.Join(parent, entry.Name()), entry.Name()); err != nil {
			r.out.Note("clean up run folder of %s: %v", entry.Name(), err)
		}
	}
}

// removeFolder removes the run folder of a resource that does not exist, unless a run uses it.
func removeFolder(ctx context.Context, r *scope, dir, name string) error {
	_, err := r.resource.client.Get(ctx, name, metav1.GetOptions{})
	if !isNotFound(err, name) {
		return err
	}
	lock, err := podfiles.LockFolder(dir)
	if lock == nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	return os.RemoveAll(dir)
}
