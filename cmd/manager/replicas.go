package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/collection-operator/collection-operator/api/v2beta2"
	"github.com/collection-operator/collection-operator/internal/controller/imports"
	"github.com/collection-operator/collection-operator/internal/platform/servingcert/keeper"
	"github.com/collection-operator/collection-operator/internal/source/replica"
)

// replicaSettings configure how managers work together.
type replicaSettings struct {
	pod     string
	timeout time.Duration
}

func (s *replicaSettings) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.pod, "pod-name", os.Getenv("POD_NAME"), "name of the manager's pod; if empty, this manager ignores others; default: environment variable POD_NAME")
	flags.DurationVar(&s.timeout, "replication-timeout", 5*time.Minute, "how long an import waits until another manager that is live has a copy of the archive")
}

func (s *replicaSettings) validate() error {
	if s.timeout <= 0 {
		return errors.New("--replication-timeout must be positive")
	}
	return nil
}

// newPeers returns nil if the manager runs alone. Managers reach each other at the port of the archive server, with TLS if it has
// certificates.
func newPeers(mgr manager.Manager, s options, certificates *keeper.Keeper) *replica.Peers {
	if s.replicas.pod == "" {
		return nil
	}
	peers := &replica.Peers{
		Reader: mgr.GetAPIReader(), Namespace: s.render.ArtifactServer.Namespace, Pod: s.replicas.pod,
		Scheme: "http", Port: s.render.ArtifactServer.Port, Timeout: s.replicas.timeout,
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

// addReplicas makes the manager copy archives from others, and mark its pod when it leads. Without peers it does nothing. The
// replicator is nil then.
func addReplicas(ctx context.Context, mgr manager.Manager, peers *replica.Peers, collections *imports.CollectionCache, maxBytes int64) (*replica.Replicator, error) {
	if peers == nil {
		return nil, nil
	}
	replicator := replica.NewReplicator(peers, collections.Store, maxBytes, func(ctx context.Context) ([]digest.Digest, error) {
		return collections.ArchivesInUse(ctx, mgr.GetClient())
	})
	for _, object := range []client.Object{&v2beta2.OperatorCollection{}, &v2beta2.SubOperatorConfig{}} {
		informer, err := mgr.GetCache().GetInformer(ctx, object)
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { replicator.Wake() },
			UpdateFunc: func(before, after any) {
				if imports.ChangesArchives(before, after) {
					replicator.Wake()
				}
			},
		}); err != nil {
			return nil, err
		}
	}
	labels := &replica.LeaderLabels{Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: peers.Namespace, Pod: peers.Pod}
	return replicator, errors.Join(mgr.Add(replicator), mgr.Add(labels))
}
