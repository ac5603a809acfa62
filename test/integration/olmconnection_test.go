package integration

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/operator-framework/operator-registry/pkg/api"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// testService forwards new connections to one endpoint, as a Service does.
type testService struct {
	address  string
	mu       sync.Mutex
	endpoint string
}

func newTestService() *testService {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	s := &testService{address: listener.Addr().String()}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.forward(conn)
		}
	}()
	return s
}

// route changes where new connections go.
func (s *testService) route(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endpoint = endpoint
}

func (s *testService) forward(conn net.Conn) {
	defer conn.Close()
	s.mu.Lock()
	endpoint := s.endpoint
	s.mu.Unlock()
	backend, err := net.Dial("tcp", endpoint)
	if err != nil {
		return
	}
	defer backend.Close()
	go func() {
		_, _ = io.Copy(backend, conn)
		_ = backend.Close()
	}()
	_, _ = io.Copy(conn, backend)
}

// olmConnection is a connection as OLM has it for a CatalogSource, without options for its delays: whenever the state changes, it
// connects again. In TRANSIENT_FAILURE, OLM's package server forgets all packages of the catalog.
type olmConnection struct {
	catalog *testCatalog
	mu      sync.Mutex
	states  []connectivity.State
}

func newOLMConnection(ctx context.Context, address string) *olmConnection {
	GinkgoHelper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	Expect(err).NotTo(HaveOccurred())
	c := &olmConnection{catalog: &testCatalog{address: address, registry: api.NewRegistryClient(conn)}}
	ended := make(chan struct{})
	watch, stop := context.WithCancel(ctx)
	go func() {
		defer close(ended)
		state := conn.GetState()
		for conn.Connect(); conn.WaitForStateChange(watch, state); conn.Connect() {
			state = conn.GetState()
			c.mu.Lock()
			c.states = append(c.states, state)
			c.mu.Unlock()
		}
	}()
	DeferCleanup(func() {
		stop()
		<-ended
		Expect(conn.Close()).To(Succeed())
	})
	return c
}

// seen are the states since the last call.
func (c *olmConnection) seen() []connectivity.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := c.states
	c.states = nil
	return seen
}

// becomesReady waits until it is connected after it was not, and returns the states until then.
func (c *olmConnection) becomesReady(ctx context.Context) []connectivity.State {
	GinkgoHelper()
	var states []connectivity.State
	Eventually(ctx, func() []connectivity.State {
		states = append(states, c.seen()...)
		return states
	}).Should(ContainElement(connectivity.Ready))
	return slices.Compact(states)
}
