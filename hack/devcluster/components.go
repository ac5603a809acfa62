package main

import (
	"context"
	"crypto/x509"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// plane is a control plane: etcd, API server, controller manager, scheduler.
type plane struct {
	binary      func(name string) string
	dir         string // etcd's data and the kubeconfigs
	pki         pki
	roots       *x509.CertPool
	advertise   string // address of the API server for pods; "" for loopback only
	serviceCIDR string
	auditLog    string
	auditPolicy string
	ports       planePorts
}

type planePorts struct {
	api, etcd, etcdPeer, controllerManager, scheduler int
}

const loopback = "127.0.0.1"

// identities lists the certificates the control plane and its user need.
func (p plane) identities() []identity {
	serving := []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", loopback, firstAddress(p.serviceCIDR)}
	if p.advertise != "" {
		serving = append(serving, p.advertise)
	}
	local := []string{"localhost", loopback}
	return []identity{
		{file: "etcd", ca: clusterCA, name: "etcd", hosts: local},
		{file: "apiserver", ca: clusterCA, name: "kube-apiserver", hosts: serving},
		{file: "apiserver-etcd", ca: clusterCA, name: "kube-apiserver-etcd-client"},
		{file: "apiserver-kubelet", ca: clusterCA, name: "kube-apiserver-kubelet-client", group: "system:masters"},
		{file: "front-proxy", ca: frontProxyCA, name: "front-proxy-client"},
		{file: "controller-manager", ca: clusterCA, name: "system:kube-controller-manager", hosts: local},
		{file: "scheduler", ca: clusterCA, name: "system:kube-scheduler", hosts: local},
		{file: "admin", ca: clusterCA, name: "devcluster-admin", group: "system:masters"},
	}
}

func (p plane) server() string { return "https://" + address(loopback, p.ports.api) }

func (p plane) kubeconfig(identity string) string {
	return filepath.Join(p.dir, identity+".kubeconfig")
}

// kubectl runs kubectl as the administrator of the cluster, and returns what it prints.
func (p plane) kubectl(ctx context.Context, input string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, p.binary("kubectl"), append([]string{"--kubeconfig", p.kubeconfig("admin")}, args...)...)
	command.Env = cleanEnvironment()
	command.Stdin = strings.NewReader(input)
	var stderr strings.Builder
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(output)), nil
}

func (p plane) etcd() process {
	client, peer := "https://"+address(loopback, p.ports.etcd), "https://"+address(loopback, p.ports.etcdPeer)
	return process{
		name: "etcd",
		argv: []string{p.binary("etcd"),
			"--name=devcluster",
			"--data-dir=" + filepath.Join(p.dir, "etcd"),
			"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=devcluster=" + peer,
			"--cert-file=" + p.pki.cert("etcd"), "--key-file=" + p.pki.key("etcd"),
			"--client-cert-auth", "--trusted-ca-file=" + p.pki.cert(clusterCA),
			"--peer-cert-file=" + p.pki.cert("etcd"), "--peer-key-file=" + p.pki.key("etcd"),
			"--peer-client-cert-auth", "--peer-trusted-ca-file=" + p.pki.cert(clusterCA),
			"--unsafe-no-fsync",
		},
		inputs: []string{p.pki.cert("etcd")},
		ready:  accepts("tcp", address(loopback, p.ports.etcd)),
	}
}

func (p plane) apiServer(extra ...string) process {
	bind := loopback
	if p.advertise != "" {
		bind = "0.0.0.0"
		extra = append(extra, "--advertise-address="+p.advertise)
	} else {
		extra = append(extra, "--endpoint-reconciler-type=none") // a loopback address cannot be an endpoint
	}
	return process{
		name: "kube-apiserver",
		argv: append([]string{p.binary("kube-apiserver"),
			"--bind-address=" + bind, "--secure-port=" + strconv.Itoa(p.ports.api),
			"--tls-cert-file=" + p.pki.cert("apiserver"), "--tls-private-key-file=" + p.pki.key("apiserver"),
			"--client-ca-file=" + p.pki.cert(clusterCA),
			"--etcd-servers=https://" + address(loopback, p.ports.etcd),
			"--etcd-cafile=" + p.pki.cert(clusterCA), "--etcd-certfile=" + p.pki.cert("apiserver-etcd"), "--etcd-keyfile=" + p.pki.key("apiserver-etcd"),
			"--authorization-mode=Node,RBAC",
			"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement", // OpenShift enables both.
			"--allow-privileged=true",
			"--service-cluster-ip-range=" + p.serviceCIDR,
			"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + p.pki.key(accountKey), "--service-account-signing-key-file=" + p.pki.key(accountKey),
			"--requestheader-client-ca-file=" + p.pki.cert(frontProxyCA), "--requestheader-allowed-names=front-proxy-client",
			"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group", "--requestheader-extra-headers-prefix=X-Remote-Extra-",
			"--proxy-client-cert-file=" + p.pki.cert("front-proxy"), "--proxy-client-key-file=" + p.pki.key("front-proxy"),
			"--enable-aggregator-routing=true",
			"--audit-policy-file=" + p.auditPolicy, "--audit-log-path=" + p.auditLog, "--audit-log-maxsize=200", "--audit-log-maxbackup=1",
			"--profiling=false",
		}, extra...),
		inputs: []string{p.pki.cert("apiserver"), p.auditPolicy},
		ready:  answersOK(p.server()+"/readyz", p.roots),
	}
}

func (p plane) controllerManager(extra ...string) process {
	return process{
		name: "kube-controller-manager",
		argv: append([]string{p.binary("kube-controller-manager"),
			"--kubeconfig=" + p.kubeconfig("controller-manager"),
			"--authentication-kubeconfig=" + p.kubeconfig("controller-manager"), "--authorization-kubeconfig=" + p.kubeconfig("controller-manager"),
			"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(p.ports.controllerManager),
			"--tls-cert-file=" + p.pki.cert("controller-manager"), "--tls-private-key-file=" + p.pki.key("controller-manager"),
			"--leader-elect=false",
			"--use-service-account-credentials=true",
			"--service-account-private-key-file=" + p.pki.key(accountKey),
			"--root-ca-file=" + p.pki.cert(clusterCA),
			"--cluster-signing-cert-file=" + p.pki.cert(clusterCA), "--cluster-signing-key-file=" + p.pki.key(clusterCA),
			"--profiling=false",
		}, extra...),
		inputs: []string{p.kubeconfig("controller-manager"), p.pki.cert("controller-manager")},
		ready:  answersOK("https://"+address(loopback, p.ports.controllerManager)+"/healthz", p.roots),
	}
}

func (p plane) scheduler() process {
	return process{
		name: "kube-scheduler",
		argv: []string{p.binary("kube-scheduler"),
			"--kubeconfig=" + p.kubeconfig("scheduler"),
			"--authentication-kubeconfig=" + p.kubeconfig("scheduler"), "--authorization-kubeconfig=" + p.kubeconfig("scheduler"),
			"--bind-address=" + loopback, "--secure-port=" + strconv.Itoa(p.ports.scheduler),
			"--tls-cert-file=" + p.pki.cert("scheduler"), "--tls-private-key-file=" + p.pki.key("scheduler"),
			"--leader-elect=false",
			"--profiling=false",
		},
		inputs: []string{p.kubeconfig("scheduler"), p.pki.cert("scheduler")},
		ready:  answersOK("https://"+address(loopback, p.ports.scheduler)+"/healthz", p.roots),
	}
}

// prepare writes certificates and kubeconfigs, and loads the certificate authority.
func (p *plane) prepare(more ...identity) error {
	if err := p.pki.ensure(append(p.identities(), more...)); err != nil {
		return err
	}
	roots, err := p.pki.roots()
	if err != nil {
		return err
	}
	p.roots = roots
	for _, identity := range []string{"controller-manager", "scheduler", "admin"} {
		if err := p.pki.writeKubeconfig(p.kubeconfig(identity), p.server(), identity); err != nil {
			return err
		}
	}
	return nil
}

// ensureAll starts processes in order, each after the previous one is ready.
func ensureAll(ctx context.Context, s supervisor, wanted ...process) (started int, err error) {
	for _, want := range wanted {
		fresh, err := s.ensure(ctx, want)
		if err != nil {
			return started, err
		}
		if fresh {
			started++
			note("started %s", want.name)
		}
	}
	return started, nil
}
