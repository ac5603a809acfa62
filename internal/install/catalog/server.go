package catalog

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/operator-framework/operator-registry/pkg/api"
	"golang.org/x/net/netutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

const (
	// maxConnections is the maximum number of connections. OLM has two or three.
	maxConnections = 32
	// maxStreams is the maximum number of concurrent requests per connection. The package server sends one per package.
	maxStreams = 16
	// maxRequestBytes is the maximum size of a request, which only contains names.
	maxRequestBytes = 16 << 10
	// handshakeTimeout closes connections without a gRPC handshake.
	handshakeTimeout = 10 * time.Second
	// maxConnectionAge makes OLM reconnect, and so read the catalog again if it missed a change, and closes idle
	// connections.
	maxConnectionAge = 15 * time.Minute
	// drainTimeout is the time in which clients of a replaced catalog may finish their requests.
	drainTimeout = 10 * time.Second
)

// Server serves the most recent catalog to OLM, over gRPC without TLS: the catalog contains no secrets. It does not listen
// until a catalog is set, so that OLM never reads a catalog without the installed versions.
//
// A connection is bound to one catalog. When another one is set, clients may finish their requests and then have to
// reconnect, which makes OLM drop its cache. Server implements manager.Runnable.
type Server struct {
	address string
	// ready is closed when the first catalog is set, listening when clients can connect.
	ready, listening chan struct{}

	mu sync.Mutex
	// current is nil until the first catalog is set.
	current *snapshot
}

// NewServer returns a server that listens at an address once it is started.
func NewServer(address string) *Server {
	return &Server{address: address, ready: make(chan struct{}), listening: make(chan struct{})}
}

// Set replaces the served catalog, and says whether the content changed.
func (s *Server) Set(catalog *Catalog) (changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.current
	if old != nil && old.digest == catalog.Digest() {
		return false
	}
	s.current = newSnapshot(catalog)
	if old == nil {
		close(s.ready)
	} else {
		go old.drain()
	}
	return true
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: each manager serves the catalog.
func (*Server) NeedLeaderElection() bool { return false }

// Listening says whether clients can connect.
func (s *Server) Listening() bool {
	select {
	case <-s.listening:
		return true
	default:
		return false
	}
}

// Current returns the catalog that is served, or nil.
func (s *Server) Current() *Catalog {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil
	}
	return s.current.catalog
}

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
	close(s.listening)
	return s.serve(ctx, listener)
}

// serve passes each connection to the current snapshot, until the context ends.
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
			current.connections.deliver(conn)
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

// snapshot is a catalog with its own gRPC server: a gRPC server can only drain all its connections at once.
type snapshot struct {
	catalog     *Catalog
	digest      string
	server      *grpc.Server
	connections *connListener
}

func newSnapshot(catalog *Catalog) *snapshot {
	s := &snapshot{
		catalog: catalog,
		digest:  catalog.Digest(),
		server: grpc.NewServer(
			grpc.ConnectionTimeout(handshakeTimeout), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxRecvMsgSize(maxRequestBytes),
			grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: maxConnectionAge, MaxConnectionAgeGrace: drainTimeout}),
		),
		connections: &connListener{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
	api.RegisterRegistryServer(s.server, catalog)
	healthServer := health.NewServer()
	healthServer.SetServingStatus(healthService, grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(s.server, healthServer)
	go func() {
		_ = s.server.Serve(s.connections) // Returns when the snapshot is drained.
	}()
	return s
}

// healthService is the service name in the health checks of operator-registry's clients.
const healthService = "Registry"

// drain closes all connections gracefully, and forcibly after drainTimeout.
func (s *snapshot) drain() {
	force := time.AfterFunc(drainTimeout, s.server.Stop)
	defer force.Stop()
	s.server.GracefulStop()
}

// connListener is a net.Listener for connections that another listener has accepted.
type connListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// deliver passes a connection to Accept, or closes it if the listener is closed.
func (l *connListener) deliver(conn net.Conn) {
	select {
	case l.conns <- conn:
	case <-l.closed:
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (l *connListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *connListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*connListener) Addr() net.Addr { return &net.TCPAddr{} }
