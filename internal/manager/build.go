package manager

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	managercache "github.com/collection-operator/collection-operator/internal/controller/cache"
	catalogcontroller "github.com/collection-operator/collection-operator/internal/controller/catalog"
	"github.com/collection-operator/collection-operator/internal/controller/conflict"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/customresourcedefinition"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcondition"
	"github.com/collection-operator/collection-operator/internal/controller/runcounts"
	"github.com/collection-operator/collection-operator/internal/controller/suboperatorconfig"
	"github.com/collection-operator/collection-operator/internal/controller/subscription"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/controller/zosendpoint"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/run/probe"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// built is a manager that is not started yet.
type built struct {
	mgr   manager.Manager
	peers *replica.Peers
	ready *readiness
}

// build makes a manager with valid settings. settingsValid says for its metrics whether they are those of the ConfigMap.
func build(ctx context.Context, s options, settingsValid func() bool) (*built, error) {
	s.budgets.limitMemory()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&s.log)))
	if err := s.useProxy(); err != nil {
		return nil, err
	}
	s.namespaces.logRefused()
	var certificates *keeper.Keeper
	mgr, err := newManager(s, s.metrics.options(&certificates))
	if err != nil {
		return nil, err
	}
	if err := conflict.CheckNeighbors(ctx, mgr.GetAPIReader()); err != nil {
		return nil, err
	}
	if err := conflict.CheckPredecessor(ctx, mgr.GetAPIReader(), s.render.ArtifactServer.Namespace); err != nil {
		return nil, err
	}
	store, err := store.Open(filepath.Join(s.storageDir, ".artifacts"))
	if err != nil {
		return nil, err
	}
	store.MaxBytes = int64(s.budgets.storedBytes)
	key, err := credential.LoadKey(ctx, mgr.GetClient(), mgr.GetAPIReader(), s.render.ArtifactServer.Namespace)
	if err != nil {
		return nil, err
	}
	certificates, authorities, err := newKeeper(mgr, s) // The server of metrics uses it, too.
	if err != nil {
		return nil, err
	}
	peers := newPeers(mgr, s, store, certificates)
	collections := &imports.CollectionCache{Store: store, Peers: peers, Key: key, LoadedBytes: int64(s.budgets.loadedBytes)}
	trusted, err := newTrustedAuthorities(ctx, mgr, s)
	if err != nil {
		return nil, err
	}
	source, err := newArchiveSource(mgr, s, collections, trusted)
	if err != nil {
		return nil, err
	}
	archives := peers.Serve(store.Handler(), func(ctx context.Context) ([]digest.Digest, error) {
		return collections.ArchivesInUse(ctx, mgr.GetCache())
	})
	if err := addArtifactServers(ctx, mgr, s, archives, certificates, newUploads(mgr, s, store, source)); err != nil {
		return nil, err
	}
	ready := &readiness{store: store, warmUp: &warmUp{collections: collections, mgr: mgr}}
	if err := errors.Join(addLeaderLabels(mgr, peers), mgr.Add(ready.warmUp),
		mgr.Add(&cleaner{collections: collections, mgr: mgr, retention: s.archives.retention})); err != nil {
		return nil, err
	}
	added, err := addControllers(ctx, mgr, s, source, authorities, trusted, key, ready)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(registerMetrics(mgr, s, added, ready.catalog, certificates, settingsValid), ready.addTo(mgr)); err != nil {
		return nil, err
	}
	return &built{mgr, peers, ready}, nil
}

func newManager(s options, metrics metricsserver.Options) (manager.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v2beta2.AddToScheme,
		operatorsv1alpha1.AddToScheme, operatorsv1.AddToScheme, operatorsv2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		MapperProvider:                olm.NewRESTMapper,
		Cache:                         managercache.LimitCache(managercache.Options(), s.namespaces.names),
		NewClient:                     managercache.NewClient,
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                       metrics,
		HealthProbeBindAddress:        s.probeAddress,
		PprofBindAddress:              s.pprofAddress,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              "collection-operator.zoscb.ibm.com",
		LeaderElectionNamespace:       s.render.ArtifactServer.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &intervals.Lease,
		RenewDeadline:                 &intervals.LeaseRenewDeadline,
		RetryPeriod:                   &intervals.LeaseRetry,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	return mgr, nil
}

// useProxy keeps the manager's own requests to the cluster away from its proxy, if it has one, and lets operators use it. It must be
// called before any request.
func (s *options) useProxy() error {
	variables, withheld := environment.ForOperators(os.Getenv)
	s.render.Environment = variables
	if len(withheld) > 0 {
		ctrl.Log.Info("operators do not get variables with credentials, or invalid ones: set them in runtime.envFrom of collections that need them",
			"variables", withheld)
	}
	if variables == "" && len(withheld) == 0 {
		return nil
	}
	// Go reads NO_PROXY first.
	excluded := environment.NoProxy(cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy")), os.Getenv("KUBERNETES_SERVICE_HOST"))
	if err := os.Setenv("NO_PROXY", excluded); err != nil {
		return fmt.Errorf("setting NO_PROXY: %w", err)
	}
	return nil
}

// newOLM returns nil if the manager serves no catalog.
func newOLM(mgr manager.Manager, s options) (*olm.Cluster, error) {
	if s.catalog.bindAddress == "" {
		return nil, nil
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	return &olm.Cluster{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Discovery: served,
		CatalogAddress: s.catalog.address, CatalogNamespace: s.catalog.namespace, CreateOperatorGroups: s.permissions.createOperatorGroups,
	}, nil
}

func newEndpointReconciler(mgr manager.Manager, s options, recorder events.EventRecorder) *zosendpoint.Reconciler {
	return &zosendpoint.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: recorder, Namespaces: s.namespaces.names,
		Prober: &probe.Prober{Control: s.guard.Control}, ProbeInterval: s.probeInterval, Probed: s.budgets.endpoints,
	}
}

func newOperatorConditionReconciler(mgr manager.Manager, s options) *operatorcondition.Reconciler {
	return &operatorcondition.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: s.render.ArtifactServer.Namespace,
		Name: os.Getenv(olm.ConditionVariable), Namespaces: s.namespaces.names,
	}
}

func addControllers(ctx context.Context, mgr manager.Manager, s options, archives *intake.Source, authorities *trustedauthorities.Authorities, trusted *trustedauthorities.TrustedAuthorities, key endpoint.Key, ready *readiness) (*controllers, error) {
	collections := archives.Collections
	if err := managercache.AddIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return nil, err
	}
	cluster, err := newOLM(mgr, s)
	if err != nil {
		return nil, err
	}
	granted, err := grants.NewSource(ctx, mgr, s.permissions.requireScopedGrants)
	if err != nil {
		return nil, err
	}
	reservedDomains, err := s.reserved.parse()
	if err != nil {
		return nil, err
	}
	recorder := mgr.GetEventRecorder("collection-operator")
	s.render.Architectures = strings.Split(s.architectures, ",")
	imported, definitions := &imports.Index{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}, &crdplan.WrittenDefinitions{}
	importer := &operatorcollection.Reconciler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: recorder, Collections: collections, Namespaces: s.namespaces.names,
		Imports: imported, Definitions: definitions, Reserved: reservedDomains, Budgets: s.budgets.ofCollections(), Source: archives,
	}
	endpoints := newEndpointReconciler(mgr, s, recorder)
	all := []interface {
		SetupWithManager(ctrl.Manager) error
	}{
		cluster,
		importer,
		&customresourcedefinition.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Collections: collections, Imports: imported,
			Definitions: definitions, VersionAges: s.versions.ages,
		},
		&suboperatorconfig.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Cache: mgr.GetCache(), Recorder: recorder, Collections: collections, OLM: cluster,
			Settings: s.render, CredentialKey: key, Namespaces: s.namespaces.names, Grants: granted, Workers: s.budgets.workers, Authorities: authorities, Trusted: trusted,
		},
		endpoints,
		&subscription.Reconciler{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Recorder: recorder, OLM: cluster},
		newOperatorConditionReconciler(mgr, s),
	}
	if cluster != nil {
		importer.Publications = imports.NewPublications()
		server := catalog.NewServer(s.catalog.bindAddress)
		ready.cluster, ready.catalog = cluster, server
		if err := mgr.Add(server); err != nil {
			return nil, err
		}
		all = append(all, &catalogcontroller.Reconciler{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Collections: collections, Settings: s.render, OLM: cluster, Grants: granted,
			Server: server, Publications: importer.Publications, Elected: mgr.Elected(),
		})
	}
	for _, c := range all {
		if err := c.SetupWithManager(mgr); err != nil {
			return nil, fmt.Errorf("setting up a controller: %w", err)
		}
	}
	return &controllers{importer: importer, endpoints: endpoints}, nil
}

// options returns those of a server that uses the certificate of a keeper. The keeper is set before the server starts, or remains
// nil: then the server makes a certificate that nobody can verify.
func (s *metricsSettings) options(certificates **keeper.Keeper) metricsserver.Options {
	options := metricsserver.Options{BindAddress: s.address, SecureServing: s.secure}
	if !s.secure {
		return options
	}
	options.FilterProvider = filters.WithAuthenticationAndAuthorization
	options.TLSOpts = []func(*tls.Config){func(config *tls.Config) {
		config.MinVersion, config.NextProtos = tls.VersionTLS12, []string{"http/1.1"}
		if k := *certificates; k != nil {
			config.GetCertificate = k.ServerConfig().GetCertificate
		}
	}}
	return options
}

// registerMetrics registers all metrics of this manager. The catalog and the keeper are nil if there is none.
func registerMetrics(mgr manager.Manager, s options, c *controllers, server *catalog.Server, k *keeper.Keeper, settingsValid func() bool) error {
	if s.metrics.address == "0" {
		return nil
	}
	runs := &runcounts.RunCounts{Client: mgr.GetClient(), Reader: mgr.GetAPIReader()}
	if err := runs.SetupWithManager(mgr); err != nil {
		return fmt.Errorf("setting up a controller: %w", err)
	}
	state := &metrics.State{
		Client: mgr.GetCache(), Elected: mgr.Elected(), Endpoints: c.endpoints.Measure, Runs: runs.Of, SettingsValid: settingsValid,
		Budgets: func(ctx context.Context) ([]metrics.Budget, error) {
			return c.importer.Budgets.Measure(ctx, mgr.GetCache(), s.budgets.endpoints)
		},
	}
	if server != nil {
		state.Catalog = func() *metrics.Catalog {
			current := server.Current()
			if current == nil {
				return nil
			}
			bundles, bytes := current.Size()
			return &metrics.Catalog{Packages: current.Packages(), Bundles: bundles, Bytes: bytes}
		}
	}
	if k != nil {
		state.CertificateExpires = k.Expires
	}
	return metrics.Register(ctrlmetrics.Registry, state)
}

// controllers are those that metrics are about.
type controllers struct {
	importer  *operatorcollection.Reconciler
	endpoints *zosendpoint.Reconciler
}
