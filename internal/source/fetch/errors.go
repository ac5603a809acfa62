package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// Reason is the CamelCase reason for which a fetch failed. It can be used as the reason of a condition.
type Reason string

const (
	// InvalidURL: the URL cannot be used as it is. Terminal.
	InvalidURL Reason = "InvalidURL"
	// NotFound: the server answered 404 or 410. Retry slowly: the archive may be published later.
	NotFound Reason = "NotFound"
	// Unauthorized: the server answered 401, 403 or 407. Retry slowly: the credentials may be replaced.
	Unauthorized Reason = "Unauthorized"
	// Rejected: the server answered with another status that is neither success nor its own failure. Terminal.
	Rejected Reason = "Rejected"
	// ServerError: the server answered 5xx, 408 or 429.
	ServerError Reason = "ServerError"
	// Unreachable: the server's name cannot be resolved, it refuses connections, or they break.
	Unreachable Reason = "Unreachable"
	// UntrustedServer: the TLS connection failed, most often because of the server's certificate.
	UntrustedServer Reason = "UntrustedServer"
	// RedirectRefused: there are too many redirects, or a redirect is not allowed. Terminal.
	RedirectRefused Reason = "RedirectRefused"
	// URLForbidden: the URL, or one that the server redirects to, is not below an allowed prefix. Terminal.
	URLForbidden Reason = "URLForbidden"
	// AddressForbidden: the host, or one that it redirects to, resolves to an address that is not allowed. Retry slowly: the
	// address may change.
	AddressForbidden Reason = "AddressForbidden"
	// TooLarge: the archive is larger than allowed. Terminal.
	TooLarge Reason = "TooLarge"
	// Truncated: the connection ended before the whole archive had arrived.
	Truncated Reason = "Truncated"
	// Timeout: the server or the transfer is too slow.
	Timeout Reason = "Timeout"
	// Canceled: the caller canceled the fetch.
	Canceled Reason = "Canceled"
	// StorageFailed: the archive could not be written to local storage.
	StorageFailed Reason = "StorageFailed"
)

// ErrNotModified reports that the server still has the archive that the caller knows.
var ErrNotModified = errors.New("the archive has not changed")

// Error reports why a fetch failed. Its text is the same for every attempt with the same cause. It contains no credentials,
// no query or user of a URL, and no addresses or ports of connections.
type Error struct {
	Reason Reason
	// Retryable is false if only a change of the request can resolve the error.
	Retryable bool
	// URL is the requested URL without user, query and fragment. It may be empty.
	URL string
	// Detail describes the error.
	Detail string
	// Err is the cause, for errors.Is. Do not print it: its text may contain addresses and credentials.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.URL == "" {
		return "fetch: " + e.Detail
	}
	return fmt.Sprintf("fetch %s: %s", e.URL, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func failure(reason Reason, detail string, err error) *Error {
	retryable := true
	switch reason {
	case InvalidURL, Rejected, RedirectRefused, URLForbidden, TooLarge:
		retryable = false
	}
	return &Error{Reason: reason, Retryable: retryable, Detail: detail, Err: err}
}

// statusFailure returns the error for a status that is neither 200 nor a redirect.
func statusFailure(code int) *Error {
	answer := fmt.Sprintf("the server answered %d %s", code, http.StatusText(code))
	switch {
	case code == http.StatusNotFound, code == http.StatusGone:
		return failure(NotFound, answer, nil)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return failure(Unauthorized, answer+"; check the credentials", nil)
	case code >= 500, code == http.StatusRequestTimeout, code == http.StatusTooManyRequests:
		return failure(ServerError, answer, nil)
	default:
		return failure(Rejected, answer+", where 200 OK is needed", nil)
	}
}

// connectionFailure describes a transport error. The original text is never used: it contains addresses, ports and times
// that change with each attempt, and data of an untrusted server.
func connectionFailure(err error) *Error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return failure(Canceled, "canceled", err)
	case errors.As(err, &dns) && dns.IsNotFound:
		return failure(Unreachable, fmt.Sprintf("the host name %q does not exist", dns.Name), err)
	case errors.As(err, &dns):
		return failure(Unreachable, fmt.Sprintf("the host name %q cannot be resolved now", dns.Name), err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.ETIMEDOUT), errors.As(err, &timeout) && timeout.Timeout():
		return failure(Timeout, "the server did not answer in time", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return failure(Unreachable, "connection refused", err)
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return failure(Unreachable, "no route to the server", err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failure(Unreachable, "the server closed the connection", err)
	}
	if remote := (*net.OpError)(nil); errors.As(err, &remote) && remote.Op == "remote error" {
		return failure(Unauthorized, "the server refused the TLS handshake; check whether it wants a client certificate, "+
			"and accepts the one in the credentials", err)
	}
	if detail := tlsDetail(err); detail != "" {
		return failure(UntrustedServer, detail, err)
	}
	return failure(Unreachable, "the connection failed or the server's answer is not valid HTTP", err)
}

func tlsDetail(err error) string {
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &authority):
		return "the server's certificate is signed by an authority that is not trusted here"
	case errors.As(err, &host):
		return "the server's certificate is for another host name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate has expired or is not valid yet"
	case errors.As(err, &invalid), errors.As(err, &verification):
		return "the server's certificate is not valid"
	case errors.As(err, &record):
		return "the server does not speak TLS on this port"
	case errors.As(err, &alert):
		return "the TLS handshake failed"
	}
	return ""
}

// bodyFailure returns the error for a failed transfer.
func bodyFailure(err error) *Error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return failure(Truncated, "the connection ended before the whole archive had arrived", err)
	}
	switch connectionFailure(err).Reason {
	case Canceled:
		return failure(Canceled, "canceled", err)
	case Timeout:
		return failure(Timeout, "the transfer of the archive took too long", err)
	}
	return failure(Truncated, "the transfer of the archive failed", err)
}

// redact returns a URL without user, query and fragment.
func redact(u *url.URL) string { return printable.URL(u) }
