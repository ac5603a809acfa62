package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const (
	bridge      = "cni0"
	podCIDR     = "10.244.0.0/24"
	nodeAddress = "10.244.0.1" // of the bridge: the same on every machine, and reachable from pods
	serviceCIDR = "10.96.0.0/16"
	nftTable    = "collection_operator_devcluster"
)

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// firstAddress returns the address of the Service "kubernetes".
func firstAddress(cidr string) string { return netip.MustParsePrefix(cidr).Addr().Next().String() }

const ownerPrefix = "devcluster "

// bridgeOwner returns the alias of the bridge, so that a second checkout does not change the cluster of the first.
func bridgeOwner(p project) string { return ownerPrefix + p.root }

// removeLeftNetwork removes the network of another checkout's cluster that was ended without down, for example with the machine's
// container. It must only be called when the ports of a cluster are free: then no other cluster runs.
func removeLeftNetwork(ctx context.Context, p project) error {
	owner, exists := currentBridgeOwner()
	root, ours := strings.CutPrefix(owner, ownerPrefix)
	if !exists || !ours || root == p.root {
		return nil
	}
	fmt.Printf("removing the network of the cluster of %s, which does not run any more\n", root)
	return tearDownNetwork(ctx, project{root: root})
}

// checkNetwork fails if the cluster's address ranges are in use.
func checkNetwork(p project) error {
	if owner, exists := currentBridgeOwner(); exists && owner != bridgeOwner(p) {
		return fmt.Errorf("interface %s exists and does not belong to this cluster (its alias is %q): stop the program that created it, or remove it with: ip link delete %s", bridge, owner, bridge)
	}
	table, err := os.Open("/proc/net/route")
	if err != nil {
		return err
	}
	defer table.Close()
	routes, err := parseRoutes(table)
	if err != nil {
		return err
	}
	for _, cidr := range []string{podCIDR, serviceCIDR} {
		if taken := collision(netip.MustParsePrefix(cidr), routes); taken != nil {
			return fmt.Errorf("the cluster needs %s, but this machine routes %s over %s: remove that route first", cidr, taken.prefix, taken.device)
		}
	}
	return nil
}

type route struct {
	device string
	prefix netip.Prefix
}

// collision returns a route inside the range, or nil. A wider route, such as the default route, does not collide: the
// cluster's route is more specific.
func collision(wanted netip.Prefix, routes []route) *route {
	for _, r := range routes {
		if r.device != bridge && r.prefix.Bits() >= wanted.Bits() && wanted.Contains(r.prefix.Addr()) {
			return &r
		}
	}
	return nil
}

// parseRoutes parses /proc/net/route, whose addresses are hexadecimal in little-endian byte order.
func parseRoutes(table io.Reader) ([]route, error) {
	var routes []route
	scanner := bufio.NewScanner(table)
	scanner.Scan() // heading
	for scanner.Scan() {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 8 {
			continue
		}
		destination, err := hexAddress(fields[1])
		if err != nil {
			return nil, err
		}
		mask, err := hexAddress(fields[7])
		if err != nil {
			return nil, err
		}
		ones, _ := net.IPMask(mask.AsSlice()).Size()
		routes = append(routes, route{device: fields[0], prefix: netip.PrefixFrom(destination, ones)})
	}
	return routes, scanner.Err()
}

func hexAddress(text string) (netip.Addr, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 4 {
		return netip.Addr{}, fmt.Errorf("routing table: %q is not an address", text)
	}
	slices.Reverse(raw)
	return netip.AddrFrom4([4]byte(raw)), nil
}

func currentBridgeOwner() (owner string, exists bool) {
	alias, err := os.ReadFile("/sys/class/net/" + bridge + "/ifalias")
	return strings.TrimSpace(string(alias)), err == nil
}

// setUpNetwork creates the bridge, its routes and the packet filter's table. It is idempotent.
func setUpNetwork(ctx context.Context, p project) error {
	if _, exists := currentBridgeOwner(); !exists {
		if err := command(ctx, "ip", "link", "add", bridge, "type", "bridge"); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"link", "set", bridge, "alias", bridgeOwner(p)},
		{"link", "set", bridge, "address", "0a:58:0a:f4:00:01", "up"},
		{"address", "replace", nodeAddress + "/24", "dev", bridge},
		{"route", "replace", serviceCIDR, "dev", bridge}, // so that services work on a machine without a default route
	} {
		if err := command(ctx, "ip", args...); err != nil {
			return err
		}
	}
	if err := packetFilter(ctx, filterRules); err != nil {
		return err
	}
	return forwardAlways(ctx)
}

// filterRules lets pods reach pods, services and the node only, as on a site without a route outside, and blocks access to the API server
// from the machine's network. Services have been translated to pods when a packet is forwarded.
var filterRules = fmt.Sprintf(`table ip %[1]s {}
delete table ip %[1]s
table ip %[1]s {
	chain postrouting {
		type nat hook postrouting priority 100;
		ip saddr %[2]s ip daddr != %[2]s ip daddr != %[3]s masquerade
	}
	chain forward {
		type filter hook forward priority 0;
		ct state established,related accept
		ip saddr %[2]s ip daddr != { %[2]s, %[3]s } reject with icmp type net-unreachable
	}
	chain input {
		type filter hook input priority 0;
		tcp dport %[4]d iifname != { "lo", "%[5]s" } drop
	}
}
`, nftTable, podCIDR, serviceCIDR, apiPort, bridge)

func packetFilter(ctx context.Context, rules string) error {
	command := exec.CommandContext(ctx, "nft", "-f", "-")
	command.Stdin = strings.NewReader(rules)
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(output))
	}
	return nil
}

var forwardRules = [][]string{
	{"FORWARD", "-i", bridge, "-m", "comment", "--comment", "devcluster", "-j", "ACCEPT"},
	{"FORWARD", "-o", bridge, "-m", "comment", "--comment", "devcluster", "-j", "ACCEPT"},
}

// forwardAlways allows forwarding for pods if the machine drops forwarded packets by default, as with Docker.
func forwardAlways(ctx context.Context) error {
	policy, err := exec.CommandContext(ctx, "iptables", "-S", "FORWARD").Output()
	if err != nil || !bytes.Contains(policy, []byte("-P FORWARD DROP")) {
		return nil
	}
	for _, rule := range forwardRules {
		if exec.CommandContext(ctx, "iptables", append([]string{"-C"}, rule...)...).Run() == nil {
			continue
		}
		if err := command(ctx, "iptables", append([]string{"-I"}, rule...)...); err != nil {
			return err
		}
	}
	return nil
}

// tearDownNetwork removes the configuration of setUpNetwork, kube-proxy and the CNI plugins.
func tearDownNetwork(ctx context.Context, p project) error {
	var failed error
	if owner, exists := currentBridgeOwner(); exists && owner == bridgeOwner(p) {
		failed = errors.Join(failed, command(ctx, "ip", "link", "delete", bridge))
	}
	if _, err := exec.LookPath("nft"); err == nil {
		for _, table := range []string{"ip " + nftTable, "ip kube-proxy", "ip6 kube-proxy"} {
			failed = errors.Join(failed, packetFilter(ctx, fmt.Sprintf("table %[1]s {}\ndelete table %[1]s\n", table)))
		}
	}
	for _, rule := range forwardRules {
		_ = exec.CommandContext(ctx, "iptables", append([]string{"-D"}, rule...)...).Run()
	}
	return failed
}

// command runs a short system command; its output is part of the error.
func command(ctx context.Context, name string, args ...string) error {
	if output, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return nil
}
