package metrics

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection"
	"github.com/collection-operator/collection-operator/internal/runcount"
)

var (
	runs = describe("runs_total", "Runs of playbooks by their outcome, without drift checks. The namespace is that of the custom resources, and the endpoint is empty if the ZosEndpoint does not exist.",
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
	collection collection.ID
	// kinds of the imported version, and endpoints of the namespace of the SubOperatorConfig: counts of others are not series of their own.
	kinds     []string
	endpoints map[string]bool
	ready     bool
}

func (o *operator) lease() client.ObjectKey {
	return client.ObjectKey{Namespace: o.namespace, Name: o.collection.OperatorName()}
}

// collectRuns sends what operators have counted.
func (s *State) collectRuns(ctx context.Context, to chan<- prometheus.Metric) error {
	ocs, socs, endpoints := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &v2beta2.ZosEndpointList{}
	leases := &coordinationv1.LeaseList{}
	for _, list := range []client.ObjectList{ocs, socs, endpoints, leases} {
		if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	counted := map[client.ObjectKey]*runcount.Counts{}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if counts, err := runcount.Parse(lease.Annotations[runcount.Annotation]); err == nil {
			counted[client.ObjectKeyFromObject(lease)] = counts
		}
	}
	for _, o := range operatorsOf(ocs.Items, socs.Items, endpoints.Items) {
		if counts := counted[o.lease()]; counts != nil {
			o.send(to, counts)
		}
	}
	return nil
}

// operatorsOf returns the installed operators. Of several SubOperatorConfigs that install the same one, the one that has counts.
func operatorsOf(ocs []v2beta2.OperatorCollection, socs []v2beta2.SubOperatorConfig, endpoints []v2beta2.ZosEndpoint) []operator {
	kinds, names := map[client.ObjectKey][]string{}, map[string]map[string]bool{}
	for i := range ocs {
		if imported := ocs[i].Status.Collection; imported != nil {
			kinds[client.ObjectKeyFromObject(&ocs[i])] = imported.Kinds
		}
	}
	for i := range endpoints {
		e := &endpoints[i]
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
				collection: collection.ID{Domain: soc.Status.Collection.Domain, Name: soc.Status.Collection.Name},
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
	rows := map[runcount.Row]uint64{}
	for _, row := range counts.Rows {
		count := row.Count
		if !slices.Contains(o.kinds, row.Kind) || !slices.Contains(outcomes, row.Outcome) {
			continue
		}
		if !o.endpoints[row.Endpoint] {
			row.Endpoint = ""
		}
		row.Count = 0
		rows[row] += count
	}
	for row, count := range rows {
		to <- prometheus.MustNewConstMetric(runs, prometheus.CounterValue, float64(count),
			o.namespace, o.collection.String(), row.Kind, row.Endpoint, row.Outcome)
	}
	for _, name := range o.kinds {
		kind := counts.Kinds[name]
		if kind == nil {
			continue
		}
		buckets, sum := map[float64]uint64{}, uint64(0)
		for i, bound := range runcount.Bounds {
			if i < len(kind.Buckets) {
				sum += kind.Buckets[i]
			}
			buckets[bound] = sum
		}
		labels := []string{o.namespace, o.collection.String(), name}
		to <- prometheus.MustNewConstHistogram(runSeconds, kind.Runs(), kind.Seconds, buckets, labels...)
		to <- prometheus.MustNewConstSummary(runWait, kind.Runs(), kind.Waited, nil, labels...)
		to <- prometheus.MustNewConstMetric(skippedRuns, prometheus.CounterValue, float64(kind.Skipped), labels...)
	}
}
