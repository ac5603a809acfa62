package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/operator-framework/operator-registry/pkg/api"
	"github.com/operator-framework/operator-registry/pkg/client"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// patience is the timeout of the tests.
const patience = 2 * time.Minute

// started returns a server that serves the catalog at an address, and stops when the test ends.
func started(t *testing.T, catalog *Catalog) (s *Server, address string) {
	t.Helper()
	s = NewServer("")
	s.Set(catalog)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s, listener.Addr().String()
}

// connect returns a client like that of OLM.
func connect(t *testing.T, address string) *client.Client {
	t.Helper()
	c, err := client.NewClient(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// listed returns all bundles that a client lists, as "channel csv", or the error.
func listed(ctx context.Context, c *client.Client) ([]string, error) {
	bundles, err := c.ListBundles(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for b := bundles.Next(); b != nil; b = bundles.Next() {
		names = append(names, b.GetChannelName()+" "+b.GetCsvName())
	}
	return names, bundles.Error()
}

// listedOnceConnected is listed, for a server that may end a connection while it is being made.
func listedOnceConnected(ctx context.Context, c *client.Client) ([]string, error) {
	for {
		names, err := listed(ctx, c)
		if len(names) > 0 || status.Code(err) != codes.Unavailable {
			return names, err
		}
	}
}

func TestServerAnswersWhatOLMAsks(t *testing.T) {
	ctx := t.Context()
	_, address := started(t, made(t, append(bundles("widgets", "1.0.0", "1.1.0"), bundle("gadgets", "2.0.0"))...))
	c := connect(t, address)

	names, err := listed(ctx, c)
	want := []string{
		"stable acme-gadgets-operator.v2.0.0", "v2.0.0 acme-gadgets-operator.v2.0.0",
		"stable acme-widgets-operator.v1.0.0", "stable acme-widgets-operator.v1.1.0",
		"v1.0.0 acme-widgets-operator.v1.0.0", "v1.1.0 acme-widgets-operator.v1.0.0", "v1.1.0 acme-widgets-operator.v1.1.0",
	}
	if diff := cmp.Diff(want, names); diff != "" || err != nil {
		t.Errorf("bundles differ: %v (-want +got):\n%s", err, diff)
	}
	stream, err := c.Registry.ListPackages(ctx, &api.ListPackageRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var packages []string
	for {
		name, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, name.GetName())
	}
	if diff := cmp.Diff([]string{"acme-gadgets-operator", "acme-widgets-operator"}, packages); diff != "" {
		t.Errorf("packages differ (-want +got):\n%s", diff)
	}
	p, err := c.GetPackage(ctx, "acme-widgets-operator")
	if err != nil {
		t.Fatal(err)
	}
	heads := map[string]string{}
	for _, channel := range p.GetChannels() {
		heads[channel.GetName()] = channel.GetCsvName()
	}
	if diff := cmp.Diff(map[string]string{
		"stable": "acme-widgets-operator.v1.1.0", "v1.0.0": "acme-widgets-operator.v1.0.0", "v1.1.0": "acme-widgets-operator.v1.1.0",
	}, heads); diff != "" || p.GetDefaultChannelName() != StableChannel {
		t.Errorf("default channel %q, heads differ (-want +got):\n%s", p.GetDefaultChannelName(), diff)
	}
	if healthy, err := c.HealthCheck(ctx, patience); !healthy || err != nil {
		t.Errorf("healthy: %v, %v", healthy, err)
	}
}

// OLM installs a bundle without an image from its message alone.
func TestServedBundleHoldsAllThatInstallsIt(t *testing.T) {
	ctx := t.Context()
	given := bundles("widgets", "1.0.0", "1.1.0")
	_, address := started(t, made(t, given...))
	c := connect(t, address)
	got, err := c.GetBundleInPackageChannel(ctx, "acme-widgets-operator", StableChannel)
	if err != nil {
		t.Fatal(err)
	}
	csv := mustBuild(t, given...).Bundles[1].CsvJSON
	if got.GetCsvJson() != csv || len(got.GetObject()) > 0 || got.GetBundlePath() != "" {
		t.Errorf("got %v", got)
	}
	if got.GetReplaces() != "acme-widgets-operator.v1.0.0" || got.GetSkipRange() != "<1.1.0" || got.GetVersion() != "1.1.0" {
		t.Errorf("replaces %q, skips %q, has version %q", got.GetReplaces(), got.GetSkipRange(), got.GetVersion())
	}
	want := &api.GroupVersionKind{Group: "suboperator.zoscb.ibm.com", Version: "v1minor0patch0", Kind: "Widget"}
	if apis := got.GetProvidedApis(); len(apis) != 1 || apis[0].String() != want.String() {
		t.Errorf("provides %v", apis)
	}
	same, err := c.GetBundle(ctx, "acme-widgets-operator", "v1.1.0", "acme-widgets-operator.v1.1.0")
	if err != nil || same.GetCsvJson() != csv {
		t.Errorf("got %v, %v", same, err)
	}
}

func TestServerSaysWhatItHasNot(t *testing.T) {
	ctx := t.Context()
	_, address := started(t, made(t, bundle("widgets", "1.0.0")))
	c := connect(t, address)
	for want, ask := range map[string]func() error{
		`package "p"`:        func() error { _, err := c.GetPackage(ctx, "p"); return err },
		`no channel "beta"`:  func() error { _, err := c.GetBundleInPackageChannel(ctx, "acme-widgets-operator", "beta"); return err },
		`no bundle "x"`:      func() error { _, err := c.GetBundle(ctx, "acme-widgets-operator", StableChannel, "x"); return err },
		`package "q" is not`: func() error { _, err := c.GetBundleInPackageChannel(ctx, "q", StableChannel); return err },
	} {
		if err := ask(); status.Code(err) != codes.NotFound || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want NotFound with %s", err, want)
		}
	}
	if _, err := c.GetBundleThatProvides(ctx, "g", "v", "K"); status.Code(err) != codes.Unimplemented {
		t.Errorf("got %v, want Unimplemented", err)
	}
}

func TestSetTellsWhetherContentChanged(t *testing.T) {
	s := NewServer("")
	one := bundles("widgets", "1.0.0", "1.1.0")
	first := made(t, one...)
	if !s.Set(first) || !strings.HasPrefix(first.Digest(), "sha256:") || len(first.Digest()) != len("sha256:")+64 {
		t.Errorf("the first content: digest %s, or not changed", first.Digest())
	}
	slices.Reverse(one)
	if same := made(t, one...); same.Digest() != first.Digest() || s.Set(same) {
		t.Errorf("the same content: digest %s instead of %s, or changed", same.Digest(), first.Digest())
	}
	other := bundles("widgets", "1.0.0", "1.1.0")
	other[1].ClusterServiceVersion.Spec.Provider.Name = "Other"
	for name, changed := range map[string]*Catalog{"fewer versions": made(t, one[0]), "other content": made(t, other...)} {
		if changed.Digest() == first.Digest() || !s.Set(changed) {
			t.Errorf("%s: digest %s after %s, or not changed", name, changed.Digest(), first.Digest())
		}
	}
}

// Only packages whose versions changed are made again.
func TestBuilderKeepsWhatIsTheSame(t *testing.T) {
	given := versions(t, append(bundles("widgets", "1.0.0", "1.1.0"), bundle("gadgets", "2.0.0"))...)
	b := &Builder{}
	first, _ := b.Build(given)
	second, _ := b.Build(given[1:])
	if first.packages["acme-gadgets-operator"] != second.packages["acme-gadgets-operator"] {
		t.Error("a package is made again that is the same")
	}
	if len(first.packages["acme-widgets-operator"].bundles) != 5 || len(second.packages["acme-widgets-operator"].bundles) != 2 {
		t.Error("a package is kept that has changed, or the first catalog has changed")
	}
	if last, _ := b.Build(nil); last.Packages() != 0 || len(b.last) != 0 {
		t.Error("a package is kept that is in no catalog")
	}
}

// The last version of the last collection can be removed.
func TestEmptyCatalogIsServed(t *testing.T) {
	s, address := started(t, made(t, bundle("widgets", "1.0.0")))
	s.Set(made(t))
	if names, err := listed(t.Context(), connect(t, address)); len(names) > 0 || err != nil {
		t.Errorf("got %v, %v", names, err)
	}
}

// OLM only reads a catalog again after its connection was closed.
func TestChangedContentEndsConnections(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, address := started(t, made(t, bundle("widgets", "1.0.0")))
	c := connect(t, address)
	if _, err := listed(ctx, c); err != nil {
		t.Fatal(err)
	}
	if state := c.Conn.GetState(); state != connectivity.Ready {
		t.Fatalf("the connection is %s", state)
	}
	s.Set(made(t, bundle("widgets", "2.0.0")))
	if !c.Conn.WaitForStateChange(ctx, connectivity.Ready) {
		t.Fatal("the connection has not ended")
	}
	c.Conn.Connect()
	b, err := c.GetBundleInPackageChannel(ctx, "acme-widgets-operator", StableChannel)
	if err != nil || b.GetVersion() != "2.0.0" {
		t.Errorf("got %v, %v", b, err)
	}
}

// A client that has started to read a catalog gets all of it, and nothing of another one.
func TestReadersGetOneCatalogWhole(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	catalogs := []*Catalog{}
	whole := map[string]bool{}
	for i := range 4 {
		var given []Bundle
		for minor := range 5 {
			b := bundle("widgets", fmt.Sprintf("%d.%d.0", i, minor))
			b.ClusterServiceVersion.Spec.Description = strings.Repeat("x", 16<<10) // Slows down readers.
			given = append(given, b)
		}
		catalogs = append(catalogs, made(t, given...))
		var names []string
		for _, b := range catalogs[i].packages["acme-widgets-operator"].bundles {
			names = append(names, b.GetChannelName()+" "+b.GetCsvName())
		}
		whole[strings.Join(names, "\n")] = true
	}
	s, address := started(t, catalogs[0])
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		c := connect(t, address)
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				names, err := listedOnceConnected(ctx, c)
				if err != nil || !whole[strings.Join(names, "\n")] {
					t.Errorf("got %v, %v", names, err)
					return
				}
			}
		})
	}
	c := connect(t, address)
	for i := range 10 {
		s.Set(catalogs[(i+1)%len(catalogs)])
		if _, err := listedOnceConnected(ctx, c); err != nil {
			t.Error(err)
		}
	}
	close(done)
	readers.Wait()
}

// Without a catalog, OLM must not be able to connect, rather than read an empty catalog.
func TestServerDoesNotListenBeforeACatalogIsSet(t *testing.T) {
	reserved, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := reserved.Addr().String()
	if err := reserved.Close(); err != nil {
		t.Fatal(err)
	}
	s := NewServer(address)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Start(ctx) }()
	if conn, err := net.Dial("tcp", address); err == nil {
		_ = conn.Close()
		t.Error("the server listens")
	}
	s.Set(made(t, bundle("widgets", "1.0.0")))
	c := connect(t, address)
	wait, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for state := c.Conn.GetState(); state != connectivity.Ready; state = c.Conn.GetState() {
		c.Conn.Connect()
		if !c.Conn.WaitForStateChange(wait, state) {
			t.Fatal("the server does not answer")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestServerThatListensTakesConnections(t *testing.T) {
	for range 500 { // Whoever asks first finds the moment in between a few times in a hundred.
		s := NewServer("127.0.0.1:" + freePort(t))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Start(ctx) }()
		s.Set(&Catalog{})
		for !s.Listening() && len(ended) == 0 {
			runtime.Gosched()
		}
		conn, err := net.Dial("tcp", s.address)
		if err != nil {
			t.Fatal("the manager would be ready too early:", err)
		}
		_ = conn.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

func TestServerEndsWithoutACatalog(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := NewServer("127.0.0.1:0").Start(ctx); err != nil {
		t.Error(err)
	}
}

func TestServerSaysThatItCannotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s := NewServer(taken.Addr().String())
	s.Set(made(t))
	if err := s.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "serving the catalog") {
		t.Errorf("got %v", err)
	}
}
