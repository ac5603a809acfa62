// Package metrics has the metrics of the manager, in addition to those of controller-runtime. What objects are like is computed
// when metrics are read, from the cache, by the leader alone; what the manager did is counted by each manager.
//
// The number of series is bounded. They have names of namespaces, of collections that are imported, of kinds of these, and of
// ZosEndpoints that are probed, all of which budgets limit, and reasons, which are constants. The most are those of runs by endpoint: for
// each installation, at most its kinds times the probed ZosEndpoints of its SubOperatorConfig's namespace times the outcomes, of which an
// operator writes at most [runcount.MaxBytes]. No series has the name of a custom resource, a user, a URL or a message.
package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/run/runcount"
)

// collectTimeout limits the time in which the state of all objects is read. They are in the cache.
const collectTimeout = 5 * time.Second

// State computes metrics of what there is. It implements [prometheus.Collector].
type State struct {
	// Client reads from the cache.
	Client client.Reader
	// Elected is closed when this manager is the leader.
	Elected <-chan struct{}
	// Endpoints returns what the leader knows about the ZosEndpoints that it probes.
	Endpoints func(ctx context.Context) ([]Endpoint, error)
	// Runs returns the counts in the Lease of an operator, or nil.
	Runs func(lease client.ObjectKey) *runcount.Counts
	// Budgets returns how much of each budget is used.
	Budgets func(ctx context.Context) ([]Budget, error)
	// Catalog returns the size of the served catalog, or nil. It is nil if the manager serves none.
	Catalog func() *Catalog
	// CertificateExpires returns when the serving certificate expires, or the zero time. It is nil if there is none.
	CertificateExpires func() time.Time
	// SettingsValid reports whether this manager uses the settings of its ConfigMap.
	SettingsValid func() bool
}

// Catalog is the size of the catalog for the Operator Lifecycle Manager.
type Catalog struct{ Packages, Bundles, Bytes int }

func collectors(state *State) []prometheus.Collector {
	return []prometheus.Collector{fetches, fetchSeconds, probes, readySeconds, state}
}

// Register registers all metrics of this package.
func Register(registry prometheus.Registerer, state *State) error {
	for _, collector := range collectors(state) {
		if err := registry.Register(collector); err != nil {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (*State) Describe(to chan<- *prometheus.Desc) {
	for _, description := range descriptions {
		to <- description
	}
}

var (
	catalogPackages = describe("catalog_packages", "Packages in the catalog that this manager serves to the Operator Lifecycle Manager.")
	catalogBundles  = describe("catalog_bundles", "Versions of collections in the catalog that this manager serves to the Operator Lifecycle Manager.")
	catalogBytes    = describe("catalog_bytes", "Size of the ClusterServiceVersions in the catalog that this manager serves to the Operator Lifecycle Manager.")
	certificate     = describe("serving_certificate_expiry_timestamp_seconds", "Time at which the certificate expires that this manager serves.")
	settingsValid   = describe("settings_valid", "1 if this manager uses the settings of its ConfigMap, 0 if they are wrong and it uses the last good ones.")
)

// Collect implements [prometheus.Collector]. If something cannot be read, the scrape fails, and shows the error.
func (s *State) Collect(to chan<- prometheus.Metric) {
	if s.Catalog != nil {
		if served := s.Catalog(); served != nil {
			gauge(to, catalogPackages, float64(served.Packages))
			gauge(to, catalogBundles, float64(served.Bundles))
			gauge(to, catalogBytes, float64(served.Bytes))
		}
	}
	if s.CertificateExpires != nil {
		if at := s.CertificateExpires(); !at.IsZero() {
			gauge(to, certificate, seconds(at))
		}
	}
	if s.SettingsValid != nil {
		gauge(to, settingsValid, number(s.SettingsValid()))
	}
	select {
	case <-s.Elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	for _, collect := range []func(context.Context, chan<- prometheus.Metric) error{s.collectObjects, s.collectRuns, s.collectEndpoints, s.collectBudgets} {
		if err := collect(ctx, to); err != nil {
			to <- prometheus.NewInvalidMetric(collections, err)
		}
	}
}

// collectObjects counts the objects of our kinds.
func (s *State) collectObjects(ctx context.Context, to chan<- prometheus.Metric) error {
	ocs, socs, endpoints := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}, &v2beta2.ZosEndpointList{}
	for _, list := range []client.ObjectList{ocs, socs, endpoints} {
		if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	countCollections(ocs.Items).send(to, collections)
	countConfigs(socs.Items).send(to, configs)
	countInstallations(socs.Items).send(to, installations)
	countEndpoints(endpoints.Items).send(to, zosEndpoints)
	return nil
}

// collectRuns sends what the operators of the SubOperatorConfigs have counted.
func (s *State) collectRuns(ctx context.Context, to chan<- prometheus.Metric) error {
	ocs, socs := &v2beta2.OperatorCollectionList{}, &v2beta2.SubOperatorConfigList{}
	for _, list := range []client.ObjectList{ocs, socs} {
		if err := s.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing %T: %w", list, err)
		}
	}
	probed, err := s.Endpoints(ctx)
	if err != nil {
		return err
	}
	sendRuns(to, s.Runs, ocs.Items, socs.Items, probed)
	return nil
}

func (s *State) collectEndpoints(ctx context.Context, to chan<- prometheus.Metric) error {
	endpoints, err := s.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		e.send(to)
	}
	return nil
}

func (s *State) collectBudgets(ctx context.Context, to chan<- prometheus.Metric) error {
	budgets, err := s.Budgets(ctx)
	if err != nil {
		return err
	}
	sendBudgets(to, budgets)
	return nil
}
