package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// up starts the cluster, or repairs it, and builds images beside it if it is asked to. The Operator Lifecycle Manager is kept if
// it was installed before.
func up(ctx context.Context, p project, withOLM, withImages bool, only []string) error {
	if err := requireRoot(); err != nil {
		return err
	}
	unlock, err := lock(p.state("lock"))
	if err != nil {
		return err
	}
	defer unlock()
	n := newNode(p)
	compiled, runtimeStarted := make(chan struct{}), make(chan struct{})
	group, groupCtx := errgroup.WithContext(ctx)
	if withImages {
		group.Go(func() error {
			return buildImages(groupCtx, p, only, compiled, func(ctx context.Context, i image) error {
				if err := await(ctx, runtimeStarted); err != nil {
					return err
				}
				return n.load(ctx, i)
			})
		})
	} else {
		close(compiled)
	}
	group.Go(func() error { return n.buildAndStart(groupCtx, withOLM, compiled, runtimeStarted) })
	if err := group.Wait(); err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", p.kubeconfig())
	return nil
}

// buildAndStart builds the cluster's programs and starts them. Images are compiled first, because they are then assembled while
// the programs are compiled. It closes a channel when containerd can take images.
func (n *node) buildAndStart(ctx context.Context, withOLM bool, compiled <-chan struct{}, runtimeStarted chan<- struct{}) error {
	wanted := slices.Concat(controlPlaneComponents, nodeComponents)
	if withOLM {
		wanted = slices.Concat(wanted, olmComponents)
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		lacking, err := missing(n.project, wanted)
		if err != nil || len(lacking) == 0 {
			return err
		}
		if err := await(groupCtx, compiled); err != nil {
			return err
		}
		return buildAll(groupCtx, n.project, lacking...)
	})
	group.Go(func() error {
		if err := n.startRuntime(groupCtx); err != nil {
			return err
		}
		close(runtimeStarted)
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	if err := n.startAll(ctx); err != nil || !withOLM {
		return err
	}
	return n.addOLM(ctx)
}

// startRuntime starts containerd, and before it all of the node that needs no program of Kubernetes.
func (n *node) startRuntime(ctx context.Context) error {
	for _, step := range []func() error{
		func() error { return installPackages(ctx, n.project) },
		n.forgetOldBoot,
		n.checkPorts,
		func() error { return removeLeftNetwork(ctx, n.project) },
		func() error { return checkNetwork(n.project) },
		n.saveSysctls,
		delegateCgroups,
		func() error { return setUpNetwork(ctx, n.project) },
		n.prepare,
		func() error { _, err := ensureAll(ctx, n.supervisor(), n.containerd()); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func requireRoot() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a node needs Linux, this is %s: here only build and control-plane work", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node needs root (it mounts file systems and makes network interfaces): run this with sudo; control-plane works without")
	}
	return nil
}

// lock prevents concurrent commands of the same kind.
func lock(path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		note("wait for another step or command, which holds %s", path)
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
			return nil, errors.Join(err, file.Close())
		}
	}
	return func() { file.Close() }, nil
}

func (n node) startAll(ctx context.Context) error {
	started := 0
	ensure := func(wanted ...process) func() error {
		return func() error {
			count, err := ensureAll(ctx, n.supervisor(), wanted...)
			started += count
			return err
		}
	}
	for _, step := range []func() error{
		ensure(n.plane.etcd(), n.apiServer(), n.controllerManager(), n.plane.scheduler()),
		func() error { return n.applyAddons(ctx) },
		func() error { return importPause(ctx, n) },
		ensure(n.kubelet(), n.proxy(), n.dns()),
		func() error { return n.offerVolumes(ctx) },
		func() error { return waitFor(ctx, "the node to be Ready", 2*time.Minute, n.nodeReady) },
		func() error { return waitFor(ctx, "the cluster's DNS", time.Minute, resolvesService) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	if started == 0 {
		note("the cluster runs")
	} else {
		note("the cluster is up")
	}
	return nil
}

// forgetOldBoot removes the runtime's records of containers and addresses from before a restart of the machine.
func (n node) forgetOldBoot() error {
	bootFile := n.state("run", "boot")
	if have, err := os.ReadFile(bootFile); err == nil && string(have) == bootID() {
		return nil
	}
	for _, dir := range []string{n.state("run"), n.state("containerd", "state")} {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return writeFile(bootFile, bootID(), 0o644)
}

// checkPorts fails if other processes use the required ports.
func (n node) checkPorts() error {
	ports := map[string][]string{
		"etcd":                    {address(loopback, n.plane.ports.etcd), address(loopback, n.plane.ports.etcdPeer)},
		"kube-apiserver":          {address("0.0.0.0", n.plane.ports.api)},
		"kube-controller-manager": {address(loopback, n.plane.ports.controllerManager)},
		"kube-scheduler":          {address(loopback, n.plane.ports.scheduler)},
		"kubelet":                 {address(loopback, kubeletHealth)},
		"kube-proxy":              {address(loopback, proxyHealth), address(loopback, proxyMetrics)},
		"coredns":                 {address(loopback, dnsHealth)},
	}
	for name, addresses := range ports {
		if have, ok := n.supervisor().read(name); ok && have.alive() {
			continue
		}
		for _, taken := range addresses {
			listener, err := net.Listen("tcp", taken)
			if err != nil {
				return fmt.Errorf("%s needs the address %s: %w; stop what listens there (a cluster of another checkout?)", name, taken, err)
			}
			listener.Close()
		}
	}
	return nil
}

// sysctls are the settings that a node changes. devcluster sets the first ones, the kubelet the others.
var sysctls = []string{
	"net/ipv4/ip_forward", "vm/overcommit_memory", "vm/panic_on_oom",
	"kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// saveSysctls saves the machine's settings, which down restores, and enables forwarding. Bridged packets must pass the
// packet filter: otherwise a pod could not reach a Service whose endpoint is on the same bridge.
func (n node) saveSysctls() error {
	saved := n.state("sysctls.json")
	if _, err := os.Stat(saved); errors.Is(err, os.ErrNotExist) {
		values := map[string]string{}
		for _, name := range sysctls {
			if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
				values[name] = strings.TrimSpace(string(value))
			}
		}
		content, err := json.Marshal(values)
		if err != nil {
			return err
		}
		if err := writeFile(saved, string(content), 0o644); err != nil {
			return err
		}
	}
	_ = exec.Command("modprobe", "--all", "br_netfilter", "overlay").Run() // They are often built in.
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	err := os.WriteFile("/proc/sys/net/bridge/bridge-nf-call-iptables", []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return errors.New("this kernel has no br_netfilter module, which services need")
	}
	return err
}

func (n node) restoreSysctls() error {
	content, err := os.ReadFile(n.state("sysctls.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	values := map[string]string{}
	if err := json.Unmarshal(content, &values); err != nil {
		return err
	}
	for _, name := range sysctls {
		if value, ok := values[name]; ok {
			if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0); err != nil {
				return err
			}
		}
	}
	return os.Remove(n.state("sysctls.json"))
}

func (n node) applyAddons(ctx context.Context) error {
	_, err := n.plane.kubectl(ctx, "", "apply", "--server-side", "--field-manager=devcluster", "-f", n.conf("addons.yaml"))
	return err
}

// offerVolumes provides empty persistent volumes for claims without a storage class. Released volumes are emptied and
// reused.
func (n node) offerVolumes(ctx context.Context) error {
	phases, err := n.plane.kubectl(ctx, "", "get", "persistentvolumes", "--selector=devcluster=true",
		`--output=jsonpath={range .items[*]}{.metadata.name} {.status.phase}{"\n"}{end}`)
	if err != nil {
		return err
	}
	kept := map[string]bool{}
	for line := range strings.Lines(phases) {
		name, phase, _ := strings.Cut(strings.TrimSpace(line), " ")
		if phase != "Released" && phase != "Failed" {
			kept[name] = true
			continue
		}
		if _, err := n.plane.kubectl(ctx, "", "delete", "persistentvolume", name, "--timeout=30s"); err != nil {
			return err
		}
	}
	var manifests strings.Builder
	for i := range volumes {
		name := fmt.Sprintf("devcluster-%02d", i)
		if kept[name] {
			continue
		}
		dir := n.state("volumes", name)
		if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			return err
		}
		fmt.Fprintf(&manifests, volumeManifest, name, volumeCapacity, dir)
	}
	if manifests.Len() == 0 {
		return nil
	}
	_, err = n.plane.kubectl(ctx, manifests.String(), "apply", "--server-side", "--field-manager=devcluster", "-f", "-")
	return err
}

const volumeManifest = `---
apiVersion: v1
kind: PersistentVolume
metadata:
  name: %s
  labels: {devcluster: "true"}
spec:
  accessModes: [ReadWriteOnce, ReadWriteMany]
  capacity: {storage: %s}
  hostPath: {path: %q, type: Directory}
  persistentVolumeReclaimPolicy: Retain
`

func (n node) nodeReady(ctx context.Context) error {
	ready, err := n.plane.kubectl(ctx, "", "get", "node", nodeName, `--output=jsonpath={.status.conditions[?(@.type=="Ready")].status}: {.status.conditions[?(@.type=="Ready")].message}`)
	if err == nil && !strings.HasPrefix(ready, "True") {
		err = errors.New(ready)
	}
	return err
}

// resolvesService resolves a Service with the cluster's DNS, like a pod.
func resolvesService(ctx context.Context) error {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, net.JoinHostPort(nodeAddress, "53"))
	}}
	addresses, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
	if err == nil && (len(addresses) != 1 || addresses[0] != firstAddress(serviceCIDR)) {
		err = fmt.Errorf("kubernetes.default resolves to %v", addresses)
	}
	return err
}

// removeAll removes folders of the cluster. They must not contain mounts.
func removeAll(paths ...string) error {
	var failed error
	for _, path := range paths {
		if err := os.RemoveAll(filepath.Clean(path)); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}
