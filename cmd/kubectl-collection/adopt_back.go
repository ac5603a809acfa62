package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/adopt"
)

// backupFile is the file in the folder of a backup.
const backupFile = "before-adoption.yaml"

// clusterUID identifies a cluster.
func (a *adoption) clusterUID(ctx context.Context) (types.UID, error) {
	namespace, err := a.cluster.core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return namespace.UID, nil
}

// save writes the backup. What a former attempt has saved is kept: it is how the cluster was before.
func (a *adoption) save(ctx context.Context, plan adopt.Plan) error {
	uid, err := a.clusterUID(ctx)
	if err != nil {
		return err
	}
	b := adopt.NewBackup(a.state, plan, uid, time.Now())
	b.Finalizers = a.finalizers
	former, err := a.load(ctx)
	switch {
	case err == nil && former.Finished:
		return fmt.Errorf("%s is of an adoption that is finished: name another folder", a.backup)
	case err == nil:
		former.Add(b)
		former.Finalizers = slices.Compact(slices.Sorted(slices.Values(slices.Concat(former.Finalizers, b.Finalizers))))
		b = former
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return a.write(b)
}

// write replaces the file as a whole.
func (a *adoption) write(b *adopt.Backup) error {
	content, err := yaml.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(a.backup, 0o700); err != nil {
		return err
	}
	name := filepath.Join(a.backup, backupFile)
	if err := os.WriteFile(name+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// load reads a backup of this cluster.
func (a *adoption) load(ctx context.Context) (*adopt.Backup, error) {
	name := filepath.Join(a.backup, backupFile)
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	b := &adopt.Backup{}
	if err := yaml.UnmarshalStrict(content, b); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	uid, err := a.clusterUID(ctx)
	if err == nil && uid != b.Cluster {
		err = fmt.Errorf("%s is of another cluster", name)
	}
	return b, err
}

// goBack undoes an adoption.
func (a *adoption) goBack(ctx context.Context) error {
	b, err := a.load(ctx)
	if err != nil {
		return err
	}
	if b.Finished {
		return fmt.Errorf("%s: the adoption is finished, there is no way back: restore a backup of the cluster instead", a.backup)
	}
	if problems := a.state.OwnManagers(); len(problems) > 0 {
		return a.refuse(problems)
	}
	installed := a.state.Installed()
	fmt.Fprintf(a.out, "As before %s: %d CRDs, and labels, annotations, finalizers and status of %d objects. Made again: %d objects. Removed: %d objects of operators of Collection Operator.\n",
		b.Taken.Format(time.RFC3339), len(b.Definitions), len(b.Kept), len(b.Removed), len(installed))
	for _, made := range a.state.Made(b) {
		fmt.Fprintf(a.out, "- %s was made since then: it stays, and the other product will see it\n", made)
	}
	if a.dryRun {
		fmt.Fprintln(a.out, "Nothing was changed: this was a dry run.")
		return nil
	}
	if !a.confirmed("Go back? [y/N] ") {
		return errFindings
	}
	if err := a.restore(ctx, b, installed); err != nil {
		return fmt.Errorf("the way back is not complete, and can be repeated: %w", err)
	}
	fmt.Fprintln(a.out, "The cluster is as before. Start the other product again: its operators run each playbook once when they start.")
	return nil
}

func (a *adoption) refuse(problems []string) error {
	for _, problem := range problems {
		fmt.Fprintln(a.out, "- "+problem)
	}
	fmt.Fprintln(a.out, "Nothing was changed: solve the problems first.")
	return errFindings
}

func (a *adoption) restore(ctx context.Context, b *adopt.Backup, installed []*unstructured.Unstructured) error {
	for _, o := range installed {
		if err := a.remove(ctx, o); err != nil {
			return err
		}
	}
	for _, o := range a.state.VersionsMade(b) {
		if err := a.remove(ctx, o); err != nil {
			return err
		}
	}
	if err := a.awaitOperators(ctx); err != nil {
		return err
	}
	for _, saved := range b.Definitions {
		if err := a.restoreDefinition(ctx, saved); err != nil {
			return err
		}
	}
	for _, saved := range b.Kept {
		if err := a.restoreObject(ctx, b, saved); err != nil {
			return err
		}
	}
	for _, saved := range slices.Backward(b.Removed) {
		if err := a.recreate(ctx, saved); err != nil {
			return err
		}
	}
	return nil
}

func (a *adoption) restoreDefinition(ctx context.Context, saved *apiextensionsv1.CustomResourceDefinition) error {
	var live *apiextensionsv1.CustomResourceDefinition
	object, err := a.cluster.dynamic.Resource(definitionType).Get(ctx, saved.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	if err == nil {
		live = &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, live); err != nil {
			return err
		}
	}
	want, why := adopt.RestoredDefinition(saved, live)
	if want == nil {
		a.say(why)
		return nil
	}
	return a.updateDefinition(ctx, live, want)
}

// restoreObject repeats the write until the object is as it was: the API server needs a moment to use a CRD that was changed.
func (a *adoption) restoreObject(ctx context.Context, b *adopt.Backup, saved *unstructured.Unstructured) error {
	client, err := a.client(saved)
	if err != nil {
		return err
	}
	var problem error
	err = wait.PollUntilContextTimeout(ctx, adoptInterval, 15*adoptInterval, true, func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, saved.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			live, err = nil, nil
		}
		if err != nil {
			return false, err
		}
		want, why := a.state.Restored(b, saved, live)
		if want == nil {
			a.say(why)
			return true, nil
		}
		if problem = a.update(ctx, live, want); problem == nil {
			live, problem = client.Get(ctx, saved.GetName(), metav1.GetOptions{})
		}
		if problem == nil {
			want, _ = a.state.Restored(b, saved, live)
		}
		return problem == nil && want == nil, nil
	})
	return errors.Join(err, problem)
}

func (a *adoption) say(what string) {
	if what != "" {
		fmt.Fprintln(a.out, "- "+what)
	}
}

// recreate makes an object again that adoption removed. One of its name that is being removed is awaited.
func (a *adoption) recreate(ctx context.Context, saved *unstructured.Unstructured) error {
	client, err := a.client(saved)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, adoptInterval, true, func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, saved.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = client.Create(ctx, adopt.Recreated(saved), metav1.CreateOptions{FieldManager: fieldManager})
			return err == nil, err
		case err != nil:
			return false, err
		}
		return live.GetDeletionTimestamp() == nil, nil
	})
}

// end removes the finalizers of the other product.
func (a *adoption) end(ctx context.Context) error {
	b, err := a.load(ctx)
	if err != nil {
		return err
	}
	a.state.Finalizers = append(a.state.Finalizers, b.Finalizers...)
	problems := a.state.NotTakenOver()
	if !adopt.New(a.state).Adopted {
		problems = []string{"the adoption is not complete: run it again without --finish"}
	}
	if len(problems) > 0 {
		return a.refuse(problems)
	}
	var changes []adopt.Change
	for _, objects := range a.state.Objects {
		for _, live := range objects {
			if want := a.state.Finished(live); want != nil {
				changes = append(changes, adopt.Change{Live: live, Want: want})
			}
		}
	}
	fmt.Fprintf(a.out, "The other product's finalizers are removed from %d objects. Then there is no way back.\n", len(changes))
	if a.dryRun {
		fmt.Fprintln(a.out, "Nothing was changed: this was a dry run.")
		return nil
	}
	if !a.confirmed("Finish? [y/N] ") {
		return errFindings
	}
	b.Finished = true
	if err := a.write(b); err != nil {
		return err
	}
	for _, change := range changes {
		if err := a.update(ctx, change.Live, change.Want); err != nil {
			return fmt.Errorf("not complete, and can be repeated: %w", err)
		}
	}
	if left := adopt.Leftovers(a.state); len(left) > 0 {
		fmt.Fprintln(a.out, "Finished. Left of the other product, to be removed by you:")
		for _, command := range left {
			fmt.Fprintln(a.out, "  "+command)
		}
		return nil
	}
	fmt.Fprintln(a.out, "Finished.")
	return nil
}
