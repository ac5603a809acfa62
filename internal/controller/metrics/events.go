package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
