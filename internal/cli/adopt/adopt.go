// Package adopt has the command of kubectl-collection that takes over a cluster.
package adopt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/support/adopt"
)

// Commands take over a cluster.
func Commands() []*cobra.Command { return []*cobra.Command{adoptCommand()} }

func adoptCommand() *cobra.Command {
	o := &adoptOptions{}
	command := &cobra.Command{
		Use:   "adopt",
		Short: "Take over a cluster from IBM z/OS Cloud Broker, or give it back",
		Long: `Take over the collections, endpoints and custom resources of a cluster with IBM z/OS Cloud Broker. They keep their UID and their
status, and no playbook runs again that was successful. Use it before you install Collection Operator, when the manager of the other product
is stopped; the command says what runs and how to stop it.

With --dry-run, it lists all that it would do, and all problems at once, and writes nothing; the other product may run. What it changes and
removes is saved in the folder first. The folder has no Secrets, but status of custom resources, environment variables of removed Deployments
and annotations: keep it where only administrators can read it. It can be repeated after a failure.

With --back, CRDs, labels, annotations, finalizers and status are again as they were; the spec of resources stays as it is by then. With
--finish, the finalizers of the other product are removed, and there is no way back any more. All but a dry run need --backup.

You need the permissions of a cluster administrator.

Exit codes are 0 if it is done, 1 if problems were found or you did not confirm, and 2 if it failed.`,
		Example: `  # What would be done, while the other product runs
  kubectl collection adopt --dry-run --archives ./archives

  kubectl collection adopt --backup ./before-adoption --archives ./archives
  kubectl collection adopt --backup ./before-adoption --finish`,
		Args: cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error {
			if o.backup == "" && (!o.dryRun || o.back || o.finish) {
				return errors.New("--backup is missing: name the folder for what the way back needs")
			}
			return nil
		},
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, _ []string) error { return o.run(cmd, c) })
	flags := command.Flags()
	flags.StringVar(&o.backup, "backup", "", "folder for what is changed and removed")
	flags.StringVar(&o.archives, "archives", "", "folder with the archives (.tar.gz) of collections that were uploaded, or that have resources")
	flags.StringArrayVar(&o.finalizers, "finalizer", nil, "a finalizer of the other product whose name does not end in the domain zoscb.ibm.com; can be repeated")
	flags.BoolVar(&o.dropFields, "drop-fields", false, "accept that collections and endpoints lose fields that Collection Operator does not know, until --back")
	flags.BoolVar(&o.dryRun, "dry-run", false, "list what would be done, and write nothing")
	flags.BoolVar(&o.back, "back", false, "undo an adoption")
	flags.BoolVar(&o.finish, "finish", false, "remove what the way back needs")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for confirmation")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest time to wait; 0 means no limit")
	command.MarkFlagsMutuallyExclusive("back", "finish")
	return command
}

func (o *adoptOptions) run(cmd *cobra.Command, c *kube.Cluster) error {
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	a := &adoption{adoptOptions: o, cluster: c, folder: folder{o.backup, c}, in: cmd.InOrStdin(), out: cmd.OutOrStdout()}
	if err := a.read(ctx); err != nil {
		return err
	}
	switch {
	case o.back:
		return a.goBack(ctx)
	case o.finish:
		return a.end(ctx)
	}
	return a.adopt(ctx)
}

func (a *adoption) adopt(ctx context.Context) error {
	plan := adopt.New(a.state)
	if plan.Adopted && len(plan.Problems) > 0 {
		return a.refuse(plan.Problems)
	}
	if plan.Adopted {
		fmt.Fprintln(a.out, "The cluster has no CRDs of API group "+adopt.Group+" that belong to another product: there is nothing to adopt.")
		return nil
	}
	if err := plan.Write(a.out); err != nil {
		return err
	}
	fmt.Fprintln(a.out)
	switch {
	case len(plan.Problems) > 0:
		fmt.Fprintln(a.out, "Nothing was changed: solve the problems first.")
		return kit.ErrFindings
	case a.dryRun:
		fmt.Fprintln(a.out, "Nothing was changed: this was a dry run.")
		return nil
	case !a.confirmed("Adopt them? [y/N] "):
		return kit.ErrFindings
	}
	plan, err := a.planAgain(ctx, plan)
	if err != nil {
		return err
	}
	if err := a.save(ctx, plan); err != nil {
		return fmt.Errorf("nothing was changed: %w", err)
	}
	if err := a.writer.apply(ctx, plan); err != nil {
		return fmt.Errorf("the adoption is not complete, and can be repeated, or undone with --back: %w", err)
	}
	fmt.Fprintln(a.out, "Adopted. What comes next:")
	for i, step := range plan.Next(a.backup) {
		fmt.Fprintf(a.out, "%d. %s\n", i+1, step)
	}
	return nil
}

// planAgain reads the cluster again, which may have changed while the user was asked, and fails if what the user was asked about has.
func (a *adoption) planAgain(ctx context.Context, shown adopt.Plan) (adopt.Plan, error) {
	if a.yes {
		return shown, nil
	}
	if err := a.read(ctx); err != nil {
		return shown, err
	}
	plan := adopt.New(a.state)
	var before, now bytes.Buffer
	if err := errors.Join(shown.Write(&before), plan.Write(&now)); err != nil {
		return shown, err
	}
	if !bytes.Equal(before.Bytes(), now.Bytes()) {
		return shown, a.refuse([]string{"the cluster is not as it was when you were asked: run the command again, and look at the list"})
	}
	return plan, nil
}

// save writes the backup. What a former attempt has saved is kept: it is how the cluster was before.
func (a *adoption) save(ctx context.Context, plan adopt.Plan) error {
	uid, err := a.folder.clusterUID(ctx)
	if err != nil {
		return err
	}
	b := adopt.NewBackup(a.state, plan, uid, time.Now())
	b.Finalizers = a.finalizers
	former, err := a.folder.load(ctx)
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
	return a.folder.write(b)
}

// end removes the finalizers of the other product.
func (a *adoption) end(ctx context.Context) error {
	b, err := a.folder.load(ctx)
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
	if err := a.folder.write(b); err != nil {
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
	client, err := a.writer.client(o)
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
	fmt.Fprintln(a.out, "Finished. Remove what is left of the other product:")
	for _, command := range left {
		fmt.Fprintln(a.out, "  "+command)
	}
	return nil
}
