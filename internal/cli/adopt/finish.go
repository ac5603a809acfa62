package adopt

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// end removes the finalizers of the other product.
func (a *adoption) end(ctx context.Context) error {
	b, err := a.load(ctx)
	if err != nil {
		return err
	}
	if b.Restored {
		return fmt.Errorf("%s is of an adoption that is undone: name the folder of the later one", a.backup)
	}
	if problems := a.finishProblems(); len(problems) > 0 {
		return a.refuse(problems)
	}
	unfinished := a.state.ToFinish()
	fmt.Fprintf(a.out, "The other product's finalizers are removed from %d objects. Then there is no way back.\n", len(unfinished))
	for _, edited := range a.state.EditedSince(b) {
		a.say(edited + " was changed since the adoption began, and its playbook has not run: if it should, use kubectl collection rerun")
	}
	if a.dryRun {
		fmt.Fprintln(a.out, "Nothing was changed: this was a dry run.")
		return nil
	}
	if !a.confirmed("Finish? [y/N] ") {
		return kit.ErrFindings
	}
	if err := a.checkAgain(ctx, a.finishProblems); err != nil {
		return err
	}
	for _, o := range unfinished {
		if err := a.finishObject(ctx, o); err != nil {
			return fmt.Errorf("not complete, and can be repeated: %w", err)
		}
	}
	b.Finished = true
	if err := a.write(b); err != nil {
		return err
	}
	return a.sayLeftovers()
}

// finishProblems has what forbids the last step.
func (a *adoption) finishProblems() []string {
	if !adopt.New(a.state).Adopted {
		return []string{"the adoption is not complete: run it again without --finish"}
	}
	return append(a.state.ActiveProduct(), a.state.NotTakenOver()...)
}

// finishObject removes the other product's finalizers from an object, which the manager may write at the same time.
func (a *adoption) finishObject(ctx context.Context, o *unstructured.Unstructured) error {
	client, err := a.client(o)
	if err != nil {
		return err
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && a.state.IsFinished(live) {
			return nil
		}
		if err == nil {
			_, err = client.Update(ctx, a.state.Finished(live), metav1.UpdateOptions{FieldManager: kube.FieldManager})
		}
		return err
	})
}

func (a *adoption) sayLeftovers() error {
	left := adopt.Leftovers(a.state)
	if len(left) == 0 {
		fmt.Fprintln(a.out, "Finished.")
		return nil
	}
	fmt.Fprintln(a.out, "Finished. Left of the other product, to be removed by you:")
	for _, command := range left {
		fmt.Fprintln(a.out, "  "+command)
	}
	return nil
}
