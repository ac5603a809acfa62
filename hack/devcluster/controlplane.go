package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// errCommandFailed marks the exit error of control-plane's command, which has printed its own error.
var errCommandFailed = errors.New("the command failed")

// controllers of the throwaway control plane: those for deletion, ownership, quotas, ServiceAccounts and aggregated roles.
// Workload controllers are omitted, so that tests can write the status of a Deployment.
var controllers = []string{
	"clusterrole-aggregation-controller",
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"garbage-collector-controller",
	"namespace-controller",
	"resourcequota-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
}

// controlPlane runs a command with a temporary control plane on loopback, which is stopped after the command. The command is
// ended too if a part of the control plane ends before. If USE_EXISTING_CLUSTER=true and KUBECONFIG is set, it only runs the command.
//
// Manifests is a file or folder of objects that are applied before the controllers start, or "". The garbage collector learns of CRDs
// that come later only after half a minute, and after minutes if other CRDs go away while it looks.
func controlPlane(p project, manifests string, argv []string) error {
	if len(argv) == 0 {
		return errors.New("control-plane needs a command: control-plane [--apply PATH] -- CMD [ARG...]")
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	if os.Getenv("USE_EXISTING_CLUSTER") == "true" && os.Getenv("KUBECONFIG") != "" {
		return runCommand(argv, nil, signals, nil)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	binary, err := controlPlaneBinaries(ctx, p)
	if err != nil {
		return err
	}
	sweep(p.state("control-planes"))
	t, err := startThrowaway(ctx, p, binary, manifests)
	if err != nil {
		return err
	}
	watching, endWatch := context.WithCancel(context.Background())
	defer endWatch()
	err = runCommand(argv, []string{"KUBECONFIG=" + t.plane.kubeconfig("admin"), "DEVCLUSTER_AUDIT_LOG=" + t.plane.auditLog}, signals,
		t.supervisor.watch(watching))
	stopComponent := t.supervisor.stop
	if err != nil && !errors.Is(err, errCommandFailed) {
		stopComponent = t.supervisor.kill // An API server without etcd takes its time to stop, and nothing of it is of use any more.
	}
	if endErr := t.end(stopComponent); endErr != nil {
		fmt.Fprintln(os.Stderr, "devcluster: ending the control plane:", endErr)
	}
	return err
}

// controlPlaneBinaries uses the binaries in KUBEBUILDER_ASSETS and builds missing ones.
func controlPlaneBinaries(ctx context.Context, p project) (func(string) string, error) {
	given := map[string]string{}
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager"} {
			path := filepath.Join(assets, name)
			if _, err := os.Stat(path); err == nil {
				given[name] = path
			} else if name == "kube-apiserver" {
				return nil, fmt.Errorf("KUBEBUILDER_ASSETS: %w", err)
			}
		}
	}
	var wanted []component
	for _, c := range []component{etcd, apiServer, controllerManager, kubectl} {
		if given[c.name] == "" {
			wanted = append(wanted, c)
			given[c.name] = p.binary(c.name)
		}
	}
	return func(name string) string { return given[name] }, buildAll(ctx, p, wanted...)
}

// throwaway is a running control plane in a temporary folder.
type throwaway struct {
	dir        string
	supervisor supervisor
	plane      plane
}

// startThrowaway retries if a component does not start: another process may have taken a port that was free.
func startThrowaway(ctx context.Context, p project, binary func(string) string, manifests string) (throwaway, error) {
	var failed error
	for range 3 {
		t, err := newThrowaway(p, binary)
		if err != nil {
			return t, err
		}
		if err = t.start(ctx, manifests); err == nil {
			return t, nil
		}
		failed = errors.Join(err, t.end(t.supervisor.stop))
		if ctx.Err() != nil {
			break
		}
	}
	return throwaway{}, failed
}

func newThrowaway(p project, binary func(string) string) (throwaway, error) {
	parent := p.state("control-planes")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return throwaway{}, err
	}
	dir, err := os.MkdirTemp(parent, "")
	if err != nil {
		return throwaway{}, err
	}
	ports, err := freePorts(4)
	if err != nil {
		return throwaway{}, err
	}
	t := throwaway{
		dir:        dir,
		supervisor: supervisor{runDir: filepath.Join(dir, "run"), logDir: filepath.Join(dir, "log")},
		plane: plane{
			binary:      binary,
			dir:         dir,
			pki:         pki{filepath.Join(dir, "pki")},
			serviceCIDR: "10.0.0.0/24",
			auditLog:    filepath.Join(dir, "audit.log"),
			auditPolicy: filepath.Join(dir, "audit-policy.yaml"),
			ports:       planePorts{api: ports[0], etcd: ports[1], etcdPeer: ports[2], controllerManager: ports[3]},
		},
	}
	start, _ := processStart(os.Getpid())
	owner, err := json.Marshal(record{PID: os.Getpid(), Start: start, Boot: bootID()})
	if err != nil {
		return t, err
	}
	return t, writeFile(filepath.Join(dir, "owner"), string(owner), 0o644)
}

func (t *throwaway) start(ctx context.Context, manifests string) error {
	if err := writeFile(t.plane.auditPolicy, embedded("audit-policy-control-plane.yaml"), 0o644); err != nil {
		return err
	}
	if err := t.plane.prepare(); err != nil {
		return err
	}
	for _, want := range []process{t.plane.etcd(), t.plane.apiServer("--profiling=true")} {
		if _, err := t.supervisor.ensure(ctx, want); err != nil {
			return err
		}
	}
	if manifests != "" {
		if _, err := t.plane.kubectl(ctx, "", "apply", "--server-side", "--field-manager=devcluster", "-f", manifests); err != nil {
			return err
		}
	}
	_, err := t.supervisor.ensure(ctx, t.plane.controllerManager("--controllers="+strings.Join(controllers, ",")))
	return err
}

// end stops each component of the control plane and removes its folder. Signals do not interrupt it.
func (t throwaway) end(stopComponent func(context.Context, string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var failed error
	for _, name := range []string{"kube-controller-manager", "kube-apiserver", "etcd"} {
		failed = errors.Join(failed, stopComponent(ctx, name))
	}
	if failed != nil {
		return failed
	}
	return os.RemoveAll(t.dir)
}

// sweep stops control planes whose devcluster process was killed.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, "*"))
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, "owner"))
		var owner record
		if err != nil || json.Unmarshal(content, &owner) != nil || owner.alive() {
			continue
		}
		t := throwaway{dir: dir, supervisor: supervisor{runDir: filepath.Join(dir, "run"), logDir: filepath.Join(dir, "log")}}
		if err := t.end(t.supervisor.stop); err != nil {
			fmt.Fprintln(os.Stderr, "devcluster: ending an abandoned control plane:", err)
		}
	}
}

// freePorts returns ports below those that the kernel gives outgoing connections, which could take one before the program listens that
// gets it.
func freePorts(count int) ([]int, error) {
	const first, others = 24000, 6000
	var ports []int
	for range others {
		listener, err := net.Listen("tcp", address(loopback, first+rand.IntN(others)))
		if err != nil {
			continue
		}
		defer listener.Close() // after the loop, so that no port is returned twice
		if ports = append(ports, listener.Addr().(*net.TCPAddr).Port); len(ports) == count {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("fewer than %d ports from %d are free", count, first)
}

// runCommand runs a command in the foreground and forwards signals to it, except for interrupts from a terminal, which the
// command receives itself. It ends the command with the first error of broken.
func runCommand(argv, environment []string, signals <-chan os.Signal, broken <-chan error) error {
	command := exec.Command(argv[0], argv[1:]...)
	command.Env = append(os.Environ(), environment...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	for {
		select {
		case err := <-broken:
			_ = command.Process.Signal(syscall.SIGTERM)
			return fmt.Errorf("the command was ended (%w): %w", <-done, err)
		case err := <-done:
			if err != nil {
				return errors.Join(errCommandFailed, err)
			}
			return nil
		case received := <-signals:
			if received == syscall.SIGTERM || !hasTerminal() {
				_ = command.Process.Signal(received)
			}
		}
	}
}

func hasTerminal() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	return terminal.Close() == nil
}
