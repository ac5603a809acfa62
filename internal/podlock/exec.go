package podlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Exec acquires the lock and replaces this process by the command. Until then it answers probes at address: /healthz with
// 200, and /readyz with 503. It only returns if that fails: with ErrDeleted if the pod is to end, or with the error of ctx after
// SIGTERM or an interrupt.
func Exec(ctx context.Context, lock Lock, address string, command []string) error {
	if len(command) == 0 {
		return errors.New("no command is given")
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	ctx, stopNotify := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	stopProbes, err := serveProbes(ctx, address)
	if err != nil {
		return err
	}
	err = lock.Acquire(ctx, func(reason string) { fmt.Fprintln(os.Stderr, "lock: waiting:", reason) })
	stopProbes()
	stopNotify()
	// When Stop returns, an earlier signal is in the channel. A later one ends this process, or the command.
	signal.Stop(ended)
	if err != nil {
		return err
	}
	if len(ended) > 0 {
		return context.Canceled
	}
	return syscall.Exec(path, command, os.Environ())
}

// serveProbes serves until stop is called, which frees the port.
func serveProbes(ctx context.Context, address string) (stop func(), err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "another pod of this operator has not ended", http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }()
	return func() { _ = server.Close() }, nil
}
