package runs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// endpointsReport is what endpoints prints as JSON.
type endpointsReport struct {
	Endpoints []zosEndpointReport `json:"endpoints"`
	// Problems say what could not be read: runs may be missing in what is counted.
	Problems []string `json:"problems,omitempty"`
}

// zosEndpointReport is a ZosEndpoint with its runs.
type zosEndpointReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Host is host:port in lower case, or local.
	Host      string           `json:"host"`
	Reachable *conditionReport `json:"reachable,omitempty"`
	Latency   string           `json:"latency,omitempty"`
	// HostKeys are the fingerprints of the host keys that are expected.
	HostKeys []string `json:"hostKeys,omitempty"`
	// User of the run that started last.
	User               string           `json:"user,omitempty"`
	CredentialAccepted *conditionReport `json:"credentialAccepted,omitempty"`
	// Queue is the number of resources whose run waits, and Running that of playbooks in progress.
	Queue   int `json:"queue"`
	Running int `json:"running"`
	// Limit is the lowest spec.maxConcurrentRuns of the endpoints with this host.
	Limit  int32        `json:"limit,omitempty"`
	Window windowReport `json:"window"`
	Hold   string       `json:"hold,omitempty"`
}

// conditionReport is a condition of a ZosEndpoint.
type conditionReport struct {
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
	Since   metav1.Time            `json:"since"`
}

// windowReport says whether runs may start now. Until and Next are absent if windows do not matter.
type windowReport struct {
	Open    bool         `json:"open"`
	Until   *metav1.Time `json:"until,omitempty"`
	Next    *metav1.Time `json:"next,omitempty"`
	Problem string       `json:"problem,omitempty"`
}

// endpointUse is what the custom resources of an endpoint say.
type endpointUse struct {
	running, queue int
	user           string
	started        time.Time
}

func endpointsCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "endpoints [NAME]",
		Short: "Show ZosEndpoints with their state, their runs, and whether runs may start",
		Long: `Show ZosEndpoints, or the one with the given name: whether they can be reached, the fingerprint of their host key, whether a
credential was refused, how many runs wait and are in progress, and whether runs may start now.`,
		Example: `  kubectl collection endpoints --namespace zos

  # Systems that refuse a credential
  kubectl collection endpoints --all-namespaces --output json |
    jq '.endpoints[] | select(.credentialAccepted.status == "False") | {name, message: .credentialAccepted.message}'`,
		Args: kit.Wants("at most 1 argument", cobra.MaximumNArgs(1)),
	}
	connection := kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		now := time.Now()
		report, err := readEndpoints(cmd.Context(), c, args, now)
		if err != nil {
			return err
		}
		if output == "json" {
			return kit.EncodeJSON(cmd.OutOrStdout(), report)
		}
		if len(report.Endpoints) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "no ZosEndpoint found: give its namespace with -n, or all with -A")
			return nil
		}
		for _, problem := range report.Problems {
			fmt.Fprintln(cmd.ErrOrStderr(), "runs are not counted:", printable.Escape(problem))
		}
		return report.print(cmd.OutOrStdout(), c.Namespace == metav1.NamespaceAll, now)
	})
	connection.AddAllNamespaces(command)
	kit.AddOutput(command, &output, "text, or json: one object", "text", "json")
	return command
}

// readEndpoints reads the ZosEndpoints of the namespace, or the named one, and the custom resources that use them.
func readEndpoints(ctx context.Context, c *kube.Cluster, names []string, now time.Time) (*endpointsReport, error) {
	var all []*v2beta2.ZosEndpoint
	err := kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource("zosendpoints"), c.Namespace, func(e *v2beta2.ZosEndpoint) error {
		all = append(all, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	uses := map[string]endpointUses{}
	var problems []string
	for _, e := range all {
		if _, read := uses[e.Namespace]; read || !isNamed(e, names) {
			continue
		}
		var missing []string
		if uses[e.Namespace], missing, err = readEndpointUses(ctx, c, e.Namespace); err != nil {
			return nil, err
		}
		problems = append(problems, missing...)
	}
	report := describeEndpoints(all, names, uses, now)
	report.Problems = problems
	if len(names) > 0 && len(report.Endpoints) == 0 {
		return nil, fmt.Errorf("no ZosEndpoint is named %q: see `kubectl get zosendpoints`", names[0])
	}
	return report, nil
}

func isNamed(e *v2beta2.ZosEndpoint, names []string) bool {
	return len(names) == 0 || e.Name == names[0]
}

// describeEndpoints describes the endpoints, or the named one, with their use by namespace.
func describeEndpoints(all []*v2beta2.ZosEndpoint, names []string, uses map[string]endpointUses, now time.Time) *endpointsReport {
	report := &endpointsReport{Endpoints: []zosEndpointReport{}}
	limits := limitsOf(all)
	for _, e := range all {
		if !isNamed(e, names) {
			continue
		}
		described := describeEndpoint(e, uses[e.Namespace][e.Name], now)
		described.Limit = limits[e.Namespace+"/"+endpoint.Address(e)]
		report.Endpoints = append(report.Endpoints, described)
	}
	return report
}

// limitsOf returns the limits that apply, by namespace/address.
func limitsOf(all []*v2beta2.ZosEndpoint) map[string]int32 {
	limits := map[string]int32{}
	for _, e := range all {
		system := e.Namespace + "/" + endpoint.Address(e)
		if own := e.Spec.MaxConcurrentRuns; own != nil && (limits[system] == 0 || *own < limits[system]) {
			limits[system] = *own
		}
	}
	return limits
}

// endpointInstallation is where custom resources that use the ZosEndpoints of a namespace may be.
type endpointInstallation struct{ collection, namespace string }

// readEndpointUses reads the custom resources of all installations that use the ZosEndpoints of a namespace. It returns their use
// by the name of the ZosEndpoint, and what could not be read.
func readEndpointUses(ctx context.Context, c *kube.Cluster, namespace string) (uses endpointUses, problems []string, err error) {
	imported := map[string]*v2beta2.ImportedCollection{}
	err = kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource("operatorcollections"), namespace, func(oc *v2beta2.OperatorCollection) error {
		imported[oc.Name] = oc.Status.Collection
		return nil
	})
	if problem, err := unreadable(err, "OperatorCollections", namespace); err != nil || problem != "" {
		return nil, []string{problem}, err
	}
	installations := map[endpointInstallation]bool{}
	err = kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource("suboperatorconfigs"), namespace, func(soc *v2beta2.SubOperatorConfig) error {
		for _, installation := range describeInstallations(soc) {
			installations[endpointInstallation{soc.Spec.OperatorCollection, installation.Namespace}] = true
		}
		return nil
	})
	if problem, err := unreadable(err, "SubOperatorConfigs", namespace); err != nil || problem != "" {
		return nil, []string{problem}, err
	}
	uses = endpointUses{}
	var lock sync.Mutex
	var group errgroup.Group
	group.SetLimit(kube.MaxConcurrentRequests)
	for installation := range installations {
		group.Go(func() error {
			missing, err := eachResource(ctx, c, imported[installation.collection], installation.namespace, func(name string, object *unstructured.Unstructured) {
				lock.Lock()
				defer lock.Unlock()
				uses.add(name, object)
			})
			lock.Lock()
			defer lock.Unlock()
			problems = append(problems, missing...)
			return err
		})
	}
	err = group.Wait()
	slices.Sort(problems)
	return uses, problems, err
}

// endpointUses by the name of the ZosEndpoint.
type endpointUses map[string]*endpointUse

// add counts a custom resource that names an endpoint. Its last run may have been on another one. A resource whose status cannot
// be read is not counted: the command status shows it.
func (u endpointUses) add(name string, object *unstructured.Unstructured) {
	status, err := kube.StatusOf(object)
	if err != nil {
		return
	}
	if run := status.LastRun; run != nil {
		use := u.of(cmp.Or(run.Endpoint, name))
		if run.Outcome == "" {
			use.running++
		}
		if run.User != "" && run.Started.After(use.started) {
			use.user, use.started = run.User, run.Started.Time
		}
	}
	if status.Waiting != nil {
		u.of(name).queue++
	}
}

func (u endpointUses) of(name string) *endpointUse {
	if u[name] == nil {
		u[name] = &endpointUse{}
	}
	return u[name]
}

// describeEndpoint leaves out the limit.
func describeEndpoint(e *v2beta2.ZosEndpoint, use *endpointUse, now time.Time) zosEndpointReport {
	report := zosEndpointReport{
		Namespace: e.Namespace, Name: e.Name, Host: endpoint.Address(e), Latency: e.Status.Latency, Hold: e.Spec.Hold,
		Reachable:          describeCondition(e, v2beta2.ConditionReachable),
		CredentialAccepted: describeCondition(e, v2beta2.ConditionCredentialAccepted),
		Window:             describeWindow(e, now),
	}
	if use != nil {
		report.Running, report.Queue, report.User = use.running, use.queue, use.user
	}
	keys := e.Spec.HostKeys
	if e.Spec.EndpointType == v2beta2.EndpointLocal {
		report.Host, keys = string(v2beta2.EndpointLocal), nil
	} else if len(keys) == 0 && strings.EqualFold(e.Status.PinnedFor, report.Host) {
		keys = e.Status.HostKeys
	}
	for _, key := range keys {
		report.HostKeys = append(report.HostKeys, fingerprint(key))
	}
	return report
}

// fingerprint returns that of a host key as it is in known_hosts, without the host name.
func fingerprint(key string) string {
	parsed, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key))
	if err != nil {
		return "invalid"
	}
	return ssh.FingerprintSHA256(parsed)
}

func describeCondition(e *v2beta2.ZosEndpoint, conditionType string) *conditionReport {
	found := meta.FindStatusCondition(e.Status.Conditions, conditionType)
	if found == nil {
		return nil
	}
	return &conditionReport{Status: found.Status, Reason: found.Reason, Message: found.Message, Since: found.LastTransitionTime}
}

func describeWindow(e *v2beta2.ZosEndpoint, now time.Time) windowReport {
	settings, err := endpoint.SettingsOf(e)
	if err != nil {
		return windowReport{Problem: err.Error()}
	}
	open, until, next := endpoint.Open(settings.Windows, now)
	return windowReport{Open: open, Until: optionalTime(until), Next: optionalTime(next)}
}

func optionalTime(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t}
}

func (r *endpointsReport) print(w io.Writer, withNamespace bool, now time.Time) error {
	t := kit.NewTable()
	row := func(columns ...string) {
		if !withNamespace {
			columns = columns[1:]
		}
		for i := range columns {
			columns[i] = cmp.Or(columns[i], "-")
		}
		t.Row(columns...)
	}
	row("NAMESPACE", "NAME", "HOST", "REACHABLE", "LATENCY", "KEY", "USER", "REFUSED", "QUEUE", "RUNNING", "WINDOW", "HOLD")
	for i := range r.Endpoints {
		e := &r.Endpoints[i]
		row(e.Namespace, e.Name, e.Host, e.reachable(now), e.Latency, e.key(), e.User, e.refused(now), strconv.Itoa(e.Queue), e.running(),
			e.Window.String(), firstLine(e.Hold))
	}
	return t.Print(w)
}

func (e *zosEndpointReport) reachable(now time.Time) string {
	if e.Reachable == nil {
		return ""
	}
	return string(e.Reachable.Status) + ", " + duration.HumanDuration(now.Sub(e.Reachable.Since.Time))
}

// refused is empty if no run has logged on yet.
func (e *zosEndpointReport) refused(now time.Time) string {
	switch accepted := e.CredentialAccepted; {
	case accepted == nil:
		return ""
	case accepted.Status == metav1.ConditionFalse:
		return "yes, " + duration.HumanDuration(now.Sub(accepted.Since.Time))
	}
	return "no"
}

func (e *zosEndpointReport) key() string {
	switch n := len(e.HostKeys); n {
	case 0:
		return "none"
	case 1:
		return e.HostKeys[0]
	default:
		return fmt.Sprintf("%s and %d more", e.HostKeys[0], n-1)
	}
}

func (e *zosEndpointReport) running() string {
	if e.Limit == 0 {
		return strconv.Itoa(e.Running)
	}
	return fmt.Sprintf("%d/%d", e.Running, e.Limit)
}

// String is what the table shows, with times in UTC.
func (w *windowReport) String() string {
	switch {
	case w.Problem != "":
		return "invalid"
	case w.Open && w.Until == nil:
		return "always"
	case w.Open:
		return "open until " + w.Until.UTC().Format(time.RFC3339)
	case w.Next != nil:
		return "opens at " + w.Next.UTC().Format(time.RFC3339)
	}
	return "never opens"
}
