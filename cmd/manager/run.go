package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	operatorsv1 "github.com/operator-framework/api/pkg/operators/v1"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	operatorsv2 "github.com/operator-framework/api/pkg/operators/v2"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	managercache "github.com/collection-operator/collection-operator/internal/controller/cache"
	catalogcontroller "github.com/collection-operator/collection-operator/internal/controller/catalog"
	"github.com/collection-operator/collection-operator/internal/controller/conflict"
	"github.com/collection-operator/collection-operator/internal/controller/crdplan"
	"github.com/collection-operator/collection-operator/internal/controller/customresourcedefinition"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcondition"
	"github.com/collection-operator/collection-operator/internal/controller/suboperatorconfig"
	"github.com/collection-operator/collection-operator/internal/controller/subscription"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/controller/zosendpoint"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/install/credential"
	"github.com/collection-operator/collection-operator/internal/install/grants"
	"github.com/collection-operator/collection-operator/internal/install/olm"
	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/run/endpoint"
	"github.com/collection-operator/collection-operator/internal/run/probe"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/store"
)

// options are the manager's flags.
type options struct {
	render         render.Settings
	architectures  string
	storageDir     string
	artifacts      artifactSettings
	probeAddress   string
	metrics        metricsSettings
	pprofAddress   string
	leaderElect    bool
	lease          leaseSettings
	probeInterval  time.Duration
	fetchTimeout   time.Duration
	fetchMaxBytes  int64
	allowedSources fetch.AllowList
	guard          dialguard.Guard
	catalog        catalogSettings
	namespaces     namespaceSettings
	permissions    permissionSettings
	reserved       reservedSettings
	archives       archiveSettings
	budgets        budgetSettings
	versions       versionSettings
	replicas       replicaSettings
	runtime        runtimeDefaults
	log            zap.Options
}

// leaseSettings configure leader election.
type leaseSettings struct {
	duration, renewDeadline, retryPeriod time.Duration
}

func (s *leaseSettings) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.duration, "leader-elect-lease-duration", 137*time.Second, "time after which another manager takes over if the leader has not renewed its lease")
	flags.DurationVar(&s.renewDeadline, "leader-elect-renew-deadline", 107*time.Second, "time after which the leader ends if it cannot renew its lease, such as while the API server is not available; must be less than leader-elect-lease-duration")
	flags.DurationVar(&s.retryPeriod, "leader-elect-retry-period", 5*time.Second, "interval between attempts to acquire or renew the lease; after the leader has ended, another manager takes over within twice that time")
}

// validate returns an error if client-go would refuse the settings.
func (s *leaseSettings) validate() error {
	if s.retryPeriod <= 0 || float64(s.renewDeadline) <= leaderelection.JitterFactor*float64(s.retryPeriod) || s.duration <= s.renewDeadline {
		return fmt.Errorf("--leader-elect-lease-duration must be greater than --leader-elect-renew-deadline, and that greater than %g times --leader-elect-retry-period",
			leaderelection.JitterFactor)
	}
	return nil
}

// catalogSettings configure the catalog for the Operator Lifecycle Manager.
type catalogSettings struct {
	bindAddress, address, namespace string
}

func (s *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.render.RuntimeImage, "runtime-image", "", "default image of the operators that run collections (required)")
	flags.StringVar(&s.architectures, "runtime-architectures", strings.Join(render.DefaultSettings().Architectures, ","), "architectures that the runtime image is built for, as in the node label kubernetes.io/arch")
	flags.StringVar(&s.storageDir, "storage-dir", "/opt/collections", "directory for archives; uploads are expected in its subdirectory suboperator/<name>/<version>")
	s.runtime.addFlags(flags)
	s.artifacts.addFlags(flags)
	flags.StringVar(&s.render.ArtifactServer.Namespace, "manager-namespace", cmp.Or(os.Getenv("POD_NAMESPACE"), render.DefaultSettings().ArtifactServer.Namespace), "namespace of the manager's pod, in which it keeps its key, and to which operators with restricted egress may connect to download archives; default: environment variable POD_NAMESPACE")
	flags.StringVar(&s.render.Dependencies.GalaxyURL, "galaxy-url", os.Getenv("GALAXY_URL"), "Galaxy server for the dependencies of collections; if empty, the configuration of the runtime image applies; default: environment variable GALAXY_URL")
	flags.StringVar(&s.render.Dependencies.PipIndexURL, "pip-index-url", os.Getenv("PIP_INDEX_URL"), "index of Python packages for the dependencies of collections; if empty, the configuration of the runtime image applies; default: environment variable PIP_INDEX_URL")
	flags.StringVar(&s.probeAddress, "health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	s.metrics.addFlags(flags)
	flags.StringVar(&s.pprofAddress, "pprof-bind-address", "", "loopback address of /debug/pprof, such as 127.0.0.1:6060, for profiles of CPU and memory; if empty, there is none")
	flags.BoolVar(&s.leaderElect, "leader-elect", true, "elect a leader, so that only one manager reconciles at a time")
	s.lease.addFlags(flags)
	s.namespaces.addFlags(flags)
	s.archives.addFlags(flags)
	s.budgets.addFlags(flags)
	s.versions.addFlags(flags)
	s.replicas.addFlags(flags)
	flags.Var(intervals.Flag{}, "intervals", "for tests: how long the manager waits, as in missing=2s,poll=500ms")
	if err := flags.MarkHidden("intervals"); err != nil {
		panic(err)
	}
	flags.DurationVar(&s.probeInterval, "endpoint-probe-interval", 5*time.Minute, "interval between probes of each ZosEndpoint")
	flags.DurationVar(&s.fetchTimeout, "fetch-timeout", fetch.DefaultTimeout, "timeout for the download of an archive")
	flags.Int64Var(&s.fetchMaxBytes, "fetch-max-bytes", fetch.DefaultMaxBytes, "maximum size of a downloaded archive in bytes")
	flags.Func("allowed-source-prefixes", "URL `prefix` from which archives may be fetched, including redirects; may be repeated; if not set, all URLs are allowed", func(text string) error {
		prefix, err := fetch.ParseURLPrefix(text)
		s.allowedSources = append(s.allowedSources, prefix)
		return err
	})
	flags.BoolVar(&s.guard.AllowLocal, "allow-local-addresses", false, "allow archives and ZosEndpoints at loopback, link-local and multicast addresses, and at those of cloud metadata services")
	flags.Func("forbidden-networks", "`network`, such as 10.96.0.0/16, in which archives and ZosEndpoints are not allowed; may be repeated", func(text string) error {
		network, err := dialguard.ParseNetwork(text)
		s.guard.Forbidden = append(s.guard.Forbidden, network)
		return err
	})
	flags.StringVar(&s.catalog.bindAddress, "catalog-bind-address", "", "address at which the manager serves a catalog of the collections to the Operator Lifecycle Manager (OLM), such as :50051; if empty, OLM is not used")
	flags.StringVar(&s.catalog.address, "catalog-address", "", "host and port at which OLM reaches catalog-bind-address")
	flags.StringVar(&s.catalog.namespace, "catalog-namespace", "", "namespace of the CatalogSource; defaults to openshift-marketplace if it exists, else olm")
	s.permissions.addFlags(flags)
	s.reserved.addFlags(flags)
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	s.log.BindFlags(goFlags)
	flags.AddGoFlagSet(goFlags)
}

func (s *options) validate() error {
	errs := []error{s.artifacts.apply(&s.render), s.runtime.apply(&s.render)}
	if s.render.RuntimeImage == "" {
		errs = append(errs, errors.New("--runtime-image is not set"))
	}
	for _, flag := range []struct{ name, url string }{
		{"--galaxy-url", s.render.Dependencies.GalaxyURL}, {"--pip-index-url", s.render.Dependencies.PipIndexURL},
	} {
		if flag.url != "" && !strings.HasPrefix(flag.url, "https://") && !strings.HasPrefix(flag.url, "http://") {
			errs = append(errs, fmt.Errorf("%s must be an http or https address", flag.name))
		}
	}
	if (s.catalog.bindAddress == "") != (s.catalog.address == "") {
		errs = append(errs, errors.New("--catalog-bind-address and --catalog-address must be set together"))
	}
	errs = append(errs, s.lease.validate(), s.namespaces.validate(), s.reserved.validate(), s.archives.validate(), s.budgets.validate(),
		s.replicas.validate(), s.versions.validate(), checkProfiling(s.pprofAddress))
	if s.probeInterval <= 0 {
		errs = append(errs, errors.New("--endpoint-probe-interval must be positive"))
	}
	return errors.Join(errs...)
}

// run runs a manager with valid settings.
func run(ctx context.Context, s options, p *process) error {
	s.budgets.limitMemory()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&s.log)))
	if err := s.useProxy(); err != nil {
		return err
	}
	s.namespaces.logRefused()
	var certificates *keeper.Keeper
	mgr, err := newManager(s, s.metrics.options(&certificates))
	if err != nil {
		return err
	}
	if err := conflict.CheckNeighbors(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}
	if err := conflict.CheckPredecessor(ctx, mgr.GetAPIReader(), s.render.ArtifactServer.Namespace); err != nil {
		return err
	}
	store, err := store.Open(filepath.Join(s.storageDir, ".artifacts"))
	if err != nil {
		return err
	}
	store.MaxBytes = int64(s.budgets.storedBytes)
	key, err := credential.LoadKey(ctx, mgr.GetClient(), mgr.GetAPIReader(), s.render.ArtifactServer.Namespace)
	if err != nil {
		return err
	}
	certificates, authorities, err := newKeeper(mgr, s) // The server of metrics uses it, too.
	if err != nil {
		return err
	}
	collections := &imports.CollectionCache{Store: store, Key: key, LoadedBytes: int64(s.budgets.loadedBytes)}
	peers := newPeers(mgr, s, certificates)
	trusted, err := newTrustedAuthorities(ctx, mgr, s)
	if err != nil {
		return err
	}
	source, err := newArchiveSource(mgr, s, collections, peers, trusted)
	if err != nil {
		return err
	}
	if err := addArtifactServers(ctx, mgr, s, store, certificates, newUploads(mgr, s, store, source)); err != nil {
		return err
	}
	replicator, err := addReplicas(ctx, mgr, peers, collections, s.fetchMaxBytes)
	if err := errors.Join(err, mgr.Add(&cleaner{collections: collections, mgr: mgr, retention: s.archives.retention})); err != nil {
		return err
	}
	ready := &readiness{store: store, replicator: replicator}
	added, err := addControllers(ctx, mgr, s, source, authorities, trusted, key, ready)
	if err != nil {
		return err
	}
	if err := errors.Join(registerMetrics(mgr, s, added, ready.catalog, certificates, p.valid), ready.addTo(mgr)); err != nil {
		return err
	}
	return p.manage(ctx, mgr, peers, ready)
}

// portOf returns the port of a listen address. The port may be a service name.
func portOf(address string) (int32, error) {
	_, name, err := net.SplitHostPort(address)
	if err != nil {
		return 0, err
	}
	port, err := net.LookupPort("tcp", name)
	return int32(port), err // It is at most 65535.
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
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics:                       metrics,
		HealthProbeBindAddress:        s.probeAddress,
		PprofBindAddress:              s.pprofAddress,
		LeaderElection:                s.leaderElect,
		LeaderElectionID:              "collection-operator.zoscb.ibm.com",
		LeaderElectionNamespace:       s.render.ArtifactServer.Namespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &s.lease.duration,
		RenewDeadline:                 &s.lease.renewDeadline,
		RetryPeriod:                   &s.lease.retryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("setting up the manager: %w", err)
	}
	return mgr, nil
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
		Imports: imported, Definitions: definitions, Reserved: reservedDomains, Budgets: s.budgets.ofCollections(), Peers: archives.Peers, Source: archives,
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
