package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// rollbackOptions are the flags of rollback.
type rollbackOptions struct {
	to      string
	dryRun  bool
	timeout time.Duration
}

func rollbackCommand() *cobra.Command {
	o := rollbackOptions{}
	command := &cobra.Command{
		Use:   "rollback OPERATORCOLLECTION",
		Short: "Roll an OperatorCollection back to an earlier version and wait",
		Long: `Show the history of an OperatorCollection, set spec.digest to the archive of the version before the present one, and wait until
that version is installed. The manager has kept the archive: nothing is downloaded. If an upgrade is blocked, the command returns to the
version that is still installed.

Custom resources must fit the older version as they must fit a newer one: else the manager reports the condition UpgradeBlocked and
changes nothing. If the OperatorCollection comes from Git, set spec.digest there too: else the change is reverted.

You need the right to get and patch the OperatorCollection. Exit codes are 0 if the version is installed, 1 if something keeps it from
being installed or there is no such version, and 2 if the command failed or the result is unknown.`,
		Example: `  kubectl collection rollback users -n demo

  # To a version of the history, or the digest of its archive
  kubectl collection rollback users -n demo --to 1.0.0

  # Only show the history, and the version that would be chosen
  kubectl collection rollback users -n demo --dry-run`,
		Args: kit.Exactly(1),
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error { return o.run(cmd, c, args[0]) })
	flags := command.Flags()
	flags.StringVar(&o.to, "to", "", "version of the history, or digest of its archive, instead of the version before the present one")
	flags.BoolVar(&o.dryRun, "dry-run", false, "change nothing")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "longest time to wait; 0 means no limit")
	return command
}

func (o *rollbackOptions) run(cmd *cobra.Command, c *kube.Cluster, name string) error {
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	r, out := kube.OperatorCollectionOf(c.Namespace, name), cmd.OutOrStdout()
	oc, err := readOperatorCollection(ctx, c, r)
	if err != nil {
		return err
	}
	if err := printHistory(out, oc); err != nil {
		return err
	}
	target, err := versionToReturnTo(oc, o.to)
	if err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", r, printable.Escape(err.Error()))
		return kit.ErrFindings
	}
	fmt.Fprint(out, announcement(oc, target))
	if o.dryRun {
		return nil
	}
	generation, err := pin(ctx, c, r, oc, target.Digest)
	if err != nil {
		return err
	}
	f := &upgradeProgress{Progress: kube.Progress{Out: out}, digest: digest.Digest(target.Digest), generation: generation}
	return c.FollowCollection(ctx, r, func(oc *v2beta2.OperatorCollection) (bool, error) {
		if f.isReverted(oc) {
			f.Print("spec.digest was changed again: if the OperatorCollection comes from Git, change spec.digest there")
			return false, kit.ErrFindings
		}
		return f.observe(oc)
	})
}

// printHistory prints the versions of an OperatorCollection, the newest first.
func printHistory(out io.Writer, oc *v2beta2.OperatorCollection) error {
	if len(oc.Status.History) == 0 {
		return nil
	}
	table := kit.NewTable("VERSION", "DIGEST", "IMPORTED", "OUTCOME", "BY")
	for _, entry := range oc.Status.History {
		table.Row(entry.Version, entry.Digest[:min(len(entry.Digest), kit.ShortDigest)], kit.Clock(entry.Time), string(entry.Outcome), entry.By)
	}
	return table.Print(out)
}

// versionToReturnTo chooses an entry of the history: the newest with a version or digest, or else the one before the present version.
func versionToReturnTo(oc *v2beta2.OperatorCollection, wanted string) (*v2beta2.InstalledVersion, error) {
	history := oc.Status.History
	if len(history) == 0 {
		return nil, errors.New("status.history is empty: to go back, set spec.collectionURL and spec.digest to an older archive, or upload it")
	}
	present := history[0].Digest
	if wanted != "" {
		return namedVersion(history, wanted)
	}
	if isBlocked(oc) {
		return &history[0], nil
	}
	// A version that was returned to is in the history twice. What came after its first time is not before it.
	first := len(history) - 1
	for history[first].Digest != present {
		first--
	}
	for i := first + 1; i < len(history); i++ {
		if history[i].Outcome == v2beta2.VersionInstalled {
			return &history[i], nil
		}
	}
	return nil, fmt.Errorf("status.history has no version before %s that was installed: choose one with --to", history[0].Version)
}

// namedVersion returns the newest entry with a version or digest. One that is not the present one is meant first.
func namedVersion(history []v2beta2.InstalledVersion, wanted string) (*v2beta2.InstalledVersion, error) {
	var found *v2beta2.InstalledVersion
	var names []string
	for i := range history {
		entry := &history[i]
		if (entry.Version == wanted || entry.Digest == wanted) && (found == nil || found.Digest == history[0].Digest) {
			found = entry
		}
		if !slices.Contains(names, entry.Version) {
			names = append(names, entry.Version)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("status.history has no version %q, but %s", wanted, strings.Join(names, ", "))
	}
	return found, nil
}

// isBlocked reports whether the spec asks for another version than the imported one, and cannot have it.
func isBlocked(oc *v2beta2.OperatorCollection) bool {
	imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
	return meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionUpgradeBlocked) ||
		imported != nil && imported.Status == metav1.ConditionFalse && meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionStalled)
}

// announcement says what the command is about to do, and what the user has to do.
func announcement(oc *v2beta2.OperatorCollection, target *v2beta2.InstalledVersion) string {
	present := &oc.Status.History[0]
	text := fmt.Sprintf("Returning from version %s to %s, %s.\n", printable.Escape(present.Version), printable.Escape(target.Version), printable.Escape(target.Digest))
	if target.Digest == present.Digest {
		text = fmt.Sprintf("Staying at version %s, %s.\n", printable.Escape(target.Version), printable.Escape(target.Digest))
	}
	if oc.Spec.SignatureSecret != "" && !oc.Spec.SkipSignatureVerification {
		text += fmt.Sprintf("The archive is verified again: Secret %s must have its signature.\n", printable.Escape(oc.Spec.SignatureSecret))
	}
	return text + "If the OperatorCollection comes from Git, set spec.digest there too: else the change is reverted.\n"
}

// pin sets spec.digest, and returns the generation with it. An OperatorCollection that was created anew meanwhile is left alone.
func pin(ctx context.Context, c *kube.Cluster, r kube.Resource, oc *v2beta2.OperatorCollection, archive string) (int64, error) {
	patch, err := render.JSON(map[string]any{
		"metadata": map[string]any{"uid": oc.UID}, "spec": map[string]any{"digest": archive},
	}, "")
	if err != nil {
		return 0, err
	}
	object, err := c.Client(r).Patch(ctx, r.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: kube.FieldManager})
	if apierrors.IsConflict(err) {
		return 0, fmt.Errorf("%s was deleted and created again in the meantime: nothing was changed", r)
	}
	if err != nil {
		return 0, err
	}
	return object.GetGeneration(), nil
}

// isReverted reports whether somebody has changed spec.digest again.
func (p *upgradeProgress) isReverted(oc *v2beta2.OperatorCollection) bool {
	return oc != nil && oc.Generation > p.generation && oc.Spec.Digest != p.digest.String()
}
