package runs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/cli/kit"
	"github.com/collection-operator/collection-operator/internal/cli/kube"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/runstatus"
)

// statusReport is what status prints as JSON.
type statusReport struct {
	Collections []collectionReport `json:"collections"`
}

// collectionReport is an OperatorCollection.
type collectionReport struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Ready     bool   `json:"ready"`
	// Reason and Message are those of the condition Ready.
	Reason        string               `json:"reason,omitempty"`
	Message       string               `json:"message,omitempty"`
	Phase         v2beta2.Phase        `json:"phase,omitempty"`
	Domain        string               `json:"domain,omitempty"`
	Collection    string               `json:"collection,omitempty"`
	Version       string               `json:"version,omitempty"`
	Digest        string               `json:"digest,omitempty"`
	Installations []installationReport `json:"installations"`
	// History has the versions that were imported, the newest first.
	History []v2beta2.InstalledVersion `json:"history,omitempty"`
	// Problems say what could not be read.
	Problems []string `json:"problems,omitempty"`
}

// installationReport is the operator in one namespace.
type installationReport struct {
	Namespace         string                `json:"namespace"`
	SubOperatorConfig string                `json:"subOperatorConfig"`
	Method            v2beta2.InstallMethod `json:"method,omitempty"`
	Ready             bool                  `json:"ready"`
	Message           string                `json:"message,omitempty"`
	Digest            string                `json:"digest,omitempty"`
	Endpoints         []endpointReport      `json:"endpoints"`
	Problems          []string              `json:"problems,omitempty"`
}

// endpointReport has the resources of an installation that name an endpoint.
type endpointReport struct {
	Name      string           `json:"name"`
	Resources []resourceReport `json:"resources"`
}

// resourceReport is a custom resource.
type resourceReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	// State and Message are reason and message of the condition Ready.
	State   runstatus.Phase `json:"state"`
	Message string          `json:"message,omitempty"`
	LastRun *runstatus.Run  `json:"lastRun,omitempty"`
	Drift   *driftReport    `json:"drift,omitempty"`
}

// driftReport is the result of the last drift check: the condition Drifted, and status.drift.
type driftReport struct {
	Drifted metav1.ConditionStatus `json:"drifted"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message"`
	*runstatus.Drift
}

func statusCommand() *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show collections with their installations, resources and last runs",
		Long: `Show OperatorCollections, or the one with the given name, as a tree: the installation in each namespace, the endpoints, and the
custom resources with their state and last run. What you may not read is named and left out.`,
		Example: `  kubectl collection status --namespace zos

  # Resources whose last run failed
  kubectl collection status --all-namespaces --output json |
    jq '.collections[].installations[].endpoints[].resources[] | select(.state == "Failed")'

  # Resources whose endpoint was changed by others
  kubectl collection status --all-namespaces --output json |
    jq '.collections[].installations[].endpoints[].resources[] | select(.drift.drifted == "True")'`,
		Args: kit.Wants("at most 1 argument", cobra.MaximumNArgs(1)),
	}
	connection := kube.Command(command, func(cmd *cobra.Command, c *kube.Cluster, args []string) error {
		report, err := readStatus(cmd.Context(), c, args)
		if err != nil {
			return err
		}
		if output == "json" {
			return kit.EncodeJSON(cmd.OutOrStdout(), report)
		}
		if len(report.Collections) == 0 {
			fmt.Fprintln(cmd.ErrOrStderr(), "no OperatorCollection found: give its namespace with -n, or all with -A")
		}
		return report.print(cmd.OutOrStdout(), time.Now())
	})
	connection.AddAllNamespaces(command)
	kit.AddOutput(command, &output, "text, or json: one object", "text", "json")
	return command
}

// readStatus reads the OperatorCollections of the namespace, or the named one.
func readStatus(ctx context.Context, c *kube.Cluster, names []string) (*statusReport, error) {
	report := &statusReport{Collections: []collectionReport{}}
	var found []*v2beta2.OperatorCollection
	err := kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource("operatorcollections"), c.Namespace, func(oc *v2beta2.OperatorCollection) error {
		if len(names) == 0 || oc.Name == names[0] {
			found = append(found, oc)
		}
		return nil
	})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("%w; `kubectl get` shows the state of the custom resources that you may list", err)
	}
	if err != nil {
		return nil, err
	}
	if len(names) > 0 && len(found) == 0 {
		return nil, fmt.Errorf("no OperatorCollection is named %q: see `kubectl get operatorcollections`", names[0])
	}
	for _, oc := range found {
		collection, err := collectionStatus(ctx, c, oc)
		if err != nil {
			return nil, err
		}
		report.Collections = append(report.Collections, collection)
	}
	return report, nil
}

func collectionStatus(ctx context.Context, c *kube.Cluster, oc *v2beta2.OperatorCollection) (collectionReport, error) {
	report := describeCollection(oc)
	err := kube.EachOf(ctx, c, v2beta2.GroupVersion.WithResource("suboperatorconfigs"), oc.Namespace, func(soc *v2beta2.SubOperatorConfig) error {
		if soc.Spec.OperatorCollection == oc.Name {
			report.Installations = append(report.Installations, describeInstallations(soc)...)
		}
		return nil
	})
	if problem, err := unreadable(err, "SubOperatorConfigs", oc.Namespace); err != nil || problem != "" {
		report.Problems = append(report.Problems, problem)
		return report, err
	}
	var group errgroup.Group
	group.SetLimit(kube.MaxConcurrentRequests)
	for i := range report.Installations {
		group.Go(func() error { return readResources(ctx, c, oc.Status.Collection, &report.Installations[i]) })
	}
	return report, group.Wait()
}

// describeCollection leaves out the installations.
func describeCollection(oc *v2beta2.OperatorCollection) collectionReport {
	report := collectionReport{
		Namespace: oc.Namespace, Name: oc.Name, Phase: oc.Status.Phase, Reason: "Pending", Installations: []installationReport{},
		History: oc.Status.History,
	}
	if ready := meta.FindStatusCondition(oc.Status.Conditions, v2beta2.ConditionReady); ready != nil {
		report.Ready, report.Reason, report.Message = ready.Status == metav1.ConditionTrue, ready.Reason, ready.Message
	}
	if imported := oc.Status.Collection; imported != nil {
		report.Domain, report.Collection, report.Version = imported.Domain, imported.Name, imported.Version
	}
	if oc.Status.Artifact != nil {
		report.Digest = oc.Status.Artifact.Digest
	}
	return report
}

// describeInstallations returns those that exist or are being removed, and those that are mapped and not there yet.
func describeInstallations(soc *v2beta2.SubOperatorConfig) []installationReport {
	var reports []installationReport
	described := map[string]bool{}
	for _, installation := range soc.Status.Installations {
		described[installation.Namespace] = true
		message := installation.Message
		if installation.RemovalTime != nil {
			message = cmp.Or(message, "it is being removed")
		}
		reports = append(reports, installationReport{
			Namespace: installation.Namespace, SubOperatorConfig: soc.Name, Method: installation.Install, Ready: installation.Ready,
			Message: message, Digest: installation.Digest, Endpoints: []endpointReport{},
		})
	}
	for _, mapping := range soc.Spec.Mapping {
		if !described[mapping.Namespace] {
			reports = append(reports, installationReport{
				Namespace: mapping.Namespace, SubOperatorConfig: soc.Name, Message: soc.Status.Message, Endpoints: []endpointReport{},
			})
		}
	}
	return reports
}

// readResources adds the custom resources of an installation's namespace.
func readResources(ctx context.Context, c *kube.Cluster, imported *v2beta2.ImportedCollection, report *installationReport) error {
	byEndpoint := map[string][]resourceReport{}
	problems, err := eachResource(ctx, c, imported, report.Namespace, func(endpoint string, object *unstructured.Unstructured) {
		byEndpoint[endpoint] = append(byEndpoint[endpoint], describeResource(object))
	})
	report.Problems = append(report.Problems, problems...)
	for _, endpoint := range slices.Sorted(maps.Keys(byEndpoint)) {
		report.Endpoints = append(report.Endpoints, endpointReport{Name: endpoint, Resources: byEndpoint[endpoint]})
	}
	return err
}

// eachResource calls a function with the custom resources of a collection in a namespace, and the endpoint that each names. It
// returns what could not be read.
func eachResource(ctx context.Context, c *kube.Cluster, imported *v2beta2.ImportedCollection, namespace string,
	call func(endpoint string, object *unstructured.Unstructured)) (problems []string, err error) {
	if imported == nil {
		return nil, nil
	}
	gv, err := schema.ParseGroupVersion(imported.APIVersion)
	if err != nil {
		return nil, err
	}
	for _, kind := range slices.Sorted(slices.Values(imported.Kinds)) {
		plural := model.Resource{Kind: kind}.Plural()
		err := c.Each(ctx, gv.WithResource(plural), namespace, func(object *unstructured.Unstructured) error {
			endpoint, _, _ := unstructured.NestedString(object.Object, "spec", "zosendpoint")
			call(endpoint, object)
			return nil
		})
		problem, err := unreadable(err, plural, namespace)
		if err != nil {
			return problems, err
		}
		if problem != "" {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// unreadable returns a sentence if objects cannot be listed because of permissions, or because their kind is not served.
func unreadable(err error, plural, namespace string) (string, error) {
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("you may not list %s in namespace %s", plural, namespace), nil
	case apierrors.IsNotFound(err):
		return "the cluster does not serve " + plural, nil
	}
	return "", err
}

func describeResource(object *unstructured.Unstructured) resourceReport {
	report := resourceReport{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Name: object.GetName()}
	status, err := kube.StatusOf(object)
	if err != nil {
		report.State, report.Message = "Unknown", "status cannot be read: "+err.Error()
		return report
	}
	report.State, report.Message = kube.State(status)
	report.LastRun = status.LastRun
	if c := meta.FindStatusCondition(status.Conditions, runstatus.ConditionDrifted); c != nil {
		report.Drift = &driftReport{Drifted: c.Status, Reason: c.Reason, Message: c.Message, Drift: status.Drift}
	}
	return report
}

// maxTreeMessage is the number of characters of a message in the tree. JSON has all.
const maxTreeMessage = 160

// tree is a table whose first column is a tree.
type tree struct{ *kit.Table }

// branch returns what is in front of an item's name and in front of those below it.
func branch(indent string, last bool) (own, below string) {
	if last {
		return indent + "└─ ", indent + "   "
	}
	return indent + "├─ ", indent + "│  "
}

func (r *statusReport) print(w io.Writer, now time.Time) error {
	if len(r.Collections) == 0 {
		return nil
	}
	t := tree{kit.NewTable("NAME", "STATE", "LAST RUN", "OUTCOME", "MESSAGE")}
	for i := range r.Collections {
		t.collection(&r.Collections[i], now)
	}
	return t.Print(w)
}

func (t tree) collection(c *collectionReport, now time.Time) {
	reason := "Ready"
	text := c.Message
	if !c.Ready {
		reason = c.Reason
	} else if c.Digest != "" {
		text = fmt.Sprintf("%s/%s %s, %s", c.Domain, c.Collection, c.Version, c.Digest[:min(len(c.Digest), kit.ShortDigest)])
	}
	t.Row("operatorcollection/"+c.Name+" in "+c.Namespace, reason, "", "", firstLine(text))
	for i, problem := range c.Problems {
		own, _ := branch("", i == len(c.Problems)-1 && len(c.Installations) == 0)
		t.Row(own+"left out", "", "", "", problem)
	}
	for i := range c.Installations {
		own, below := branch("", i == len(c.Installations)-1)
		t.installation(&c.Installations[i], own, below, now)
	}
}

func (t tree) installation(n *installationReport, own, below string, now time.Time) {
	reason := "Not ready"
	if n.Ready {
		reason = "Ready"
	}
	text := cmp.Or(n.Message, strings.TrimSpace(fmt.Sprintf("%s %s", n.Method, n.SubOperatorConfig)))
	t.Row(own+"installation in "+n.Namespace, reason, "", "", firstLine(text))
	for i, problem := range n.Problems {
		line, _ := branch(below, i == len(n.Problems)-1 && len(n.Endpoints) == 0)
		t.Row(line+"left out", "", "", "", problem)
	}
	for i, endpoint := range n.Endpoints {
		line, deeper := branch(below, i == len(n.Endpoints)-1)
		t.Row(line+"endpoint "+endpoint.Name, "", "", "", "")
		for j := range endpoint.Resources {
			leaf, _ := branch(deeper, j == len(endpoint.Resources)-1)
			t.resource(&endpoint.Resources[j], leaf, now)
		}
	}
}

func (t tree) resource(r *resourceReport, own string, now time.Time) {
	started, outcome := "", ""
	if run := r.LastRun; run != nil {
		started, outcome = duration.HumanDuration(now.Sub(run.Started.Time))+" ago", string(cmp.Or(run.Outcome, "running"))
	}
	state, message := string(r.State), r.Message
	if r.Drift != nil && r.Drift.Drifted == metav1.ConditionTrue {
		state += ", drifted"
		if r.State == runstatus.PhaseSucceeded {
			message = r.Drift.Message
		}
	}
	t.Row(own+strings.ToLower(r.Kind)+"/"+r.Name, state, started, outcome, firstLine(message))
}

// firstLine returns the first line of a message, shortened.
func firstLine(message string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(message), "\n")
	if runes := []rune(line); len(runes) > maxTreeMessage {
		return string(runes[:maxTreeMessage-3]) + "..."
	}
	return line
}
