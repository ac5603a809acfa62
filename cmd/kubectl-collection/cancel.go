package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

func cancelCommand() *cobra.Command {
	var (
		connection *connection
		timeout    time.Duration
	)
	command := &cobra.Command{
		Use:   "cancel KIND/NAME",
		Short: "End the running playbook of a custom resource",
		Long: `End the playbook that runs for a custom resource, and wait until it has ended. What it has done on z/OS until then is not
undone, and a job that it submitted goes on. The resource is not tried again until it is changed or a run is requested.

Exit codes are 0 if the run ended, 1 if no playbook is running, and 2 if the result is unknown.`,
		Example: `  kubectl collection cancel datafile/hello`,
		Args:    exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := connection.connect()
			if err != nil {
				return err
			}
			return cancelRun(c, cmd, args[0], timeout)
		},
	}
	connection = newConnection(command)
	command.Flags().DurationVar(&timeout, "timeout", 0, "longest time to wait, such as 10m; 0 means no limit")
	return command
}

func cancelRun(c *cluster, cmd *cobra.Command, argument string, timeout time.Duration) error {
	r, status, err := c.read(cmd.Context(), argument)
	if err != nil {
		return err
	}
	if status.LastRun == nil || status.LastRun.Outcome != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: no playbook is running\n", r)
		return errFindings
	}
	id := status.LastRun.ID
	if _, err := annotate(cmd.Context(), c, r.mapping.Resource, r.namespace, r.name, gate.AnnotationCancel, id); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: cancellation of run %s requested\n", r, printable.Escape(id))
	ctx, cancel := withTimeout(cmd.Context(), timeout)
	defer cancel()
	ending := &ending{id: id}
	if err := errors.Join(c.follow(ctx, r, ending.observe), ending.err); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), printable.Escape(ending.String()))
	return nil
}

// ending waits for the end of a run.
type ending struct {
	id string
	// summary of the run. It is nil if the resource was deleted, or if other runs have removed it from status.
	summary *runstatus.RunSummary
	deleted bool
	err     error
}

// observe reports whether the run has ended. A nil object was deleted.
func (e *ending) observe(object *unstructured.Unstructured) bool {
	if e.deleted = object == nil; e.deleted {
		return true
	}
	var status *runstatus.Status
	if status, e.err = statusOf(object); e.err != nil {
		return true
	}
	e.summary = summaryOf(status, e.id)
	return e.summary != nil || lastRunID(status) != e.id
}

// String says how the run ended.
func (e *ending) String() string {
	switch {
	case e.deleted:
		return "Deleted: the resource is gone"
	case e.summary == nil:
		return "run " + e.id + " has ended: status does not show it any more"
	case e.summary.Outcome == gate.OutcomeCancelled:
		return "Cancelled: run " + e.id
	}
	return fmt.Sprintf("%s: run %s ended before it was cancelled", e.summary.Outcome, e.id)
}
