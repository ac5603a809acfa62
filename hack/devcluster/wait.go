package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// waitFor calls check until it returns nil, ctx ends, or the limit has passed. Then it returns an error with the last error
// of check.
func waitFor(ctx context.Context, what string, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		var permanent permanentError
		if errors.As(err, &permanent) {
			return fmt.Errorf("waiting for %s: %w", what, permanent.error)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %w)", what, context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}

// await waits until a channel is closed.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// permanentError aborts waitFor.
type permanentError struct{ error }

// answersOK returns a check that succeeds if url returns 200, over HTTP, or HTTPS with the given authority. It does not use
// a proxy.
func answersOK(url string, roots *x509.CertPool) func(context.Context) error {
	client := &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// accepts returns a check that succeeds if the address accepts connections.
func accepts(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := (&net.Dialer{Timeout: 3 * time.Second}).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return connection.Close()
	}
}
