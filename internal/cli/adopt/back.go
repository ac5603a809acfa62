package adopt

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// goBack undoes an adoption.
func (a *adoption) goBack(ctx context.Context) error {
	b, err := a.folder.load(ctx)
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
	r := restoration{adoption: a, before: b}
	if err := r.findInstalled(ctx); err != nil {
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
	if err := r.restore(ctx); err != nil {
		return fmt.Errorf("the way back is not complete, and can be repeated: %w", err)
	}
	fmt.Fprintln(a.out, "The cluster is as before. What comes next:")
	fmt.Fprintln(a.out, "1. remove what is left of Collection Operator: kubectl delete --ignore-not-found -k config/manager; the same with -k config/policy, and -k config/rbac.")
	fmt.Fprintln(a.out, "   Do not delete CRDs (-k config/crd, -k config/default): they are the other product's, and have its collections and endpoints")
	fmt.Fprintln(a.out, "2. start the other product: playbooks may run again when its operators start")
	return nil
}

// restoration brings back what a backup has.
type restoration struct {
	*adoption
	before *adopt.Backup
}

// findInstalled adds to a backup what the way back removes.
func (r restoration) findInstalled(ctx context.Context) error {
	for _, reference := range r.state.References() {
		client, err := r.writer.client(reference.Object)
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
		r.before.Install(r.state.Installed(r.before, reference.Owner, live))
	}
	return nil
}

// restore goes back. What it removes is recorded before, and what is restored after, so that it can be repeated.
func (r restoration) restore(ctx context.Context) error {
	if err := errors.Join(r.saveBeforeReturn(), r.folder.write(r.before)); err != nil {
		return err
	}
	if err := r.writer.removeAll(ctx, r.before.Installed); err != nil {
		return err
	}
	if !r.before.Restored {
		if err := r.restoreKept(ctx); err != nil {
			return err
		}
		r.before.Restored = true
		if err := r.folder.write(r.before); err != nil {
			return err
		}
	}
	for _, saved := range r.before.ToRecreate() {
		if err := r.recreate(ctx, saved, r.before.Recreated(saved)); err != nil {
			return err
		}
	}
	r.before.Returned = true
	return r.folder.write(r.before)
}

// saveBeforeReturn saves what the way back writes over.
func (r restoration) saveBeforeReturn() error {
	if r.before.Restored {
		return nil
	}
	content, err := yaml.Marshal(map[string]any{"kept": r.state.BeforeReturn(r.before)})
	if err != nil {
		return err
	}
	return r.folder.writeFile("before-return-"+time.Now().UTC().Format("20060102T150405Z")+".yaml", content)
}

func (r restoration) restoreKept(ctx context.Context) error {
	for _, saved := range r.before.Definitions {
		if err := r.restoreDefinition(ctx, saved); err != nil {
			return err
		}
	}
	for _, saved := range r.before.Kept {
		if err := r.restoreObject(ctx, saved); err != nil {
			return err
		}
	}
	return nil
}

func (r restoration) restoreDefinition(ctx context.Context, saved *apiextensionsv1.CustomResourceDefinition) error {
	live, err := r.writer.definition(ctx, saved.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	want, why := adopt.RestoredDefinition(saved, live)
	if want == nil {
		r.say(why)
		return nil
	}
	_, err = r.writer.updateDefinition(ctx, live, want)
	return err
}

// restoreObject repeats the write until the object is as it was: the API server needs a moment to use a CRD that was changed.
func (r restoration) restoreObject(ctx context.Context, saved *unstructured.Unstructured) error {
	client, err := r.writer.client(saved)
	if meta.IsNoMatchError(err) {
		r.say(fmt.Sprintf("%s %s/%s was deleted since then, with its CRD", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
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
		want, why := r.state.Restored(r.before, saved, live)
		if want == nil {
			r.say(why)
			return true, nil
		}
		if problem = r.writer.update(ctx, live, want); problem == nil {
			live, problem = client.Get(ctx, saved.GetName(), metav1.GetOptions{})
		}
		switch {
		case isUnsettled(problem):
			return false, nil
		case problem != nil:
			return false, problem
		}
		want, _ = r.state.Restored(r.before, saved, live)
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

// recreate makes an object again that adoption removed. One of its name that is being removed is awaited, and another one stays.
func (r restoration) recreate(ctx context.Context, saved, object *unstructured.Unstructured) error {
	lost := func() {
		r.say(fmt.Sprintf("%s %s/%s is not made again: the cluster does not have its kind or its namespace any more", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
	}
	client, err := r.writer.client(saved)
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
			r.say(fmt.Sprintf("%s %s/%s is there already, and stays as it is", saved.GetKind(), saved.GetNamespace(), saved.GetName()))
		}
		return true, nil
	})
}
