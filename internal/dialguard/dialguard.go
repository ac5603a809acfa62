// Package dialguard says which addresses the manager may connect to on behalf of a user. It decides about the address
// that is about to be connected to, after the name was resolved: a name that resolves to something else a moment later
// cannot get around it.
package dialguard

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Guard refuses addresses. The zero value refuses the machine's own and its link's: loopback, link-local, unspecified,
// multicast, and those of cloud metadata services, also inside IPv6 addresses that stand for IPv4 ones.
type Guard struct {
	// AllowLocal allows what the zero value refuses.
	AllowLocal bool
	// Forbidden are networks that are refused beside, whatever AllowLocal says.
	Forbidden []netip.Prefix
}

// Error says that an address is refused. Its text continues a sentence that names the host: "lpar1 has ...".
type Error struct {
	// Kind says what the address is, such as "a loopback address".
	Kind string
}

func (e *Error) Error() string { return e.Kind + ", which the manager does not connect to" }

// local are the networks that AllowLocal is about. The first one that holds an address names its kind.
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
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"}, // Linux takes 0.0.0.0 for loopback
	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
	{netip.MustParsePrefix("255.255.255.255/32"), "a broadcast address"},
}

const metadata = "the address of a cloud metadata service"

// embeddings are IPv6 networks whose addresses stand for an IPv4 address, which begins at a byte of them.
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

// Control is a hook for net.Dialer. It fails with *[Error].
func (g *Guard) Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%q is no address: %w", address, err)
	}
	return g.Check(to.Addr())
}

// Check fails with *[Error] if the address may not be connected to.
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

// embedded is the IPv4 address that an IPv6 address stands for, or nothing. The unspecified and the loopback address of
// IPv6 are not taken for IPv4 addresses.
func embedded(address netip.Addr) []netip.Addr {
	bytes := address.As16()
	for _, e := range embeddings {
		if address.Is6() && e.network.Contains(address) && !address.IsUnspecified() && !address.IsLoopback() {
			return []netip.Addr{netip.AddrFrom4([4]byte(bytes[e.at : e.at+4]))}
		}
	}
	return nil
}

// ParseNetwork reads a network such as 10.96.0.0/16 for [Guard.Forbidden].
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
