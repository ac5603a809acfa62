package catalog

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	godigest "github.com/opencontainers/go-digest"
	"github.com/operator-framework/operator-registry/alpha/declcfg"
	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxConnections bounds what clients can make the manager hold. OLM has two or three.
	maxConnections = 32
	// maxStreams bounds the questions that one client asks at once. The package server asks one per package.
	maxStreams = 16
	// maxRequestBytes is far more than the names that a question has.
	maxRequestBytes = 16 << 10
	// handshakeTimeout ends connections on which nobody speaks gRPC.
	handshakeTimeout = 10 * time.Second
	// maxConnectionAge makes OLM read the catalog again should it have missed a change, and frees what idle clients hold.
	maxConnectionAge = 15 * time.Minute
	// drainTimeout is how long clients of an older catalog may finish what they are reading.
	drainTimeout = 10 * time.Second
)

// Server serves the catalog that was set last to OLM, over gRPC without TLS: nothing in it is secret. Until one was set
// it does not listen, so that OLM never sees a catalog that lacks what is installed.
//
// A connection sees one catalog from its beginning to its end. When another one is set, clients may finish what they
// are reading and then have to connect again, which is what makes OLM forget what it knew. It implements
// manager.Runnable.
type Server struct {
	address string
	// ready is closed when the first catalog is set.
	ready chan struct{}

	mu sync.Mutex
	// current is nil before the first catalog is set.
	current *edition
}

// NewServer makes a server that listens at an address once it is started.
func NewServer(address string) *Server {
	return &Server{address: address, ready: make(chan struct{})}
}

// Set makes the catalog the one that is served, unless it is served already. It returns the digest of its content,
// "sha256:<hex>", and whether that changed. With an error, what is served stays.
func (s *Server) Set(catalog *declcfg.DeclarativeConfig) (digest string, changed bool, err error) {
	var content bytes.Buffer
	if err := declcfg.WriteJSON(*catalog, &content); err != nil {
		return "", false, err
	}
	digest = godigest.FromBytes(content.Bytes()).String()
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	if old != nil && old.digest == digest {
		return digest, false, nil
	}
	registry, err := newRegistry(catalog)
	if err != nil {
		return "", false, err
	}
	s.current = newEdition(digest, registry)
	if old == nil {
		close(s.ready)
	} else {
		go old.drain()
	}
	return digest, true, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader's controllers set a catalog.
func (*Server) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (s *Server) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.ready:
	}
	listener, err := net.Listen("tcp", s.address)
	if err != nil {
		return fmt.Errorf("serving the catalog: %w", err)
	}
	return s.serve(ctx, listener)
}

// serve hands each connection to the current edition, until the context ends.
func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	listener = netutil.LimitListener(listener, maxConnections)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	defer listener.Close()
	for {
		conn, err := listener.Accept()
		s.mu.Lock()
		current := s.current
		if err == nil {
			current.connections.give(conn)
		}
		s.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			current.drain()
			return nil
		case err != nil:
			return fmt.Errorf("serving the catalog: %w", err)
		}
	}
}

// edition is a catalog with the gRPC server for it. A gRPC server can end all its connections in good order, and only
// all of them: so every catalog has one of its own.
type edition struct {
	digest      string
	server      *grpc.Server
	connections *handover
}

func newEdition(digest string, r *registry) *edition {
	e := &edition{
		digest: digest,
		server: grpc.NewServer(
			grpc.ConnectionTimeout(handshakeTimeout), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxRequestBytes),
			grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: drainTimeout}),
		),
		connections: &handover{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	api.RegisterRegistryServer(e.server, r)
	healthServer := health.NewServer()
	healthServer.SetServingStatus(healthService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(e.server, healthServer)
	go func() {
		_ = e.server.Serve(e.connections) // It ends when the edition is drained.
	}()
	return e
}

// healthService is the name under which operator-registry's clients ask for health.
const healthService = "Registry"

// drain ends all connections, and lets them finish what they are reading for a while.
func (e *edition) drain() {
	force := time.AfterFunc(drainTimeout, e.server.Stop)
	defer force.Stop()
	e.server.GracefulStop()
}

// handover is a listener for connections that were accepted elsewhere.
type handover struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// give passes on a connection, or closes it if nobody accepts connections any more.
func (h *handover) give(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (h *handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

// Addr implements net.Listener.
func (*handover) Addr() net.Addr { return &net.TCPAddr{} }
