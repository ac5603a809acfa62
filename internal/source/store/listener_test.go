package store

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/source/fetch"
)

// serveLimited serves a store behind Limit. The connections that the server has open are counted.
func serveLimited(t *testing.T, store *Store, limits ConnectionLimits) (address string, open *atomic.Int32) {
	t.Helper()
	inner, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open = &atomic.Int32{}
	server := httptest.NewUnstartedServer(store.Handler())
	_ = server.Listener.Close()
	server.Listener = Limit(inner, limits)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return inner.Addr().String(), open
}

// stalled asks for an archive from a loopback address and reads nothing of it.
func stalled(t *testing.T, from, address, path string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	_ = connection.(*net.TCPConn).SetReadBuffer(4 << 10)
	_, _ = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path) // It may be closed already.
	return connection
}

// fetchFrom downloads from a loopback address of its own.
func fetchFrom(t *testing.T, from, url string) ([]byte, error) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: 30 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// large is more than the buffers of a connection hold.
func large() []byte { return bytes.Repeat([]byte("large archive..."), 1<<20) }

func putLarge(t *testing.T, store *Store, content []byte) digest.Digest {
	t.Helper()
	file, err := fetch.Save(bytes.NewReader(content), int64(len(content)), store.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Put(file); err != nil {
		t.Fatal(err)
	}
	return file.Digest
}

func TestStalledDownloadsDoNotStopOthers(t *testing.T) {
	store := openStore(t)
	content := large()
	archive := putLarge(t, store, content)
	address, open := serveLimited(t, store, ConnectionLimits{Total: 40, PerClient: 20, Stall: time.Minute})
	for range 300 {
		stalled(t, "127.0.0.2", address, URLPath(archive))
	}
	for range 2 { // Also after others have come and gone.
		got, err := fetchFrom(t, "127.0.0.3", "http://"+address+URLPath(archive))
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("got %d bytes, %v", len(got), err)
		}
	}
	if n := open.Load(); n > 21 {
		t.Errorf("%d connections are open", n)
	}
}

func TestStalledDownloadsEnd(t *testing.T) {
	store := openStore(t)
	archive := putLarge(t, store, large())
	address, open := serveLimited(t, store, ConnectionLimits{Total: 4, PerClient: 4, Stall: 100 * time.Millisecond})
	for range 4 {
		stalled(t, "127.0.0.2", address, URLPath(archive))
	}
	// No place is left until they end.
	if _, err := fetchFrom(t, "127.0.0.3", "http://"+address+URLPath(archive)); err != nil {
		t.Error(err)
	}
	if n := open.Load(); n > 4 {
		t.Errorf("%d connections are open", n)
	}
}

func TestSlowDownloadsGoOn(t *testing.T) {
	store := openStore(t)
	content := large()
	archive := putLarge(t, store, content)
	const stall = 500 * time.Millisecond
	address, _ := serveLimited(t, store, ConnectionLimits{Stall: stall})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+URLPath(archive), nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	pause := time.NewTicker(stall / 5)
	defer pause.Stop()
	for left := len(content); left > 0; left -= 1 << 20 {
		<-pause.C
		if _, err := io.CopyN(io.Discard, response.Body, 1<<20); err != nil {
			t.Fatalf("after %s, with %d bytes left: %v", time.Since(begin), left, err)
		}
	}
	if took := time.Since(begin); took < 2*stall {
		t.Errorf("it took only %s", took)
	}
}

func TestClientsAreCountedByAddress(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::", "[fe80::1%eth0]:80": "fe80::",
	} {
		if got := clientOf(remote{text: address}).String(); got != want {
			t.Errorf("%s: got %s, want %s", address, got, want)
		}
	}
}

type remote struct {
	net.Conn
	text string
}

func (r remote) RemoteAddr() net.Addr { return r }
func (remote) Network() string        { return "tcp" }
func (r remote) String() string       { return r.text }
