package manager

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/yaml"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/config"
	"github.com/collection-operator/collection-operator/internal/collection/crd"
	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/collection/reserved"
	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
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
	// pod is the name of the manager's pod, or empty if this manager ignores others.
	pod     string
	runtime runtimeDefaults
	log     zap.Options
}

func (s *options) newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	s.addFlags(flags)
	return flags
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
	s.namespaces.addFlags(flags)
	s.archives.addFlags(flags)
	s.budgets.addFlags(flags)
	s.versions.addFlags(flags)
	flags.StringVar(&s.pod, "pod-name", os.Getenv("POD_NAME"), "name of the manager's pod; if empty, this manager ignores others; default: environment variable POD_NAME")
	addDeprecated(flags)
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
	errs = append(errs, s.namespaces.validate(), s.reserved.validate(), s.archives.validate(), s.budgets.validate(), s.versions.validate(),
		checkProfiling(s.pprofAddress))
	if s.probeInterval <= 0 {
		errs = append(errs, errors.New("--endpoint-probe-interval must be positive"))
	}
	return errors.Join(errs...)
}

// checkProfiling refuses addresses that others can reach: a heap profile is read from memory that holds credentials, and a CPU
// profile costs time.
func checkProfiling(address string) error {
	if address == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
			return nil
		}
	}
	return fmt.Errorf("--pprof-bind-address must be a port of a loopback address, such as 127.0.0.1:6060, and is %q", address)
}

// catalogSettings configure the catalog for the Operator Lifecycle Manager.
type catalogSettings struct {
	bindAddress, address, namespace string
}

// permissionSettings decide what the manager may let others do.
type permissionSettings struct {
	createOperatorGroups bool
	requireScopedGrants  bool
}

func (s *permissionSettings) addFlags(flags *pflag.FlagSet) {
	flags.BoolVar(&s.createOperatorGroups, "create-operator-groups", false, "create an OperatorGroup in mapped namespaces without one, so that OLM can install collections there; with an OperatorGroup, users who can create Subscriptions in the namespace can install any package with all permissions that it requests")
	flags.BoolVar(&s.requireScopedGrants, "require-scoped-grants", false, "ignore grants for all collections, ClusterRole collection-operator-grants: only grants that name a collection and a namespace count")
}

// reservedSettings configure who may import the collections of a domain.
type reservedSettings struct {
	reservedDomains []string
}

func (s *reservedSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.reservedDomains, "reserved-domains", nil, "domains of collections, or domain/name, that only OperatorCollections of a namespace, or archives signed with a key, may have: DOMAIN=namespace:NAMESPACE or DOMAIN=key:FINGERPRINT, separated by commas; may be repeated; others are free")
}

func (s *reservedSettings) parse() (reserved.Domains, error) {
	domains, err := reserved.Parse(s.reservedDomains)
	if err != nil {
		return nil, fmt.Errorf("--reserved-domains: %w", err)
	}
	return domains, nil
}

func (s *reservedSettings) validate() error {
	_, err := s.parse()
	return err
}

// versionSettings configure when versions of CRDs end that nothing uses.
type versionSettings struct{ ages crd.Ages }

func (s *versionSettings) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.ages.Retention, "version-retention", 90*24*time.Hour, "age from which on a version of a CRD that nothing uses is deprecated; the newest ten versions remain")
	flags.DurationVar(&s.ages.Deprecation, "version-deprecation-period", 30*24*time.Hour, "time for which such a version is deprecated before it is not served any more, and then not served before it is removed")
}

func (s *versionSettings) validate() error {
	s.ages.Settles = intervals.StorageSettles
	if s.ages.Retention < time.Second || s.ages.Deprecation < time.Second {
		return errors.New("--version-retention and --version-deprecation-period must be at least 1s")
	}
	return nil
}

// archiveSettings configure the store of archives.
type archiveSettings struct {
	// retention is how long archives that nothing uses are kept.
	retention time.Duration
}

func (s *archiveSettings) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.retention, "archive-retention", store.DefaultRetention, "time for which archives that nothing uses are kept, such as 48h; 0s deletes them after an hour or two; they are deleted earlier if the space is needed")
}

func (s *archiveSettings) validate() error {
	if s.retention < 0 {
		return fmt.Errorf("--archive-retention must not be negative, not %s", s.retention)
	}
	return nil
}

// runtimeDefaults is spec.runtime for collections that do not set it, in YAML.
type runtimeDefaults struct {
	text string
}

func (d *runtimeDefaults) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&d.text, "runtime-defaults", "", "fields of spec.runtime, in YAML or JSON, for OperatorCollections and SubOperatorConfigs that do not set them; the image has a flag of its own")
}

// apply sets the defaults. They are judged as the API server judges spec.runtime: otherwise no operator could be installed.
func (d *runtimeDefaults) apply(to *render.Settings) error {
	var defaults v2beta2.RuntimeSpec
	if err := yaml.UnmarshalStrict([]byte(d.text), &defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	if defaults.Image != "" {
		return errors.New("--runtime-defaults: image is set by --runtime-image")
	}
	if err := d.check(); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	if err := render.CheckMounts(&defaults); err != nil {
		return fmt.Errorf("--runtime-defaults: %w", err)
	}
	to.Runtime = defaults
	return nil
}

// check returns what the API server would refuse in a SubOperatorConfig.
func (d *runtimeDefaults) check() error {
	if d.text == "" {
		return nil
	}
	text, err := yaml.YAMLToJSON([]byte(d.text))
	if err != nil {
		return err
	}
	var runtime map[string]any
	if err := utiljson.Unmarshal(text, &runtime); err != nil { // Integers as the API server has them.
		return err
	}
	definition, err := config.SubOperatorConfigs()
	if err != nil {
		return err
	}
	schema, err := crd.NewSchema(definition, v2beta2.GroupVersion.Version)
	if err != nil {
		return err
	}
	object := map[string]any{
		"apiVersion": v2beta2.GroupVersion.String(), "kind": definition.Spec.Names.Kind, "metadata": map[string]any{"name": "defaults"},
		"spec": map[string]any{"operatorCollection": "defaults", "runtime": runtime},
	}
	schema.Default(object)
	if errs := schema.Create(object); len(errs) > 0 {
		return errs.ToAggregate()
	}
	return schema.Rules(object).ToAggregate()
}

// metricsSettings configure the server of metrics.
type metricsSettings struct {
	address string
	secure  bool
}

func (s *metricsSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.address, "metrics-bind-address", ":8444", "address of /metrics; 0 disables it")
	flags.BoolVar(&s.secure, "metrics-secure", true, "serve metrics with TLS, and only to users who may get the URL path /metrics of the API server")
}
