package main

import (
	"net/netip"
	"strings"
	"testing"
)

const routingTable = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	0102000A	0003	0	0	0	00000000	0	0	0
eth0	0000000A	00000000	0001	0	0	0	000000FF	0	0	0
cni0	0000F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0
`

func TestCollision(t *testing.T) {
	for _, test := range []struct{ name, extra, device string }{
		{"default, wider and own routes are fine", "", ""},
		{"same range", "docker0	0000F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0\n", "docker0"},
		{"host in the range", "tun0	0900F40A	00000000	0001	0	0	0	FFFFFFFF	0	0	0\n", "tun0"},
		{"neighboring range", "docker0	0001F40A	00000000	0001	0	0	0	00FFFFFF	0	0	0\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			routes, err := parseRoutes(strings.NewReader(routingTable + test.extra))
			if err != nil {
				t.Fatal(err)
			}
			device := ""
			if taken := collision(netip.MustParsePrefix(podCIDR), routes); taken != nil {
				device = taken.device
			}
			if device != test.device {
				t.Errorf("collision with %q, want %q", device, test.device)
			}
		})
	}
}

func TestParseRoutesRefusesNonsense(t *testing.T) {
	if _, err := parseRoutes(strings.NewReader("heading\neth0 xyz 0 0 0 0 0 0\n")); err == nil {
		t.Error("no error")
	}
}

func TestFirstAddress(t *testing.T) {
	if got := firstAddress("10.96.0.0/16"); got != "10.96.0.1" {
		t.Errorf("firstAddress = %s", got)
	}
}
