package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// pushOptions are the flags of push.
type pushOptions struct {
	managerFlags
	archive, target string
	wait            bool
	timeout         time.Duration
}

func pushCommand() *cobra.Command {
	o := &pushOptions{}
	command := &cobra.Command{
		Use:   "push ARCHIVE OPERATORCOLLECTION",
		Short: "Upload the archive of an OperatorCollection",
		Long: `Upload an archive for an OperatorCollection without a collectionURL, wait until it is imported, and print its digest. An
archive that was uploaded before is replaced.

You need the right to update the OperatorCollection, and a token: that of the kubeconfig, or one that --service-account or
--token-file gives. Without --manager-url, the connection is forwarded by the API server, for which you need the right to create
pods/portforward in the manager's namespace. The manager is verified with the authorities in its ConfigMap collection-operator-ca.

Exit codes are 0 if the archive is imported, 1 if it was uploaded and cannot be imported, and 2 if it was not uploaded or the
result is unknown.`,
		Example: `  kubectl collection push example-zos_users-1.0.0.tar.gz users -n demo

  # With a client certificate in the kubeconfig
  kubectl collection push example-zos_users-1.0.0.tar.gz users -n demo --service-account uploader`,
		Args: kit.Exactly(2),
	}
	o.addFlags(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		o.archive, o.target = args[0], args[1]
		return o.run(cmd, c)
	})
	command.Flags().BoolVar(&o.wait, "wait", true, "wait until the archive is imported")
	command.Flags().DurationVar(&o.timeout, "timeout", 5*time.Minute, "longest time to wait; 0 means no limit")
	return command
}

func (o *pushOptions) run(cmd *cobra.Command, c *kube.Cluster) error {
	ctx, cancel := kit.WithTimeout(cmd.Context(), o.timeout)
	defer cancel()
	manager, stop, err := o.reach(ctx, c)
	if err != nil {
		return err
	}
	defer stop()
	oc := kube.OperatorCollectionOf(c.Namespace, o.target)
	pushed, err := manager.upload(ctx, o.archive, oc)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), pushed)
	if !o.wait {
		return nil
	}
	return awaitImport(ctx, c, cmd.ErrOrStderr(), oc, pushed)
}

// awaitImport waits until the archive is imported, or cannot be without a change. A status that does not consider the upload, or
// the spec, says nothing about it.
func awaitImport(ctx context.Context, c *kube.Cluster, w io.Writer, r kube.Resource, pushed digest.Digest) error {
	last := "it is not imported yet"
	err := c.FollowCollection(ctx, r, func(oc *v2beta2.OperatorCollection) (bool, error) {
		if oc == nil {
			return false, fmt.Errorf("%s was deleted", r)
		}
		imported := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionImported)
		if imported == nil || oc.Status.ObservedUpload != pushed.String() || oc.Status.ObservedGeneration != oc.Generation {
			return false, nil
		}
		if imported.Status == metav1.ConditionTrue {
			return oc.Status.Artifact != nil && oc.Status.Artifact.Digest == pushed.String(), nil
		}
		last = printable.Escape(imported.Reason + ": " + imported.Message)
		if meta.IsStatusConditionTrue(oc.Status.Conditions, v2beta2.ConditionStalled) {
			fmt.Fprintf(w, "%s: %s\n", r, last)
			return false, kit.ErrFindings
		}
		return false, nil
	})
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: timed out: the archive was uploaded, but %s", r, last)
	}
	return err
}
