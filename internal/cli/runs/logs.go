package runs

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/gate"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// maxLogLine is the length of a log's line in bytes beyond which it is left out: no run prints such a line.
const maxLogLine = 1 << 20

func logsCommand() *cobra.Command {
	var (
		run    string
		follow bool
	)
	command := &cobra.Command{
		Use:   "logs KIND/NAME",
		Short: "Print the output of a custom resource's playbook",
		Long: `Print what Ansible printed in the last run of a custom resource's playbook, or in the run with the given ID. While a failed run is
tried again, the last run is the one that has failed, unless you follow the new one. The output is read from the log of the operator's pod. If that
is gone, or you may not read it, the end of the output of the task that failed is printed, which the status has. Control characters are removed.

Exit codes are 0 if there was output, 1 if there was none, and 2 if the command failed.`,
		Example: `  # The last run
  kubectl collection logs datafile/hello

  # Until the present run has ended
  kubectl collection logs datafile/hello --follow`,
		Args: kit.Exactly(1),
	}
	kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		return printLogs(c, cmd, args[0], run, follow)
	})
	command.Flags().StringVar(&run, "run", "", "ID of a run, as status.lastRun and status.history show it; by default the last one")
	command.Flags().BoolVarP(&follow, "follow", "f", false, "print new output until the run has ended")
	return command
}

func printLogs(c *kube.Cluster, cmd *cobra.Command, argument, id string, follow bool) error {
	r, status, err := c.Read(cmd.Context(), argument)
	if err != nil {
		return err
	}
	if id == "" {
		if id = lastRun(status, follow); id == "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: no playbook has run yet\n", r)
			return kit.ErrFindings
		}
	}
	reader := &runLog{
		cluster: c, resource: r, id: id, started: startOf(status, id),
		filter: runFilter{kind: r.Kind(), namespace: r.Namespace, name: r.Name, run: id, out: cmd.OutOrStdout()},
	}
	pods, err := operatorPods(cmd.Context(), c, r)
	if apierrors.IsForbidden(err) && printFailed(cmd, status, id, err.Error()) {
		return nil
	}
	if err != nil {
		return err
	}
	if follow && status.LastRun != nil && status.LastRun.ID == id && status.LastRun.Outcome == "" {
		if err := reader.follow(cmd.Context(), pods); err != nil {
			return err
		}
	}
	err = reader.read(cmd.Context(), pods)
	if apierrors.IsForbidden(err) && printFailed(cmd, status, id, err.Error()) {
		return nil
	}
	if err != nil || reader.filter.printed > 0 {
		return err
	}
	why := noOutput(pods, id, reader.started)
	if printFailed(cmd, status, id, why) {
		return nil
	}
	fmt.Fprintln(cmd.ErrOrStderr(), printable.Escape(why))
	return kit.ErrFindings
}

// lastRun returns the ID of the run that is printed by default, or "" if there was none. A retry that has just begun has less to say than the
// run that failed.
func lastRun(status *runstatus.Status, follow bool) string {
	run := status.LastRun
	if run != nil && run.Outcome == "" && run.Reason == gate.ReasonRetry && len(status.History) > 0 && !follow {
		return status.History[0].ID
	}
	return kube.LastRunID(status)
}

// printFailed prints what the status has of the output of a run that failed, and why not the rest. It reports whether there is something.
func printFailed(cmd *cobra.Command, status *runstatus.Status, id, why string) bool {
	run := status.LastRun
	if run == nil || run.ID != id || run.Failure == nil || run.Failure.Output == "" {
		return false
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s; the end of the output of the task that failed:\n", printable.Escape(why))
	fmt.Fprintln(cmd.OutOrStdout(), printable.Lines(run.Failure.Output))
	return true
}

// startOf returns when a run started, or nil if status does not show it.
func startOf(status *runstatus.Status, id string) *metav1.Time {
	if kube.LastRunID(status) == id {
		return &status.LastRun.Started
	}
	for i := range status.History {
		if status.History[i].ID == id {
			return &status.History[i].Started
		}
	}
	return nil
}

// operatorPods returns the pods that run the playbooks of a resource, the oldest first.
func operatorPods(ctx context.Context, c *kube.Cluster, r kube.Resource) ([]corev1.Pod, error) {
	selector, err := operatorSelector(ctx, c, r)
	if err != nil {
		return nil, err
	}
	return podsOf(ctx, c, r.Namespace, selector)
}

// operatorSelector returns the labels of the pods that run the playbooks of a kind. For users who may not read CRDs, they are
// those of the pods of all collections.
func operatorSelector(ctx context.Context, c *kube.Cluster, r kube.Resource) (map[string]string, error) {
	crd, err := c.Dynamic.Resource(kube.DefinitionType).Get(ctx, r.Mapping.Resource.GroupResource().String(), metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return map[string]string{render.LabelManagedBy: render.ManagedBy}, nil
	case err != nil:
		return nil, err
	}
	return render.IdentityLabels(render.IDOf(crd.GetLabels())), nil
}

// podsOf returns the pods with some labels, the oldest first.
func podsOf(ctx context.Context, c *kube.Cluster, namespace string, selector map[string]string) ([]corev1.Pod, error) {
	list, err := c.Core.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.FormatLabels(selector)})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items, nil
}

// noOutput says why there are no lines of a run.
func noOutput(pods []corev1.Pod, id string, started *metav1.Time) string {
	switch {
	case len(pods) == 0:
		return "no output of run " + id + ": the namespace has no pod of the operator"
	case started == nil:
		return "no output of run " + id + ": status does not show a run with this ID"
	case pods[0].CreationTimestamp.After(started.Time):
		return fmt.Sprintf("no output of run %s: it started at %s, and the operator's pod was replaced at %s", id, kit.Clock(*started), kit.Clock(pods[0].CreationTimestamp))
	}
	return fmt.Sprintf("no output of run %s in the log of pod %s: the run printed nothing yet, or the node has removed that part of the log", id, pods[len(pods)-1].Name)
}

// runLog reads the output of a run from the logs of pods.
type runLog struct {
	cluster  *kube.Cluster
	resource kube.Resource
	id       string
	// started limits what is read. It may be nil.
	started *metav1.Time
	filter  runFilter
}

// read prints the lines that have not been printed, those of a container that has ended included.
func (l *runLog) read(ctx context.Context, pods []corev1.Pod) error {
	l.filter.skip, l.filter.printed = l.filter.printed, 0
	for i := range pods {
		for _, previous := range []bool{true, false} {
			if previous && !hasRestarted(&pods[i]) {
				continue
			}
			err := l.stream(ctx, pods[i].Name, corev1.PodLogOptions{Previous: previous})
			if err != nil && !isAbsent(err) {
				return err
			}
		}
	}
	return nil
}

// isAbsent reports whether there is no log: the container has not started yet, or it is gone.
func isAbsent(err error) bool { return apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) }

func hasRestarted(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == render.OperatorContainer && s.RestartCount > 0
	})
}

// follow prints lines as they come, until the run has ended or the logs have.
func (l *runLog) follow(ctx context.Context, pods []corev1.Pod) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		run := &ending{id: l.id}
		err := l.cluster.Follow(ctx, l.resource, run.observe)
		cancel()
		ended <- err
	}()
	var group errgroup.Group
	for i := range pods {
		group.Go(func() error {
			err := l.stream(ctx, pods[i].Name, corev1.PodLogOptions{Follow: true})
			if ctx.Err() == nil && !isAbsent(err) {
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return <-ended
}

func (l *runLog) stream(ctx context.Context, pod string, options corev1.PodLogOptions) error {
	options.Container, options.SinceTime = render.OperatorContainer, l.started
	log, err := l.cluster.Core.Pods(l.resource.Namespace).GetLogs(pod, &options).Stream(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	return l.filter.copy(log)
}

// runFilter prints the lines of one run. The text comes from playbooks and z/OS systems, and is not trusted.
type runFilter struct {
	kind, namespace, name, run string
	out                        io.Writer
	// skip is the number of lines that are left out at the beginning. They count as printed.
	skip, printed int
	mutex         sync.Mutex
}

// logLine is a line of a pod's log that belongs to a run.
type logLine struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Run       string `json:"run"`
	Line      string `json:"line"`
}

// copy prints the run's lines of a log. Lines of others and overlong ones are left out.
func (f *runFilter) copy(log io.Reader) error {
	reader := bufio.NewReaderSize(log, maxLogLine)
	for {
		line, tooLong, err := reader.ReadLine()
		if err == nil && !tooLong {
			err = f.print(line)
		}
		for tooLong && err == nil {
			_, tooLong, err = reader.ReadLine()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (f *runFilter) print(content []byte) error {
	var line logLine
	if json.Unmarshal(content, &line) != nil || line.Run != f.run || line.Kind != f.kind || line.Namespace != f.namespace || line.Name != f.name {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.printed++; f.printed <= f.skip {
		return nil
	}
	_, err := fmt.Fprintln(f.out, kit.Plain(line.Line))
	return err
}
