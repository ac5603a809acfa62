// Package dialguard decides which addresses the manager may connect to on behalf of a user. It checks the resolved address
// of each connection, so that DNS rebinding cannot circumvent it.
package dialguard

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Guard rejects addresses. The zero value rejects loopback, link-local, unspecified and multicast addresses, and those of
// cloud metadata services, also if they are embedded in IPv6 addresses.
type Guard struct {
	// AllowLocal allows the addresses that the zero value rejects.
	AllowLocal bool
	// Forbidden networks are rejected independently of AllowLocal.
	Forbidden []netip.Prefix
}

// Error reports a rejected address. Its text completes a sentence that names the host: "lpar1 has ...".
type Error struct {
	// Kind of the address, such as "a loopback address".
	Kind string
}

func (e *Error) Error() string { return e.Kind + ", which the manager does not connect to" }

// local lists the networks that AllowLocal allows. The first one that contains an address determines its kind.
var local = []struct {
	network netip.Prefix
	kind    string
}{
	{netip.MustParsePrefix("169.254.169.254/32"), metadata},  // AWS, Azure, Google Cloud, IBM Cloud, OpenStack
	{netip.MustParsePrefix("169.254.170.2/32"), metadata},    // AWS ECS
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata},       // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata},    // Google Cloud
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata}, // OpenStack, IBM Cloud
	{netip.MustParsePrefix("100.100.100.200/32"), metadata},  // Alibaba Cloud
	{netip.MustParsePrefix("192.0.0.192/32"), metadata},      // Oracle Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), metadata},    // Azure
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"}, // Linux treats 0.0.0.0 as loopback.
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "a broadcast address"},
}

const metadata = "the address of a cloud metadata service"

// embeddings lists the IPv6 networks whose addresses contain an IPv4 address, and the byte at which it begins.
var embeddings = []struct {
	network netip.Prefix
	at      int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of a site
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

// Control checks the address of a connection, as a hook for net.Dialer. It fails with *[Error].
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}
	return g.Check(to.Addr())
}

// Check fails with *[Error] if connecting to the address is not allowed.
func (g *Guard) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, form := range append(embedded(address), address) {
		for _, network := range g.Forbidden {
			if network.Contains(form) {
				return &Error{Kind: "an address in the forbidden network " + network.String()}
			}
		}
		for _, refused := range local {
			if !g.AllowLocal && refused.network.Contains(form) {
				return &Error{Kind: refused.kind}
			}
		}
	}
	return nil
}

// embedded returns the IPv4 addresses that an IPv6 address contains. The unspecified and the loopback address of IPv6
// contain none.
func embedded(address netip.Addr) []netip.Addr {
	bytes := address.As16()
	for _, e := range embeddings {
		if address.Is6() && e.network.Contains(address) && !address.IsUnspecified() && !address.IsLoopback() {
			return []netip.Addr{netip.AddrFrom4([4]byte(bytes[e.at : e.at+4]))}
		}
	}
	return nil
}

// ParseNetwork parses a network such as 10.96.0.0/16 for [Guard.Forbidden].
func ParseNetwork(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not a network such as 10.96.0.0/16 or fd00:10::/64", text)
	}
	if network.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("write the network %q as one of IPv4", text)
	}
	return network.Masked(), nil
}
