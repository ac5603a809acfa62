package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/controller/intake"
	"github.com/collection-operator/collection-operator/internal/controller/trustedauthorities"
	"github.com/collection-operator/collection-operator/internal/platform/intervals"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/run/environment"
	"github.com/collection-operator/collection-operator/internal/source/fetch"
	"github.com/collection-operator/collection-operator/internal/source/replica"
	"github.com/collection-operator/collection-operator/internal/source/store"
	"github.com/collection-operator/collection-operator/internal/source/upload"
)

const (
	// authorityValidity is that of the authority of the serving certificate, and certificateValidity that of the certificate. Each is replaced
	// after two thirds of it.
	authorityValidity   = 2 * 365 * 24 * time.Hour
	certificateValidity = 90 * 24 * time.Hour
	// warmUpInterval is how soon a manager that starts asks the others again for archives, and warmUpTimeout how long it waits for those that do
	// not answer.
	warmUpInterval, warmUpTimeout = time.Second, time.Minute
)

func newArchiveSource(mgr manager.Manager, s options, collections *imports.CollectionCache, trusted *trustedauthorities.TrustedAuthorities) (*intake.Source, error) {
	source := &intake.Source{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Collections: collections,
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

// addUploadFolder watches the folder into which clients copy archives. They copy into the pod of the manager that leads.
func addUploadFolder(mgr manager.Manager, s options, source *intake.Source) error {
	folder, err := store.NewUploadFolder(source.UploadDir, s.fetchMaxBytes)
	if err != nil {
		return err
	}
	log := mgr.GetLogger().WithName("uploads")
	folder.Warn = func(err error) { log.Error(err, "uploads are found later") }
	folder.Changed = func(ctx context.Context, name, version string) {
		source.FolderChanged(ctx, name, version)
		select {
		case <-mgr.Elected():
		default:
			if upload, err := folder.Latest(name, version); err == nil {
				log.Info("an archive that was copied into this pod is not imported while another manager leads: copy it into the pod with the label "+
					replica.LeaderLabel+"="+replica.LeaderLabelValue, "path", upload.Path)
			}
		}
	}
	source.Folder = folder
	return mgr.Add(folder)
}

func newUploads(mgr manager.Manager, s options, store *store.Store, source *intake.Source) *upload.Handler {
	return &upload.Handler{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Pushes: source.Pushes, Store: store,
		MaxBytes: s.fetchMaxBytes, Timeout: s.fetchTimeout, AdministratorsOnly: s.artifacts.administratorsOnly,
		Elected: mgr.Elected(), Received: source.Received,
	}
}

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
		ServerName: parsed.Hostname(), Elected: mgr.Elected(),
		Settings: servingcert.Settings{
			Names:             servingcert.NamesOf(parsed.Hostname(), s.artifacts.names),
			AuthorityValidity: authorityValidity, CertificateValidity: certificateValidity, Overlap: intervals.AuthorityOverlap,
		},
	}
	authorities := trustedauthorities.NewAuthorities(k.Bundle, k.Settings.Overlap/4)
	k.Changed = authorities.Changed
	if err := mgr.AddReadyzCheck("serving-certificate", k.Ready); err != nil {
		return nil, nil, err
	}
	return k, authorities, mgr.Add(k)
}

// addArtifactServers serves in every manager and not just in the leader. Uploads are only accepted with TLS.
func addArtifactServers(ctx context.Context, mgr manager.Manager, s options, archives http.Handler, k *keeper.Keeper, uploads *upload.Handler) error {
	listener, err := listen(ctx, s, s.artifacts.address)
	if err != nil {
		return fmt.Errorf("--artifact-bind-address: %w", err)
	}
	if k == nil {
		return addArtifactServer(mgr, "archives", listener, archives)
	}
	err = addArtifactServer(mgr, "archives", tls.NewListener(listener, k.ServerConfig()), upload.Route(uploads, archives))
	if err != nil || s.artifacts.httpAddress == "" {
		return err
	}
	listener, err = listen(ctx, s, s.artifacts.httpAddress)
	if err != nil {
		return fmt.Errorf("--artifact-http-bind-address: %w", err)
	}
	return addArtifactServer(mgr, "archives without TLS", listener, archives)
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

// newPeers returns nil if the manager runs alone. Managers reach each other at the port of the archive server, with TLS if it has
// certificates.
func newPeers(mgr manager.Manager, s options, archives *store.Store, certificates *keeper.Keeper) *replica.Peers {
	if s.pod == "" {
		return nil
	}
	peers := &replica.Peers{
		Reader: mgr.GetAPIReader(), Namespace: s.render.ArtifactServer.Namespace, Pod: s.pod,
		Scheme: "http", Port: s.render.ArtifactServer.Port, Store: archives, MaxBytes: s.fetchMaxBytes,
	}
	var trust *tls.Config
	if certificates != nil {
		peers.Scheme, trust = "https", certificates.ClientConfig()
	}
	peers.HTTP = peerClient(trust)
	return peers
}

// peerClient connects directly: managers are inside the cluster, and not behind a proxy.
func peerClient(trust *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
			TLSClientConfig:        trust,
			TLSHandshakeTimeout:    3 * time.Second,
			ResponseHeaderTimeout:  5 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        30 * time.Second,
			DisableCompression:     true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// addLeaderLabels marks the manager's pod when it leads.
func addLeaderLabels(mgr manager.Manager, peers *replica.Peers) error {
	if peers == nil {
		return nil
	}
	return mgr.Add(&replica.LeaderLabels{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: peers.Namespace, Pod: peers.Pod})
}

// warmUp copies the archives in use from the other managers once, when the manager starts. It is ready afterwards: if the pods of all managers
// are replaced one after the other, what was uploaded is not lost, and no archive has to be fetched again.
type warmUp struct {
	collections *imports.CollectionCache
	mgr         manager.Manager
	complete    atomic.Bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*warmUp) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. The manager calls it when its caches are synced.
func (w *warmUp) Start(ctx context.Context) error {
	var problem error
	_ = wait.PollUntilContextTimeout(ctx, warmUpInterval, warmUpTimeout, true, func(context.Context) (bool, error) { // What is being copied is waited for.
		var archives []digest.Digest
		if archives, problem = w.collections.ArchivesInUse(ctx, w.mgr.GetClient()); problem == nil {
			problem = w.collections.Peers.PullAll(ctx, archives)
		}
		return problem == nil, nil
	})
	if problem != nil && ctx.Err() == nil {
		w.mgr.GetLogger().Error(problem, "archives are copied from the other managers, or fetched again, when they are needed")
	}
	w.complete.Store(true)
	return nil
}

// removalInterval is how often the store is searched for archives that are not in use.
const removalInterval = time.Hour

// cleaner sets the archives aside that are not in use, and deletes those that were set aside long enough ago. It runs in every manager,
// for its own store.
type cleaner struct {
	collections *imports.CollectionCache
	mgr         manager.Manager
	retention   time.Duration
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (*cleaner) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (c *cleaner) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		now := time.Now()
		err := c.collections.RemoveUnused(ctx, c.mgr.GetAPIReader(), now.Add(-time.Minute), now.Add(-c.retention))
		if err != nil && ctx.Err() == nil {
			c.mgr.GetLogger().Error(err, "archives that are not in use are kept for another hour")
		}
	}, removalInterval)
	return nil
}

// newTrustedAuthorities reads the authorities that an administrator trusts.
func newTrustedAuthorities(ctx context.Context, mgr manager.Manager, s options) (*trustedauthorities.TrustedAuthorities, error) {
	system, err := readFirst(environment.SystemBundles)
	if err != nil {
		return nil, err
	}
	trusted := &trustedauthorities.TrustedAuthorities{
		Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("collection-operator"), Namespace: s.render.ArtifactServer.Namespace, System: system,
	}
	return trusted, errors.Join(trusted.Load(ctx), trusted.SetupWithManager(mgr))
}

// readFirst returns the first file that exists, or nil.
func readFirst(paths []string) ([]byte, error) {
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return content, err
		}
	}
	return nil, nil
}
