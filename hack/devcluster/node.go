package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	nodeName        = "devcluster"
	imagePrefix     = "localhost/collection-operator/"
	kubeletPort     = 10250
	kubeletHealth   = 11248
	proxyMetrics    = 11249
	proxyHealth     = 11256
	dnsHealth       = 11280
	apiPort         = 16443
	volumes         = 32
	volumeCapacity  = "10Gi"
	kubeletIdentity = "kubelet"
)

//go:embed files
var files embed.FS

func embedded(name string) string {
	content, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // The file is embedded.
	}
	return string(content)
}

// node is the only node of the cluster.
type node struct {
	project
	plane plane
}

func newNode(p project) node {
	return node{project: p, plane: plane{
		binary:      p.binary,
		dir:         p.state("plane"),
		pki:         pki{p.state("pki")},
		advertise:   nodeAddress,
		serviceCIDR: serviceCIDR,
		auditLog:    p.auditLog(),
		auditPolicy: p.state("conf", "audit-policy.yaml"),
		ports:       planePorts{api: apiPort, etcd: 12379, etcdPeer: 12380, controllerManager: 11257, scheduler: 11259},
	}}
}

func (n node) supervisor() supervisor {
	return supervisor{runDir: n.state("run"), logDir: n.state("log")}
}

func (n node) conf(name string) string { return n.state("conf", name) }

// prepare writes certificates, kubeconfigs and the components' configuration.
func (n *node) prepare() error {
	err := n.plane.prepare(
		identity{file: kubeletIdentity, ca: clusterCA, name: "system:node:" + nodeName, group: "system:nodes", hosts: []string{nodeName, nodeAddress}},
		identity{file: "kube-proxy", ca: clusterCA, name: "system:kube-proxy"},
		identity{file: "coredns", ca: clusterCA, name: "system:coredns"},
	)
	if err != nil {
		return err
	}
	for _, identity := range []string{kubeletIdentity, "kube-proxy", "coredns"} {
		if err := n.plane.pki.writeKubeconfig(n.plane.kubeconfig(identity), n.plane.server(), identity); err != nil {
			return err
		}
	}
	if err := n.plane.pki.writeKubeconfig(n.kubeconfig(), n.plane.server(), "admin"); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"audit-policy.yaml":      embedded("audit-policy.yaml"),
		"containerd.toml":        n.containerdConfig(),
		"kubelet.yaml":           n.kubeletConfig(),
		"kube-proxy.yaml":        n.proxyConfig(),
		"Corefile":               n.corefile(),
		"cni/10-bridge.conflist": n.cniConfig(),
		"addons.yaml":            embedded("addons.yaml"),
	} {
		if err := writeFile(n.conf(name), content, 0o644); err != nil {
			return err
		}
	}
	for _, dir := range []string{filepath.Dir(n.containerdSocket()), n.kubeletRoot(), n.state("pod-logs"), n.state("volume-plugins")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

func (n node) apiServer() process {
	return n.plane.apiServer("--kubelet-certificate-authority="+n.plane.pki.cert(clusterCA),
		"--kubelet-client-certificate="+n.plane.pki.cert("apiserver-kubelet"),
		"--kubelet-client-key="+n.plane.pki.key("apiserver-kubelet"),
		"--kubelet-preferred-address-types=InternalIP")
}

func (n node) controllerManager() process {
	return n.plane.controllerManager("--cluster-cidr=" + podCIDR)
}

func (n node) containerd() process {
	program, err := exec.LookPath("containerd")
	if err != nil {
		program = "containerd" // The start fails with an error.
	}
	return process{
		name:   "containerd",
		argv:   []string{program, "--config", n.conf("containerd.toml")},
		inputs: []string{n.conf("containerd.toml")},
		ready: func(ctx context.Context) error {
			return command(ctx, "ctr", "--address", n.containerdSocket(), "version")
		},
	}
}

func (n node) kubelet() process {
	return process{
		name: "kubelet",
		argv: []string{n.binary("kubelet"),
			"--config=" + n.conf("kubelet.yaml"),
			"--kubeconfig=" + n.plane.kubeconfig(kubeletIdentity),
			"--root-dir=" + n.kubeletRoot(),
			"--cert-dir=" + n.state("pki"),
			"--hostname-override=" + nodeName, // With --node-ip, the host name need not be resolvable.
			"--node-ip=" + nodeAddress,
		},
		inputs: []string{n.conf("kubelet.yaml"), n.plane.kubeconfig(kubeletIdentity), n.plane.pki.cert(kubeletIdentity)},
		ready:  answersOK(fmt.Sprintf("http://%s/healthz", address(loopback, kubeletHealth)), nil),
	}
}

func (n node) proxy() process {
	return process{
		name:   "kube-proxy",
		argv:   []string{n.binary("kube-proxy"), "--config=" + n.conf("kube-proxy.yaml"), "--hostname-override=" + nodeName},
		inputs: []string{n.conf("kube-proxy.yaml"), n.plane.kubeconfig("kube-proxy")},
		ready:  answersOK(fmt.Sprintf("http://%s/healthz", address(loopback, proxyHealth)), nil),
	}
}

func (n node) dns() process {
	return process{
		name:   "coredns",
		argv:   []string{n.binary("coredns"), "-conf", n.conf("Corefile")},
		inputs: []string{n.conf("Corefile"), n.plane.kubeconfig("coredns")},
		ready:  answersOK(fmt.Sprintf("http://%s/ready", address(loopback, dnsHealth)), nil),
	}
}

// snapshotter returns overlayfs, or native if overlays cannot be stacked.
func (n node) snapshotter() string {
	if onOverlay(n.root) {
		return "native"
	}
	return "overlayfs"
}

func (n node) fill(template string) string {
	return strings.NewReplacer(
		"{{root}}", n.state(),
		"{{socket}}", n.containerdSocket(),
		"{{snapshotter}}", n.snapshotter(),
		"{{cniPlugins}}", cniPlugins,
		"{{pauseImage}}", imagePrefix+"pause:dev",
		"{{bridge}}", bridge,
		"{{podCIDR}}", podCIDR,
		"{{nodeAddress}}", nodeAddress,
		"{{caFile}}", n.plane.pki.cert(clusterCA),
		"{{kubeletCert}}", n.plane.pki.cert(kubeletIdentity),
		"{{kubeletKey}}", n.plane.pki.key(kubeletIdentity),
		"{{kubeletPort}}", fmt.Sprint(kubeletPort),
		"{{kubeletHealth}}", fmt.Sprint(kubeletHealth),
		"{{proxyKubeconfig}}", n.plane.kubeconfig("kube-proxy"),
		"{{proxyHealth}}", address(loopback, proxyHealth),
		"{{proxyMetrics}}", address(loopback, proxyMetrics),
		"{{dnsKubeconfig}}", n.plane.kubeconfig("coredns"),
		"{{dnsHealth}}", address(loopback, dnsHealth),
	).Replace(template)
}

func (n node) containerdConfig() string { return n.fill(embedded("containerd.toml")) }
func (n node) kubeletConfig() string    { return n.fill(embedded("kubelet.yaml")) }
func (n node) proxyConfig() string      { return n.fill(embedded("kube-proxy.yaml")) }
func (n node) corefile() string         { return n.fill(embedded("Corefile")) }
func (n node) cniConfig() string        { return n.fill(embedded("cni.json")) }
