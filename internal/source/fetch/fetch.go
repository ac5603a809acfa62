// Package fetch downloads an archive over HTTP into a temporary file, with limits on size, time and redirects, and computes
// its digest. Servers are not trusted.
package fetch

import (
	"cmp"
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
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
)

// Defaults of a Fetcher's limits.
const (
	DefaultMaxBytes      int64 = 512 << 20
	DefaultTimeout             = 10 * time.Minute
	DefaultHeaderTimeout       = 30 * time.Second
	DefaultMaxRedirects        = 5
)

// Request describes what to fetch. A user and password in the URL are used if the Credentials have neither token nor user
// name.
type Request struct {
	URL         string
	Credentials Credentials
	// Known are the validators of the archive that the caller already has. If the server still has that one, the fetch fails
	// with [ErrNotModified].
	Known Validators
}

// Fetcher fetches archives. Limits that are zero have the defaults of this package. It is safe for concurrent use.
type Fetcher struct {
	// MaxBytes is the maximum size of an archive.
	MaxBytes int64
	// Timeout of the whole fetch, including redirects.
	Timeout time.Duration
	// HeaderTimeout limits connecting, the TLS handshake and waiting for the response header, each separately.
	HeaderTimeout time.Duration
	// MaxRedirects is the maximum number of redirects. Negative means none.
	MaxRedirects int
	// Proxy, if set, chooses the proxy for a URL, as in http.Transport.
	Proxy func(*http.Request) (*url.URL, error)
	// Authorities, if set, returns certificate authorities to trust in addition to those of the system and of the credentials.
	Authorities func() []*x509.Certificate
	// Control, if set, may reject an address before connecting to it, as in net.Dialer. It is not called for a proxy, which
	// connects to the server itself.
	Control func(network, address string, conn syscall.RawConn) error
	// Allowed, if not empty, restricts the URLs that are requested, including redirects.
	Allowed AllowList
}

// File is a fetched archive.
type File struct {
	// Path of the downloaded file.
	Path string
	// Digest of the archive, a sha256.
	Digest digest.Digest
	// Size is in bytes.
	Size int64
	// Validators are the server's validators for the archive, for a later [Request].
	Validators Validators
}

// Remove deletes the file, if it still exists.
func (f *File) Remove() error {
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove fetched archive: %w", err)
	}
	return nil
}

// Fetch downloads an archive into a new file in dir, which the caller must remove. It fails with *Error or [ErrNotModified],
// and then leaves no file.
func (f *Fetcher) Fetch(ctx context.Context, request Request, dir string) (*File, error) {
	from, credentials, err := parse(request)
	if err != nil {
		return nil, err
	}
	request.Credentials = credentials
	ctx, cancel := context.WithTimeout(ctx, orDefault(f.Timeout, DefaultTimeout))
	defer cancel()
	response, err := f.get(ctx, from, request)
	if err != nil {
		return nil, at(from, err)
	}
	defer response.Body.Close()
	file, err := Save(response.Body, orDefault(f.MaxBytes, DefaultMaxBytes), dir)
	if err != nil {
		return nil, at(from, err)
	}
	file.Validators = validatorsOf(response.Header)
	return file, nil
}

// Save writes the data of r into a new file in dir and computes its digest. It fails with *Error, and then leaves no file. A
// read error is reported as a failed transfer.
func Save(r io.Reader, maxBytes int64, dir string) (file *File, err error) {
	temporary, err := os.CreateTemp(dir, "archive-*.tmp")
	if err != nil {
		return nil, failure(StorageFailed, "the archive cannot be stored", err)
	}
	defer func() {
		closeErr := temporary.Close()
		if err == nil && closeErr != nil {
			err = failure(StorageFailed, "the archive cannot be stored", closeErr)
		}
		if err != nil {
			file = nil
			_ = os.Remove(temporary.Name())
		}
	}()
	digester := digest.SHA256.Digester()
	source := &tracked{r: io.LimitReader(r, maxBytes+1)}
	size, err := io.Copy(io.MultiWriter(temporary, digester.Hash()), source)
	switch {
	case source.err != nil:
		return nil, bodyFailure(source.err)
	case err != nil:
		return nil, failure(StorageFailed, "the archive cannot be stored", err)
	case size > maxBytes:
		return nil, tooLarge(maxBytes)
	}
	if err := temporary.Sync(); err != nil {
		return nil, failure(StorageFailed, "the archive cannot be stored", err)
	}
	return &File{Path: temporary.Name(), Digest: digester.Digest(), Size: size}, nil
}

// get sends the request and follows redirects. It does not use the redirects of http.Client, which may send credentials and
// referrers to other hosts.
func (f *Fetcher) get(ctx context.Context, from *url.URL, request Request) (*http.Response, error) {
	left := f.MaxRedirects
	if left == 0 {
		left = DefaultMaxRedirects
	}
	for current := from; ; left-- {
		if !f.Allowed.allows(current) {
			return nil, notAllowed(from, current)
		}
		response, err := f.ask(ctx, current, request, sameHost(from, current))
		if err != nil {
			return nil, err
		}
		if response.StatusCode == http.StatusOK {
			if maxBytes := orDefault(f.MaxBytes, DefaultMaxBytes); response.ContentLength > maxBytes {
				response.Body.Close()
				return nil, tooLarge(maxBytes)
			}
			return response, nil
		}
		response.Body.Close()
		if response.StatusCode == http.StatusNotModified && !request.Known.empty() {
			return nil, ErrNotModified
		}
		if !isRedirect(response.StatusCode) {
			return nil, statusFailure(response.StatusCode)
		}
		if left <= 0 {
			return nil, failure(RedirectRefused, "the server redirects too often", nil)
		}
		if current, err = redirect(current, response.Header.Get("Location")); err != nil {
			return nil, err
		}
	}
}

// ask sends one request on its own connection. Credentials are only sent if authenticate is set.
func (f *Fetcher) ask(ctx context.Context, to *url.URL, request Request, authenticate bool) (*http.Response, error) {
	outgoing, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, failure(InvalidURL, "the URL is not valid", err)
	}
	outgoing.Header.Set("User-Agent", "collection-operator")
	request.Known.apply(outgoing.Header)
	transport := f.transport()
	transport.TLSClientConfig.RootCAs = f.trusted(request.Credentials.Authorities)
	if authenticate {
		request.Credentials.apply(outgoing)
		transport.TLSClientConfig.Certificates = request.Credentials.Certificates
	}
	if err := f.useProxy(transport, outgoing); err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(outgoing)
	var refused *dialguard.Error
	if errors.As(err, &refused) {
		return nil, failure(AddressForbidden, fmt.Sprintf("the host %q has %s", to.Hostname(), refused), err)
	}
	if err != nil {
		return nil, connectionFailure(err)
	}
	return response, nil
}

func redirect(from *url.URL, location string) (*url.URL, error) {
	to, err := from.Parse(location)
	if location == "" || err != nil {
		return nil, failure(RedirectRefused, "the server redirects to an invalid URL", err)
	}
	to.User, to.Fragment = nil, ""
	if err := checkURL(to); err != nil {
		return nil, failure(RedirectRefused, "the server redirects to an invalid URL", err)
	}
	if from.Scheme == "https" && to.Scheme != "https" {
		return nil, failure(RedirectRefused, "the server redirects from https to http", nil)
	}
	return to, nil
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// sameHost reports whether two URLs have the same host and port. A change from http to https on the default ports is
// allowed.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && a.Port() == b.Port()
}

func parse(request Request) (*url.URL, Credentials, error) {
	u, err := url.Parse(request.URL)
	if err != nil {
		return nil, Credentials{}, failure(InvalidURL, "the URL is not valid", err)
	}
	credentials := request.Credentials
	if credentials.BearerToken == "" && credentials.Username == "" && u.User != nil {
		credentials.Username = u.User.Username()
		credentials.Password, _ = u.User.Password()
	}
	u.User, u.Fragment = nil, ""
	if err := checkURL(u); err != nil {
		return nil, Credentials{}, at(u, err)
	}
	if strings.ContainsFunc(credentials.BearerToken, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, Credentials{}, at(u, failure(Unauthorized, "the bearer token holds spaces or line breaks; check the credentials", nil))
	}
	return u, credentials, nil
}

func (f *Fetcher) transport() *http.Transport {
	step := orDefault(f.HeaderTimeout, DefaultHeaderTimeout)
	return &http.Transport{
		DialContext:            (&net.Dialer{Timeout: step, Control: f.Control}).DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    step,
		ResponseHeaderTimeout:  step,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		// The digest is computed over the bytes as published, independent of the content encoding.
		DisableCompression: true,
	}
}

// trusted returns a pool with the authorities of the credentials, or nil for those of the system, and those of the fetcher.
func (f *Fetcher) trusted(pool *x509.CertPool) *x509.CertPool {
	if f.Authorities == nil {
		return pool
	}
	added := f.Authorities()
	if len(added) == 0 {
		return pool
	}
	if pool == nil {
		pool = systemPool()
	} else {
		pool = pool.Clone()
	}
	for _, certificate := range added {
		pool.AddCert(certificate)
	}
	return pool
}

// useProxy configures the transport for the proxy that the administrator has set for the request, if any. A proxy may have
// any address.
func (f *Fetcher) useProxy(transport *http.Transport, request *http.Request) error {
	if f.Proxy == nil {
		return nil
	}
	proxy, err := f.Proxy(request)
	if err != nil {
		return failure(Unreachable, "the manager's proxy settings are not valid", err)
	}
	if proxy == nil {
		return nil
	}
	dialer := &net.Dialer{Timeout: transport.TLSHandshakeTimeout}
	transport.DialContext = dialer.DialContext
	if proxy.Scheme == "https" {
		// Otherwise the transport would present the client certificate to the proxy.
		transport.DialContext = (&tls.Dialer{NetDialer: dialer}).DialContext
		proxy = &url.URL{Scheme: "http", User: proxy.User, Host: net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), "443"))}
	}
	transport.Proxy = http.ProxyURL(proxy)
	return nil
}

// at sets the requested URL in an error.
func at(u *url.URL, err error) error {
	var own *Error
	if errors.As(err, &own) {
		own.URL = redact(u)
	}
	return err
}

func tooLarge(maxBytes int64) *Error {
	return failure(TooLarge, fmt.Sprintf("the archive is larger than %d bytes", maxBytes), nil)
}

func orDefault[T int64 | time.Duration](value, otherwise T) T {
	if value <= 0 {
		return otherwise
	}
	return value
}

// tracked records read errors, to distinguish them from write errors.
type tracked struct {
	r   io.Reader
	err error
}

func (t *tracked) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if err != nil && err != io.EOF {
		t.err = err
	}
	return n, err
}
