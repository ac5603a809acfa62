package dialguard

import (
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func networks(t *testing.T, texts ...string) []netip.Prefix {
	t.Helper()
	var list []netip.Prefix
	for _, text := range texts {
		network, err := ParseNetwork(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, network)
	}
	return list
}

func TestCheck(t *testing.T) {
	cluster := networks(t, "10.96.0.0/16", "fd00:10::/64")
	for _, test := range []struct {
		address string
		guard   Guard
		// want is a part of the refusal, or empty.
		want string
	}{
		{address: "127.0.0.1", want: "loopback"},
		{address: "127.255.255.254", want: "loopback"},
		{address: "::1", want: "loopback"},
		{address: "::ffff:127.0.0.1", want: "loopback"},
		{address: "::127.0.0.1", want: "loopback"},
		{address: "::ffff:0:127.0.0.1", want: "loopback"},
		{address: "64:ff9b::127.0.0.1", want: "loopback"},
		{address: "64:ff9b:1::7f00:1", want: "loopback"},
		{address: "2002:7f00:1::", want: "loopback"},
		{address: "2002:7f00:0001:0:0:1:2:3", want: "loopback"},
		{address: "169.254.0.1", want: "link-local"},
		{address: "fe80::1", want: "link-local"},
		{address: "fe80::1%eth0", want: "link-local"},
		{address: "febf:ffff::", want: "link-local"},
		{address: "::ffff:169.254.1.1", want: "link-local"},
		{address: "169.254.169.254", want: "metadata"},
		{address: "::ffff:169.254.169.254", want: "metadata"},
		{address: "::ffff:169.254.169.254%1", want: "metadata"},
		{address: "64:ff9b::a9fe:a9fe", want: "metadata"},
		{address: "2002:a9fe:a9fe::1", want: "metadata"},
		{address: "169.254.170.2", want: "metadata"},
		{address: "fd00:ec2::254", want: "metadata"},
		{address: "fd20:ce::254", want: "metadata"},
		{address: "fe80::a9fe:a9fe%eth0", want: "metadata"},
		{address: "100.100.100.200", want: "metadata"},
		{address: "192.0.0.192", want: "metadata"},
		{address: "168.63.129.16", want: "metadata"},
		{address: "0.0.0.0", want: "unspecified"},
		{address: "0.1.2.3", want: "unspecified"},
		{address: "::", want: "unspecified"},
		{address: "::ffff:0.0.0.0", want: "unspecified"},
		{address: "224.0.0.1", want: "multicast"},
		{address: "239.255.255.255", want: "multicast"},
		{address: "ff02::1", want: "multicast"},
		{address: "255.255.255.255", want: "broadcast"},

		{address: "10.0.0.1"},
		{address: "192.168.1.1"},
		{address: "100.64.0.1"},
		{address: "203.0.113.1"},
		{address: "fd00::1"},
		{address: "2001:db8::1"},
		{address: "64:ff9b::10.0.0.1"},
		{address: "2002:a00:1::"},
		{address: "fec0::1"},
		{address: "126.255.255.255"},
		{address: "169.255.0.1"},

		{address: "127.0.0.1", guard: Guard{AllowLocal: true}},
		{address: "169.254.169.254", guard: Guard{AllowLocal: true}},
		{address: "::1", guard: Guard{AllowLocal: true}},

		{address: "10.96.0.1", guard: Guard{Forbidden: cluster}, want: "the forbidden network 10.96.0.0/16"},
		{address: "::ffff:10.96.0.1", guard: Guard{Forbidden: cluster}, want: "10.96.0.0/16"},
		{address: "64:ff9b::10.96.0.1", guard: Guard{Forbidden: cluster}, want: "10.96.0.0/16"},
		{address: "fd00:10::1", guard: Guard{Forbidden: cluster}, want: "fd00:10::/64"},
		{address: "fd00:10:0:1::1", guard: Guard{Forbidden: cluster}},
		{address: "10.97.0.1", guard: Guard{Forbidden: cluster}},
		{address: "127.0.0.1", guard: Guard{Forbidden: cluster}, want: "loopback"},
		{address: "10.96.0.1", guard: Guard{AllowLocal: true, Forbidden: cluster}, want: "10.96.0.0/16"},
		{address: "2002:a60:1::", guard: Guard{AllowLocal: true, Forbidden: networks(t, "2002::/16")}, want: "2002::/16"},
	} {
		err := test.guard.Check(netip.MustParseAddr(test.address))
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %+v: got %v, want %q", test.address, test.guard, err, test.want)
		}
		again := test.guard.Control("tcp", net.JoinHostPort(test.address, "80"), nil)
		if (again != nil) != (err != nil) || err != nil && again.Error() != err.Error() {
			t.Errorf("%s: the hook says %v, not %v", test.address, again, err)
		}
	}
}

// The hook is called with resolved addresses, and the dialer wraps its error.
func TestControlSeesResolvedAddresses(t *testing.T) {
	guard := &Guard{}
	dialer := net.Dialer{Control: guard.Control}
	for _, address := range []string{"localhost:1", "127.0.0.1:1", "[::1]:1", "0.0.0.0:1", "[::ffff:127.0.0.1]:1"} {
		_, err := dialer.DialContext(t.Context(), "tcp", address)
		if refused := (*Error)(nil); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", address, err)
		}
	}
	if err := guard.Control("tcp", "localhost:80", nil); err == nil {
		t.Error("an address that was not resolved passes")
	}
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]string{
		"10.96.0.0/16": "10.96.0.0/16", "10.96.1.2/16": "10.96.0.0/16", "fd00:10::/64": "fd00:10::/64", "0.0.0.0/0": "0.0.0.0/0",
		"10.96.0.0": "", "": "", "10.96.0.0/33": "", "::ffff:10.0.0.0/104": "", "example.com/8": "",
	} {
		got, err := ParseNetwork(text)
		if (err != nil) != (want == "") || err == nil && got.String() != want {
			t.Errorf("%q: got %v, %v, want %q", text, got, err, want)
		}
	}
}

// The guard accepts no address that Go considers local, independent of its notation.
func FuzzCheck(f *testing.F) {
	for _, text := range []string{"127.0.0.1", "::ffff:127.0.0.1", "fe80::1%eth0", "2002:7f00:1::", "64:ff9b::a9fe:a9fe", "10.0.0.1"} {
		address := netip.MustParseAddr(text)
		bytes := address.As16()
		f.Add(bytes[:], address.Zone())
	}
	guard := &Guard{}
	f.Fuzz(func(t *testing.T, bytes []byte, zone string) {
		address, ok := netip.AddrFromSlice(bytes)
		if !ok || guard.Check(address.WithZone(zone)) != nil {
			return
		}
		ip := net.IP(bytes)
		if ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() {
			t.Errorf("%s passes", address)
		}
	})
}
