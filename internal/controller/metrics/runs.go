package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/model"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

var (
	runs = describe("runs_total", "Runs of playbooks by their outcome, without drift checks. The namespace is that of the custom resources.",
		labelNamespace, labelCollection, labelKind, labelOutcome)
	endpointRuns = describe("endpoint_runs_total", "Those of runs_total that ran on a ZosEndpoint that is probed. The namespace is that of the custom resources.",
		labelNamespace, labelCollection, labelKind, labelEndpoint, labelOutcome)
	runSeconds = describe("run_duration_seconds", "Time that runs of playbooks took, whatever their outcome is.",
		labelNamespace, labelCollection, labelKind)
	runWait = describe("run_wait_seconds", "Time that runs waited for their ZosEndpoint before they started.",
		labelNamespace, labelCollection, labelKind)
	skippedRuns = describe("skipped_runs_total", "How often a custom resource was looked at and needed no run. Reported with the next run, or after a thousand.",
		labelNamespace, labelCollection, labelKind)
)

// outcomes of runs, as in status.lastRun.outcome.
var outcomes = []string{"Succeeded", "Failed", "TimedOut", "Cancelled", "Interrupted", "Unreachable", "Refused", "Requeued"}

// operator is an installed operator whose runs are counted.
type operator struct {
	namespace  string
	collection model.ID
	// kinds of the imported version, and probed endpoints of the namespace of the SubOperatorConfig: counts of others are no series.
	kinds     []string
	endpoints map[string]bool
	ready     bool
}

func (o *operator) lease() client.ObjectKey {
	return client.ObjectKey{Namespace: o.namespace, Name: o.collection.OperatorName()}
}

// sendRuns sends what operators have counted. of returns the counts in the Lease of one, or nil.
func sendRuns(
	to chan<- prometheus.Metric, of func(client.ObjectKey) *runcount.Counts, ocs []v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig, probed []Endpoint,
) {
	for _, o := range operatorsOf(ocs, socs, probed) {
		if counts := of(o.lease()); counts != nil {
			o.send(to, counts)
		}
	}
}

// operatorsOf returns the installed operators. Of several SubOperatorConfigs that install the same one, the one that has counts.
func operatorsOf(ocs []v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig, probed []Endpoint) []operator {
	kinds, names := map[client.ObjectKey][]string{}, map[string]map[string]bool{}
	for i := range ocs {
		if imported := ocs[i].Status.Collection; imported != nil {
			kinds[client.ObjectKeyFromObject(&ocs[i])] = imported.Kinds
		}
	}
	for i := range probed {
		e := &probed[i]
		if names[e.Namespace] == nil {
			names[e.Namespace] = map[string]bool{}
		}
		names[e.Namespace][e.Name] = true
	}
	var all []operator
	for i := range socs {
		soc := &socs[i]
		if soc.Status.Collection == nil {
			continue
		}
		for _, installation := range soc.Status.Installations {
			all = append(all, operator{
				namespace: installation.Namespace, ready: installation.Ready,
				collection: model.ID{Domain: soc.Status.Collection.Domain, Name: soc.Status.Collection.Name},
				kinds:      kinds[client.ObjectKey{Namespace: soc.Namespace, Name: soc.Spec.OperatorCollection}],
				endpoints:  names[soc.Namespace],
			})
		}
	}
	// Others that claim an operator of that name are in conflict with the one that is ready.
	slices.SortStableFunc(all, func(a, b operator) int {
		return cmp.Or(cmp.Compare(a.lease().String(), b.lease().String()), cmp.Compare(number(b.ready), number(a.ready)))
	})
	return slices.CompactFunc(all, func(a, b operator) bool { return a.lease() == b.lease() })
}

// send sends the counts of an operator. Operators are not trusted to name kinds, endpoints and outcomes.
func (o *operator) send(to chan<- prometheus.Metric, counts *runcount.Counts) {
	for _, name := range o.kinds {
		kind := counts.Kinds[name]
		if kind == nil {
			continue
		}
		labels := []string{o.namespace, o.collection.String(), name}
		sendOutcomes(to, runs, kind.Outcomes, labels...)
		for endpoint, counted := range kind.Endpoints {
			if o.endpoints[endpoint] {
				sendOutcomes(to, endpointRuns, counted, append(slices.Clone(labels), endpoint)...)
			}
		}
		buckets, sum := map[float64]uint64{}, uint64(0)
		for i, bound := range runcount.Bounds {
			if i < len(kind.Buckets) {
				sum += kind.Buckets[i]
			}
			buckets[bound] = sum
		}
		to <- prometheus.MustNewConstHistogram(runSeconds, kind.Runs(), kind.Seconds, buckets, labels...)
		to <- prometheus.MustNewConstSummary(runWait, kind.Runs(), kind.Waited, nil, labels...)
		to <- prometheus.MustNewConstMetric(skippedRuns, prometheus.CounterValue, float64(kind.Skipped), labels...)
	}
}

func sendOutcomes(to chan<- prometheus.Metric, description *prometheus.Desc, counted runcount.Outcomes, labels ...string) {
	for _, outcome := range outcomes {
		if count, ok := counted[outcome]; ok {
			to <- prometheus.MustNewConstMetric(description, prometheus.CounterValue, float64(count), append(slices.Clone(labels), outcome)...)
		}
	}
}
