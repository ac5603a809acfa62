package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix of the names of all metrics of this package.
const prefix = "collection_operator_"

// Labels. Prometheus sets others itself for what it scrapes, such as namespace, endpoint and pod, which must not be among these.
const (
	labelNamespace  = "object_namespace"
	labelCollection = "collection"
	labelCondition  = "condition"
	labelStatus     = "status"
	labelReason     = "reason"
	labelResult     = "result"
	labelKind       = "kind"
	labelEndpoint   = "zosendpoint"
	labelMethod     = "method"
	labelReady      = "ready"
	labelBudget     = "budget"
	labelOutcome    = "outcome"
)

// Results of fetches and probes in addition to reasons of conditions.
const (
	// ResultSucceeded means that there is a new archive, or that an endpoint answered.
	ResultSucceeded = "Succeeded"
	// ResultNotModified means that the server still has the archive that the manager has.
	ResultNotModified = "NotModified"
)

// Metrics of what this manager did. Each manager has its own, from its start on.
var (
	fetches = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "fetches_total",
		Help: "Downloads of archives by their result: Succeeded, NotModified, or the reason why they failed.",
	}, []string{labelResult})

	fetchSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    prefix + "fetch_duration_seconds",
		Help:    "Time that downloads of archives took, whatever their result is.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600},
	})

	probes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: prefix + "endpoint_probes_total",
		Help: "Probes of ZosEndpoints by their result: Succeeded, or the reason why they failed.",
	}, []string{labelResult})

	readySeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    prefix + "time_to_ready_seconds",
		Help:    "Time for which objects were not Ready, when they became Ready: from their creation, or from when they were Ready last.",
		Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400},
	}, []string{labelKind})
)

// Fetched counts a download. The result is one of the Results or a reason of a condition.
func Fetched(result string, took time.Duration) {
	fetches.WithLabelValues(result).Inc()
	fetchSeconds.Observe(took.Seconds())
}

// Probed counts a probe. The result is ResultSucceeded or a reason of a condition.
func Probed(result string) { probes.WithLabelValues(result).Inc() }

// BecameReady returns what counts an object of one of our kinds that was not Ready for some time.
func BecameReady(kind string) func(after time.Duration) {
	return func(after time.Duration) { readySeconds.WithLabelValues(kind).Observe(max(0, after.Seconds())) }
}

// descriptions of the metrics of State, which describe makes.
var descriptions []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	description := prometheus.NewDesc(prefix+name, help, labels, nil)
	descriptions = append(descriptions, description)
	return description
}

func gauge(to chan<- prometheus.Metric, description *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
