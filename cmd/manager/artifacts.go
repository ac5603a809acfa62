package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/collection/render"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

// artifactSettings configure the server of the archives.
type artifactSettings struct {
	url, address, httpAddress string
	names                     []string
	certificates              servingcert.Settings
	// execUploads allows uploads into the manager's pod, and administratorsOnly other uploads by administrators alone.
	execUploads, administratorsOnly bool
	// uploadedBytes and uploadedBytesPerNamespace limit the other uploads.
	uploadedBytes, uploadedBytesPerNamespace int64
}

func (s *artifactSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.address, "artifact-bind-address", ":8090", "address at which archives are served to the runtime pods, and uploads are accepted if artifact-url is an https URL")
	flags.StringVar(&s.url, "artifact-url", "", "URL at which the runtime pods reach artifact-bind-address (required); for an https URL the manager makes the certificate and its authority")
	flags.StringVar(&s.httpAddress, "artifact-http-bind-address", "", "address at which archives are also served without TLS if artifact-url is an https URL, for operators that an earlier version installed, which use port 80 of the same host; if empty, they are not")
	flags.StringArrayVar(&s.names, "serving-name", nil, "further DNS `name` or IP address of the serving certificate, in addition to the host of artifact-url; may be repeated")
	flags.DurationVar(&s.certificates.AuthorityValidity, "serving-ca-validity", 2*365*24*time.Hour, "validity of the authority of the serving certificate; it is replaced after two thirds of it")
	flags.DurationVar(&s.certificates.CertificateValidity, "serving-certificate-validity", 90*24*time.Hour, "validity of the serving certificate; it is replaced after two thirds of it")
	flags.DurationVar(&s.certificates.Overlap, "serving-ca-overlap", time.Hour, "time between the distribution of a new authority to the runtime pods and its first certificate")
	flags.Int64Var(&s.uploadedBytesPerNamespace, "max-uploaded-bytes-per-namespace", 512<<20, "maximum size in bytes of the archives of one namespace that were uploaded and are not imported; 0 means no limit")
	flags.Int64Var(&s.uploadedBytes, "max-uploaded-bytes", 1<<30, "maximum size in bytes of the archives of all namespaces that were uploaded and are not imported; 0 means no limit")
	flags.BoolVar(&s.administratorsOnly, "administrators-only-uploads", false, "accept uploads only from users who may also use administration.zoscb.ibm.com in the namespace, as policy collection-operator-administrators-only requires for changes of OperatorCollections")
	flags.BoolVar(&s.execUploads, "allow-exec-uploads", true, "import archives that were copied into the upload folder of the manager's pod, which needs pods/exec in the manager's namespace")
}

// apply validates the settings and sets what render needs of them.
func (s *artifactSettings) apply(r *render.Settings) error {
	if s.url == "" {
		return errors.New("--artifact-url is not set")
	}
	var errs []error
	port := func(flag, address string) int32 {
		number, err := portOf(address)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flag, err))
		}
		return number
	}
	r.ArtifactServer.Port = port("--artifact-bind-address", s.address)
	if s.httpAddress != "" {
		r.ArtifactServer.HTTPPort = port("--artifact-http-bind-address", s.httpAddress)
	}
	errs = append(errs, r.SetArtifactURL(s.url))
	if !s.tls(*r) {
		r.ArtifactServer.HTTPPort = 0
		return errors.Join(errs...)
	}
	for _, name := range s.names {
		if err := servingcert.CheckName(name); err != nil {
			errs = append(errs, fmt.Errorf("--serving-name: %w", err))
		}
	}
	if err := s.certificates.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--serving-ca-validity, --serving-certificate-validity, --serving-ca-overlap: %w", err))
	}
	return errors.Join(errs...)
}

func (*artifactSettings) tls(r render.Settings) bool { return r.ArtifactTLSURL != "" }

// newKeeper returns nil if archives are served without TLS.
func newKeeper(mgr manager.Manager, s options) (*keeper.Keeper, *trustedauthorities.Authorities, error) {
	if !s.artifacts.tls(s.render) {
		return nil, nil, nil
	}
	parsed, err := url.Parse(s.render.ArtifactTLSURL)
	if err != nil {
		return nil, nil, err
	}
	if err := servingcert.CheckName(parsed.Hostname()); err != nil {
		return nil, nil, fmt.Errorf("--artifact-url: the host %w", err)
	}
	k := &keeper.Keeper{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: s.render.ArtifactServer.Namespace,
		ServerName: parsed.Hostname(), Settings: s.artifacts.certificates, Elected: mgr.Elected(),
	}
	k.Settings.Names = servingcert.NamesOf(k.ServerName, s.artifacts.names)
	authorities := trustedauthorities.NewAuthorities(k.Bundle, k.Settings.Overlap/4)
	k.Changed = authorities.Changed
	if err := mgr.AddReadyzCheck("serving-certificate", k.Ready); err != nil {
		return nil, nil, err
	}
	return k, authorities, mgr.Add(k)
}

// addArtifactServers serves in every manager and not just in the leader. Uploads are only accepted with TLS.
func addArtifactServers(ctx context.Context, mgr manager.Manager, s options, store *store.Store, k *keeper.Keeper, uploads *upload.Handler) error {
	listener, err := listen(ctx, s, s.artifacts.address)
	if err != nil {
		return fmt.Errorf("--artifact-bind-address: %w", err)
	}
	if k == nil {
		return addArtifactServer(mgr, "archives", listener, store.Handler())
	}
	err = addArtifactServer(mgr, "archives", tls.NewListener(listener, k.ServerConfig()), upload.Route(uploads, store.Handler()))
	if err != nil || s.artifacts.httpAddress == "" {
		return err
	}
	listener, err = listen(ctx, s, s.artifacts.httpAddress)
	if err != nil {
		return fmt.Errorf("--artifact-http-bind-address: %w", err)
	}
	return addArtifactServer(mgr, "archives without TLS", listener, store.Handler())
}

// listen returns a listener that limits the open connections.
func listen(ctx context.Context, s options, address string) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return store.Limit(listener, s.budgets.connections), nil
}

func addArtifactServer(mgr manager.Manager, name string, listener net.Listener, handler http.Handler) error {
	return mgr.Add(&manager.Server{Name: name, ShutdownTimeout: new(10 * time.Second), Listener: listener, Server: &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}})
}

func newArchiveSource(mgr manager.Manager, s options, collections *imports.CollectionCache, peers *replica.Peers, trusted *trustedauthorities.TrustedAuthorities) (*intake.Source, error) {
	source := &intake.Source{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Collections: collections, Peers: peers,
		Workers: s.budgets.workers, Downloads: s.budgets.downloads,
		Fetcher: &fetch.Fetcher{
			MaxBytes: s.fetchMaxBytes, Timeout: s.fetchTimeout,
			Proxy: http.ProxyFromEnvironment, Control: s.guard.Control, Allowed: s.allowedSources, Authorities: trusted.Certificates,
		},
		Namespace: s.render.ArtifactServer.Namespace, UploadDir: filepath.Join(s.storageDir, "suboperator"),
		Pushes: &store.Pushes{
			Dir: filepath.Join(s.storageDir, "uploads"), MaxBytes: s.artifacts.uploadedBytes, MaxBytesPerNamespace: s.artifacts.uploadedBytesPerNamespace,
		},
	}
	if s.artifacts.execUploads {
		if err := addUploadFolder(mgr, s, source); err != nil {
			return nil, err
		}
	}
	return source, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { // in the leader alone
		if err := source.RemoveUnusedUploads(ctx); err != nil {
			mgr.GetLogger().Error(err, "uploads that are not in use are kept until the next start")
		}
		return nil
	}))
}

func newUploads(mgr manager.Manager, s options, store *store.Store, source *intake.Source) *upload.Handler {
	return &upload.Handler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Pushes: source.Pushes, Store: store,
		MaxBytes: s.fetchMaxBytes, Timeout: s.fetchTimeout, AdministratorsOnly: s.artifacts.administratorsOnly,
		Elected: mgr.Elected(), Received: source.Received,
	}
}
