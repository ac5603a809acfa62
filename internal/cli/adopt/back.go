package adopt

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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// backupFile is the file in the folder of a backup.
const backupFile = "before-adoption.yaml"

// clusterUID identifies a cluster.
func (a *adoption) clusterUID(ctx context.Context) (types.UID, error) {
	namespace, err := a.cluster.Core.Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
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
	case err == nil && (former.Finished || former.Restored):
		return fmt.Errorf("%s is of an adoption that is finished, or undone: name another folder", a.backup)
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
	return a.writeFile(backupFile, content)
}

// writeFile writes a file of the folder as a whole.
func (a *adoption) writeFile(name string, content []byte) error {
	if err := os.MkdirAll(a.backup, 0o700); err != nil {
		return err
	}
	path := filepath.Join(a.backup, name)
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
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
	if b.Returned {
		fmt.Fprintln(a.out, "The adoption is undone already: there is nothing to do.")
		return nil
	}
	if problems := a.state.BackProblems(b); len(problems) > 0 {
		return a.refuse(problems)
	}
	if err := a.findInstalled(ctx, b); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "As before %s: %d CRDs, and labels, annotations, finalizers and status of %d objects. Made again: %d objects. Removed: %d objects of operators of Collection Operator.\n",
		b.Taken.Format(time.RFC3339), len(b.Definitions), len(b.Kept), len(b.ToRecreate()), len(b.Installed))
	for _, o := range b.Installed {
		a.say(fmt.Sprintf("%s %s/%s is removed", o.GetKind(), o.GetNamespace(), o.GetName()))
	}
	if len(b.ToRecreate()) > 0 {
		a.say("Operators of the other product that are made again start at once, and may run playbooks. Remove Collection Operator before, but not its CRDs: its policies do not let them write status")
	}
	for _, made := range a.state.Made(b) {
		a.say(made + " was made since then: it stays, and the other product will see it")
	}
	if a.dryRun {
		fmt.Fprintln(a.out, "Nothing was changed: this was a dry run.")
		return nil
	}
	if !a.confirmed("Go back? [y/N] ") {
		return kit.ErrFindings
	}
	if err := a.checkAgain(ctx, func() []string { return a.state.BackProblems(b) }); err != nil {
		return err
	}
	if err := a.restore(ctx, b); err != nil {
		return fmt.Errorf("the way back is not complete, and can be repeated: %w", err)
	}
	fmt.Fprintln(a.out, "The cluster is as before. What comes next:")
	fmt.Fprintln(a.out, "1. remove what is left of Collection Operator: kubectl delete --ignore-not-found -k config/manager; the same with -k config/policy, and -k config/rbac.")
	fmt.Fprintln(a.out, "   Do not delete CRDs (-k config/crd, -k config/default): they are the other product's, and have its collections and endpoints")
	fmt.Fprintln(a.out, "2. start the other product: playbooks may run again when its operators start")
	return nil
}

// findInstalled adds to a backup what the way back removes.
func (a *adoption) findInstalled(ctx context.Context, b *adopt.Backup) error {
	for _, reference := range a.state.References() {
		client, err := a.client(reference.Object)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return err
		}
		live, err := client.Get(ctx, reference.Object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) { // Whoever may write status can list anything.
			continue
		}
		if err != nil {
			return err
		}
		b.Install(a.state.Installed(b, reference.Owner, live))
	}
	return nil
}

// checkAgain reads the cluster again, which may have changed while the user was asked, and refuses it if there are problems by now.
func (a *adoption) checkAgain(ctx context.Context, problems func() []string) error {
	if a.yes {
		return nil
	}
	if err := a.read(ctx); err != nil {
		return err
	}
	if found := problems(); len(found) > 0 {
		return a.refuse(found)
	}
	return nil
}

func (a *adoption) refuse(problems []string) error {
	for _, problem := range problems {
		a.say(problem)
	}
	fmt.Fprintln(a.out, "Nothing was changed: solve the problems first.")
	return kit.ErrFindings
}

// restore goes back. What it removes is recorded before, and what is restored after, so that it can be repeated.
func (a *adoption) restore(ctx context.Context, b *adopt.Backup) error {
	if err := errors.Join(a.saveBeforeReturn(b), a.write(b)); err != nil {
		return err
	}
	if err := a.removeAll(ctx, b.Installed); err != nil {
		return err
	}
	if !b.Restored {
		if err := a.restoreKept(ctx, b); err != nil {
			return err
		}
		b.Restored = true
		if err := a.write(b); err != nil {
			return err
		}
	}
	for _, saved := range b.ToRecreate() {
		if err := a.recreate(ctx, saved, b.Recreated(saved)); err != nil {
			return err
		}
	}
	b.Returned = true
	return a.write(b)
}

// saveBeforeReturn saves what the way back writes over.
func (a *adoption) saveBeforeReturn(b *adopt.Backup) error {
	if b.Restored {
		return nil
	}
	content, err := yaml.Marshal(map[string]any{"kept": a.state.BeforeReturn(b)})
	if err != nil {
		return err
	}
	return a.writeFile("before-return-"+time.Now().UTC().Format("20060102T150405Z")+".yaml", content)
}

func (a *adoption) restoreKept(ctx context.Context, b *adopt.Backup) error {
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
	return nil
}

func (a *adoption) restoreDefinition(ctx context.Context, saved *apiextensionsv1.CustomResourceDefinition) error {
	live, err := a.definition(ctx, saved.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	want, why := adopt.RestoredDefinition(saved, live)
	if want == nil {
		a.say(why)
		return nil
	}
	_, err = a.updateDefinition(ctx, live, want)
	return err
}

// restoreObject repeats the write until the object is as it was: the API server needs a moment to use a CRD that was changed.
func (a *adoption) restoreObject(ctx context.Context, b *adopt.Backup, saved *unstructured.Unstructured) error {
	client, err := a.client(saved)
	if meta.IsNoMatchError(err) {
		a.say(fmt.Sprintf("%s %s/%s was deleted since then, with its CRD", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
		return nil
	}
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
		switch {
		case isUnsettled(problem):
			return false, nil
		case problem != nil:
			return false, problem
		}
		want, _ = a.state.Restored(b, saved, live)
		return want == nil, nil
	})
	if wait.Interrupted(err) {
		return errors.Join(problem, fmt.Errorf("%s %s/%s is not as it was: the API server drops what is restored", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
	}
	return err
}

// isUnsettled reports whether a write failed because an API server has the CRD from before, or somebody else wrote.
func isUnsettled(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsInvalid(err) || apierrors.IsConflict(err)
}

func (a *adoption) say(what string) {
	if what != "" {
		fmt.Fprintln(a.out, "- "+printable.Escape(what))
	}
}

// recreate makes an object again that adoption removed. One of its name that is being removed is awaited, and another one stays.
func (a *adoption) recreate(ctx context.Context, saved, object *unstructured.Unstructured) error {
	lost := func() {
		a.say(fmt.Sprintf("%s %s/%s is not made again: the cluster does not have its kind or its namespace any more", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
	}
	client, err := a.client(saved)
	if meta.IsNoMatchError(err) {
		lost()
		return nil
	}
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, adoptInterval, true, func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, saved.GetName(), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			_, err = client.Create(ctx, object, metav1.CreateOptions{FieldManager: kube.FieldManager})
			if apierrors.IsNotFound(err) {
				lost()
				err = nil
			}
			return err == nil, err
		case err != nil:
			return false, err
		}
		if live.GetDeletionTimestamp() != nil {
			return false, nil
		}
		if live.GetUID() != saved.GetUID() {
			a.say(fmt.Sprintf("%s %s/%s is there already, and stays as it is", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
		}
		return true, nil
	})
}
