package apiserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// supervise runs etcd and kube-apiserver in a folder, and ends them and removes the folder when file descriptor 3 ends. The process of
// the tests has the other end of it, so they end with that process, however it ends. They are not its children: the engine kills all of its own.
const supervise = `cd "$1"
(
	"$2" --data-dir=etcd --listen-client-urls="unix://$1/etcd.sock" --listen-peer-urls=http://127.0.0.1:0 \
		--advertise-client-urls=http://127.0.0.1:1 --unsafe-no-fsync --log-level=warn >etcd.log 2>&1 &
	etcd=$!
	shift 2
	"$@" >kube-apiserver.log 2>&1 &
	read -r _ <&3 || true
	kill -KILL $etcd $!
	wait
	rm -rf "$PWD"
) </dev/null >/dev/null 2>&1 &`

// arguments of kube-apiserver. What no test needs is left out: it takes time at the start. A list waits for the watch cache, up to 100
// milliseconds, until etcd has told it that it is not behind.
var arguments = []string{
	"--bind-address=127.0.0.1", "--permit-port-sharing",
	"--tls-cert-file=certificate", "--tls-private-key-file=key",
	"--service-account-key-file=key", "--service-account-signing-key-file=key", "--service-account-issuer=https://kubernetes.default.svc",
	"--token-auth-file=tokens",
	"--authorization-mode=RBAC",
	"--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
	"--service-cluster-ip-range=10.0.0.0/24",
	"--endpoint-reconciler-type=none",
	"--enable-priority-and-fairness=false",
	"--allow-privileged",
	"--watch-cache=false",
	"--profiling=false",
}

// kept are open for as long as this process lives: the supervisor's pipe, and the reservation of a port.
var kept []*os.File

// start starts the programs in a folder, and returns the configuration of an administrator once the API server is ready.
func start(binaries string) (*rest.Config, error) {
	etcd, err := find(binaries, "etcd")
	if err != nil {
		return nil, err
	}
	server, err := find(binaries, "kube-apiserver")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "apiserver-")
	if err != nil {
		return nil, err
	}
	address, err := reservePort()
	if err != nil {
		return nil, err
	}
	config := &rest.Config{Host: fmt.Sprintf("https://%s", address), BearerToken: rand.Text(), QPS: -1, WarningHandler: rest.NoWarnings{}}
	if err := prepare(dir, config); err != nil {
		return nil, err
	}
	command := exec.Command("/bin/sh", append([]string{
		"-euc", supervise, "sh", dir, etcd, server, "--etcd-servers=unix://" + filepath.Join(dir, "etcd.sock"), fmt.Sprintf("--secure-port=%d", address.Port),
	}, arguments...)...)
	command.Env = append(os.Environ(), "GOGC=off", "GOMEMLIMIT=1GiB") // It takes less of the processor, and more memory.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	kept, command.ExtraFiles = append(kept, writer), []*os.File{reader}
	if err := errors.Join(command.Run(), reader.Close()); err != nil {
		return nil, err
	}
	return config, awaitReady(config, dir)
}

// find returns the path of a program: in KUBEBUILDER_ASSETS, or else in a folder.
func find(folder, name string) (string, error) {
	for _, path := range []string{filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name), filepath.Join(folder, name)} {
		if _, err := os.Stat(path); err == nil && filepath.IsAbs(path) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is %w", name, errNotBuilt)
}

// reservePort returns a port of loopback that no other process gets, except for one that shares it.
func reservePort() (*net.TCPAddr, error) {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	kept = append(kept, os.NewFile(uintptr(socket), "port"))
	address := unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	if err := errors.Join(unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1), unix.Bind(socket, &address)); err != nil {
		return nil, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return nil, err
	}
	return &net.TCPAddr{IP: address.Addr[:], Port: bound.(*unix.SockaddrInet4).Port}, nil
}

// prepare writes a key, which is also that of ServiceAccounts, its certificate, and the token of the administrator.
func prepare(dir string, config *rest.Config) error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	config.CAData = certificate
	for name, content := range map[string][]byte{
		"certificate": certificate, "key": key, "tokens": []byte(config.BearerToken + ",admin,admin,system:masters\n"),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return err
}

func awaitReady(config *rest.Config, dir string) error {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	var last string
	err = wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, 5*time.Minute, true, func(context.Context) (bool, error) {
		response, err := client.Get(config.Host + "/readyz")
		if err != nil {
			last = err.Error()
			return false, nil //nolint:nilerr // The next attempt may succeed.
		}
		last = response.Status
		return response.StatusCode == http.StatusOK, response.Body.Close()
	})
	if err == nil {
		return nil
	}
	log, _ := os.ReadFile(filepath.Join(dir, "kube-apiserver.log")) // It may not have begun.
	return fmt.Errorf("%w: %s\n%s", err, last, log[max(0, len(log)-2000):])
}
