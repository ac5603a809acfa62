package store

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

// StallTimeout is how long a client of the archive server may accept no data before its connection is closed.
const StallTimeout = 30 * time.Second

// Defaults of ConnectionLimits.
const (
	DefaultConnections          = 512
	DefaultConnectionsPerClient = 64
)

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

// limitedConn fails a write that makes no progress. It implements no [io.ReaderFrom]: a whole file that the kernel sends would
// be one write.
type limitedConn struct {
	net.Conn
	stall   time.Duration
	release func()
}

// writeBytes is the amount of data that a client must accept within the stall timeout.
const writeBytes = 32 << 10

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
