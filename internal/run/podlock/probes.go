package podlock

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// AcquireWithProbes acquires the lock, and until then answers probes at address: /healthz with 200, and /readyz with 503. The
// port is free when it returns.
func AcquireWithProbes(ctx context.Context, lock Lock, address string) error {
	stopProbes, err := serveProbes(ctx, address)
	if err != nil {
		return err
	}
	defer stopProbes()
	return lock.Acquire(ctx, func(reason string) { fmt.Fprintln(os.Stderr, "lock: waiting:", reason) })
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
