// Package fetch downloads an archive over HTTP into a temporary file, bounded in size, time and redirects, and hashes
// it on the way. Servers are treated as hostile.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
)

// Defaults of a Fetcher's limits.
const (
	DefaultMaxBytes      int64 = 512 << 20
	DefaultTimeout             = 10 * time.Minute
	DefaultHeaderTimeout       = 30 * time.Second
	DefaultMaxRedirects        = 5
)

// Credentials authenticate at the host of the requested URL, and at no other host that it redirects to. The bearer
// token is used if it is set, else user name and password if there is a user name.
type Credentials struct {
	BearerToken string
	Username    string
	Password    string
}

func (c Credentials) empty() bool { return c.BearerToken == "" && c.Username == "" }

// Request says what to fetch. A user and password in the URL are used if there are no Credentials.
type Request struct {
	URL         string
	Credentials Credentials
}

// Fetcher fetches archives. Limits that are zero have the defaults of this package. It is safe for concurrent use as long
// as its fields do not change.
type Fetcher struct {
	// MaxBytes bounds the archive.
	MaxBytes int64
	// Timeout bounds the whole fetch with all redirects.
	Timeout time.Duration
	// HeaderTimeout bounds connecting, the TLS handshake and the wait for the response's header, each by itself.
	HeaderTimeout time.Duration
	// MaxRedirects bounds the redirects that are followed; negative means none.
	MaxRedirects int
	// NoProxy ignores the proxy settings of the environment, for servers inside the cluster.
	NoProxy bool
	// Control, if set, may refuse an address before it is connected to, as in net.Dialer.
	Control func(network, address string, conn syscall.RawConn) error
}

// File is a fetched archive.
type File struct {
	// Path is where the archive lies.
	Path string
	// Digest is "sha256:" and the lower-case hexadecimal sha256 of the archive.
	Digest string
	// Size is in bytes.
	Size int64
}

// Remove deletes the file, if it is still where the fetch left it.
func (f *File) Remove() error {
	if err := os.Remove(f.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove fetched archive: %w", err)
	}
	return nil
}

// Fetch downloads an archive into a new file in dir; the caller removes the file. It fails with *Error, and leaves
// no file then.
func (f *Fetcher) Fetch(ctx context.Context, request Request, dir string) (*File, error) {
	from, credentials, err := parse(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(f.Timeout, DefaultTimeout))
	defer cancel()
	transport := f.transport()
	defer transport.CloseIdleConnections()

	response, err := f.get(ctx, transport, from, credentials)
	if err != nil {
		return nil, at(from, err)
	}
	defer response.Body.Close()
	file, err := Save(response.Body, orDefault(f.MaxBytes, DefaultMaxBytes), dir)
	if err != nil {
		return nil, at(from, err)
	}
	return file, nil
}

// Save writes what it reads into a new file in dir and hashes it. It fails with *Error, and leaves no file then;
// a read error counts as a broken transfer.
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
	hash := sha256.New()
	source := &tracked{r: io.LimitReader(r, maxBytes+1)}
	size, err := io.Copy(io.MultiWriter(temporary, hash), source)
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
	return &File{Path: temporary.Name(), Digest: "sha256:" + hex.EncodeToString(hash.Sum(nil)), Size: size}, nil
}

// get follows redirects by itself, because credentials, referrers and messages then are only what is written here.
func (f *Fetcher) get(ctx context.Context, transport http.RoundTripper, from *url.URL, credentials Credentials) (*http.Response, error) {
	left := f.MaxRedirects
	if left == 0 {
		left = DefaultMaxRedirects
	}
	for current := from; ; left-- {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, current.String(), nil)
		if err != nil {
			return nil, failure(InvalidURL, "the URL is not valid", err)
		}
		request.Header.Set("User-Agent", "collection-operator")
		if sameHost(from, current) {
			credentials.apply(request)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, connectionFailure(err)
		}
		if response.StatusCode == http.StatusOK {
			if maxBytes := orDefault(f.MaxBytes, DefaultMaxBytes); response.ContentLength > maxBytes {
				response.Body.Close()
				return nil, tooLarge(maxBytes)
			}
			return response, nil
		}
		response.Body.Close()
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

// sameHost also holds for a change from http to https on the default ports.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && a.Port() == b.Port()
}

func (c Credentials) apply(request *http.Request) {
	switch {
	case c.BearerToken != "":
		request.Header.Set("Authorization", "Bearer "+c.BearerToken)
	case c.Username != "":
		request.SetBasicAuth(c.Username, c.Password)
	}
}

func parse(request Request) (*url.URL, Credentials, error) {
	u, err := url.Parse(request.URL)
	if err != nil {
		return nil, Credentials{}, failure(InvalidURL, "the URL is not valid", err)
	}
	credentials := request.Credentials
	if credentials.empty() && u.User != nil {
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

func checkURL(u *url.URL) error {
	if u.Scheme != "http" && u.Scheme != "https" {
		return failure(InvalidURL, fmt.Sprintf("the URL's scheme is %q; only https and http are supported", u.Scheme), nil)
	}
	if u.Hostname() == "" {
		return failure(InvalidURL, "the URL names no host", nil)
	}
	return nil
}

func (f *Fetcher) transport() *http.Transport {
	step := orDefault(f.HeaderTimeout, DefaultHeaderTimeout)
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: step, Control: f.Control}).DialContext,
		TLSHandshakeTimeout:    step,
		ResponseHeaderTimeout:  step,
		MaxResponseHeaderBytes: 64 << 10,
		DisableKeepAlives:      true,
		// The digest is that of the bytes as published, whatever encoding the server claims for them.
		DisableCompression: true,
	}
	if f.NoProxy {
		transport.Proxy = nil
	}
	return transport
}

// at notes the requested URL in an error.
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

// tracked remembers the error of reading, to tell it from one of writing.
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
