package store

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/net/netutil"
)

const urlPrefix = "/artifacts/" + string(algorithm) + "/"

// URLPath is the path under which Handler serves the archive with this digest: /artifacts/sha256/<hex>.tar.gz.
func URLPath(archive digest.Digest) string {
	return urlPrefix + strings.TrimPrefix(archive.String(), string(algorithm)+":") + suffix
}

// DigestOf is the digest of the archive under a URLPath.
func DigestOf(path string) (digest.Digest, bool) {
	name, ok := strings.CutPrefix(path, urlPrefix)
	hex, isArchive := strings.CutSuffix(name, suffix)
	return digest.NewDigestFromEncoded(algorithm, hex), ok && isArchive && algorithm.Validate(hex) == nil
}

// Handler serves the store's archives for GET and HEAD, each under its URLPath, and nothing else: no listing, no
// writing. An archive never changes under its path, so clients may keep it for ever.
func (s *Store) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		archive, ok := DigestOf(r.URL.Path)
		if !ok {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		f, info, err := s.open(archive)
		if err == nil {
			defer f.Close()
		}
		if err != nil || !info.Mode().IsRegular() {
			http.NotFound(w, r)
			return
		}
		header := w.Header()
		header.Set("Content-Type", "application/gzip")
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("ETag", `"`+archive.String()+`"`)
		http.ServeContent(w, r, "", time.Time{}, f)
	})
}

// StallTimeout is how long a client of the archive server may accept no data before its connection is closed.
const StallTimeout = 30 * time.Second

// Defaults of ConnectionLimits.
const (
	DefaultConnections          = 512
	DefaultConnectionsPerClient = 64
)

// writeBytes is the amount of data that a client must accept within the stall timeout.
const writeBytes = 32 << 10

// ConnectionLimits limit the connections of a server. A limit that is zero has its default.
type ConnectionLimits struct {
	// Total is the maximum number of open connections. Others wait until one is closed.
	Total int
	// PerClient is the maximum number of open connections from one IP address. Others are closed at once.
	PerClient int
	// Stall is how long a write to a connection may make no progress before it fails; zero means StallTimeout.
	Stall time.Duration
}

// Limit returns a listener that accepts connections of inner within limits. A client that is slow but reads is not affected;
// one that stops reading is disconnected after limits.Stall. It may be wrapped by a TLS listener.
func Limit(inner net.Listener, limits ConnectionLimits) net.Listener {
	if limits.Total <= 0 {
		limits.Total = DefaultConnections
	}
	if limits.PerClient <= 0 {
		limits.PerClient = DefaultConnectionsPerClient
	}
	if limits.Stall <= 0 {
		limits.Stall = StallTimeout
	}
	return &limitedListener{
		Listener: netutil.LimitListener(inner, limits.Total), each: limits.PerClient, stall: limits.Stall, open: map[netip.Addr]int{},
	}
}

// limitedListener limits the connections of each client.
type limitedListener struct {
	net.Listener
	each  int
	stall time.Duration

	mu sync.Mutex
	// open has the number of connections by the client's address.
	open map[netip.Addr]int
}

// Accept returns the next connection of a client that has fewer than the maximum.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(connection)
		if l.admit(client) {
			return &limitedConn{Conn: connection, stall: l.stall, release: sync.OnceFunc(func() { l.release(client) })}, nil
		}
		_ = connection.Close() // The client tries again.
	}
}

func (l *limitedListener) admit(client netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client] >= l.each {
		return false
	}
	l.open[client]++
	return true
}

func (l *limitedListener) release(client netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[client]--; l.open[client] <= 0 {
		delete(l.open, client)
	}
}

// clientOf returns the address that connections are counted by: that of an IPv6 network, of which a host has many addresses,
// without its last 64 bits.
func clientOf(connection net.Conn) netip.Addr {
	remote, err := netip.ParseAddrPort(connection.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	address := remote.Addr().Unmap().WithZone("")
	if network, err := address.Prefix(64); err == nil && address.Is6() {
		return network.Addr()
	}
	return address
}

// limitedConn fails a write that makes no progress. It implements no [io.ReaderFrom]: a whole file that the kernel sends would
// be one write.
type limitedConn struct {
	net.Conn
	stall   time.Duration
	release func()
}

// Write sets a deadline for each part of the data.
func (c *limitedConn) Write(data []byte) (written int, err error) {
	for {
		part := data[written:min(len(data), written+writeBytes)]
		if err := c.SetWriteDeadline(time.Now().Add(c.stall)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil || written == len(data) {
			return written, err
		}
	}
}

// Close implements [net.Conn].
func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
