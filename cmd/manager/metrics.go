package main

import (
	"context"
	"crypto/tls"
	"fmt"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/collection-operator/collection-operator/internal/controller/metrics"
	"github.com/collection-operator/collection-operator/internal/controller/operatorcollection"
	"github.com/collection-operator/collection-operator/internal/controller/runcounts"
	"github.com/collection-operator/collection-operator/internal/controller/zosendpoint"
	"github.com/collection-operator/collection-operator/internal/install/catalog"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
)

// metricsSettings configure the server of metrics.
type metricsSettings struct {
	address string
	secure  bool
}

func (s *metricsSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.address, "metrics-bind-address", ":8444", "address of /metrics; 0 disables it")
	flags.BoolVar(&s.secure, "metrics-secure", true, "serve metrics with TLS, and only to users who may get the URL path /metrics of the API server")
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
		Client: mgr.GetClient(), Elected: mgr.Elected(), Endpoints: c.endpoints.Measure, Runs: runs.Of, SettingsValid: settingsValid,
		Budgets: func(ctx context.Context) ([]metrics.Budget, error) {
			return c.importer.Budgets.Measure(ctx, mgr.GetClient(), s.budgets.endpoints)
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
