package fetch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

// systemAuthority is the only one that the system trusts during the tests.
var systemAuthority *authority

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "fetch")
	if err == nil {
		systemAuthority, err = newAuthority("system")
	}
	file := filepath.Join(dir, "ca.crt")
	if err == nil {
		err = os.WriteFile(file, systemAuthority.pem, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Setenv("SSL_CERT_FILE", file)
	os.Setenv("SSL_CERT_DIR", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &authority{certificate: certificate, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

func private(t *testing.T) *authority {
	t.Helper()
	a, err := newAuthority("private")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue returns a certificate for loopback, for servers and clients, and its key in PEM.
func (a *authority) issue(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	der8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der8})
}

// secret returns the data of a Secret with a client certificate, the trusted authority, and additional keys.
func (a *authority) secret(t *testing.T, trusted *authority, more ...string) map[string][]byte {
	t.Helper()
	certificate, key := a.issue(t)
	data := map[string][]byte{"tls.crt": certificate, "tls.key": key, "ca.crt": trusted.pem}
	for i := 0; i+1 < len(more); i += 2 {
		data[more[i]] = []byte(more[i+1])
	}
	return data
}

func credentials(t *testing.T, data map[string][]byte) Credentials {
	t.Helper()
	c, err := ParseCredentials(data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveTLS requires client certificates of the same authority.
func (a *authority) serveTLS(t *testing.T, auth tls.ClientAuthType, handler http.HandlerFunc) string {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	// Up to TLS 1.2 a certificate is rejected during the handshake. With later versions, the error may arrive too late.
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: auth, ClientCAs: pool, MaxVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

func wantReason(t *testing.T, err error, want Reason) {
	t.Helper()
	var failed *Error
	if want == "" && err != nil || want != "" && (!errors.As(err, &failed) || failed.Reason != want) {
		t.Errorf("got %v, want reason %q", err, want)
	}
}

func TestServersAndClientsProveThemselves(t *testing.T) {
	own, other := private(t), private(t)
	closed := own.serveTLS(t, tls.RequireAndVerifyClientCert, ok)
	open := own.serveTLS(t, tls.NoClientCert, ok)
	public := systemAuthority.serveTLS(t, tls.NoClientCert, ok)
	for name, test := range map[string]struct {
		url    string
		secret map[string][]byte
		want   Reason
	}{
		"client certificate and authority":          {url: closed, secret: own.secret(t, own)},
		"client certificate, authority and a token": {url: closed, secret: own.secret(t, own, "token", "t0ken")},
		"no client certificate":                     {closed, map[string][]byte{"ca.crt": own.pem}, Unauthorized},
		"client certificate of another authority":   {closed, other.secret(t, own), Unauthorized},
		"another authority":                         {closed, own.secret(t, other), UntrustedServer},
		"authority alone":                           {url: open, secret: map[string][]byte{"ca.crt": own.pem}},
		"one of two authorities":                    {url: open, secret: map[string][]byte{"ca.crt": append(other.pem, own.pem...)}},
		"only the system's authorities":             {open, map[string][]byte{"token": []byte("t0ken")}, UntrustedServer},
		"authority beside the system's":             {url: public, secret: map[string][]byte{"ca.crt": own.pem}},
		"nothing to prove":                          {url: public, secret: own.secret(t, own)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file, err := (&Fetcher{}).Fetch(t.Context(), Request{URL: test.url, Credentials: credentials(t, test.secret)}, dir)
			wantReason(t, err, test.want)
			if file != nil {
				file.Remove()
			}
			mustBeEmpty(t, dir)
		})
	}
}

// seen is what a server has received from a client.
type seen struct {
	authorization string
	certificates  int
}

// witness serves archives and records each request.
type witness struct {
	mu   sync.Mutex
	seen []seen
}

func (w *witness) note(r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := seen{authorization: r.Header.Get("Authorization") + r.Header.Get("Proxy-Authorization")}
	if r.TLS != nil {
		s.certificates = len(r.TLS.PeerCertificates)
	}
	w.seen = append(w.seen, s)
}

func (w *witness) take() []seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.seen
	w.seen = nil
	return all
}

func TestNoCredentialCrossesARedirectToAnotherHost(t *testing.T) {
	own := private(t)
	var at, away witness
	elsewhere := own.serveTLS(t, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		away.note(r)
		ok(w, r)
	})
	var origin string
	origin = own.serveTLS(t, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		at.note(r)
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		case "/name":
			http.Redirect(w, r, strings.Replace(origin, "127.0.0.1", "localhost", 1), http.StatusFound)
		case "/around":
			http.Redirect(w, r, "/here", http.StatusFound)
		default:
			ok(w, r)
		}
	})
	all := seen{"Bearer t0ken", 1}
	for path, test := range map[string]struct{ at, away []seen }{
		"/here":   {at: []seen{all}},
		"/around": {at: []seen{all, all}},
		"/away":   {at: []seen{all}, away: []seen{{}}},
		"/name":   {at: []seen{all, {}}},
	} {
		t.Run(path, func(t *testing.T) {
			request := Request{URL: origin + path, Credentials: credentials(t, own.secret(t, own, "token", "t0ken"))}
			file, err := (&Fetcher{}).Fetch(t.Context(), request, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			file.Remove()
			if got := at.take(); fmt.Sprint(got) != fmt.Sprint(test.at) {
				t.Errorf("the host saw %v, want %v", got, test.at)
			}
			if got := away.take(); fmt.Sprint(got) != fmt.Sprint(test.away) {
				t.Errorf("the other host saw %v, want %v", got, test.away)
			}
		})
	}
}

// tunnel is a proxy that connects to any address.
func tunnel(witness *witness) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		witness.note(r)
		server, err := net.Dial("tcp", r.Host)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer server.Close()
		client, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(server, buffered) }()
		_, _ = io.Copy(client, server)
	}
}

func TestProxy(t *testing.T) {
	own := private(t)
	var at, between witness
	server := own.serveTLS(t, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		at.note(r)
		ok(w, r)
	})
	refuse := func(string, string, syscall.RawConn) error { return errors.New("not this address") }
	for name, proxy := range map[string]string{
		"http":                         serve(t, tunnel(&between)),
		"https of a trusted authority": systemAuthority.serveTLS(t, tls.RequestClientCert, tunnel(&between)),
	} {
		t.Run(name, func(t *testing.T) {
			parsed, err := url.Parse(strings.Replace(proxy, "://", "://me:hush@", 1))
			if err != nil {
				t.Fatal(err)
			}
			fetcher := &Fetcher{Proxy: http.ProxyURL(parsed), Control: refuse}
			request := Request{URL: server, Credentials: credentials(t, own.secret(t, own, "token", "t0ken"))}
			file, err := fetcher.Fetch(t.Context(), request, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			file.Remove()
			if got := at.take(); fmt.Sprint(got) != fmt.Sprint([]seen{{"Bearer t0ken", 1}}) {
				t.Errorf("the server saw %v", got)
			}
			if got := between.take(); fmt.Sprint(got) != fmt.Sprint([]seen{{authorization: "Basic bWU6aHVzaA=="}}) {
				t.Errorf("the proxy saw %v", got)
			}
			fetcher.Allowed = allowList(t, "https://artifacts.example.com/")
			_, err = fetcher.Fetch(t.Context(), request, t.TempDir())
			wantReason(t, err, URLForbidden)
			if got := between.take(); len(got) > 0 {
				t.Errorf("the proxy was asked for a URL that is not allowed: %v", got)
			}
		})
	}
	t.Run("https of an authority that only the Secret trusts", func(t *testing.T) {
		proxy, err := url.Parse(own.serveTLS(t, tls.NoClientCert, tunnel(&between)))
		if err != nil {
			t.Fatal(err)
		}
		request := Request{URL: server, Credentials: credentials(t, own.secret(t, own))}
		_, err = (&Fetcher{Proxy: http.ProxyURL(proxy)}).Fetch(t.Context(), request, t.TempDir())
		wantReason(t, err, UntrustedServer)
	})
	t.Run("none for this URL, and the address is refused", func(t *testing.T) {
		fetcher := &Fetcher{Proxy: func(*http.Request) (*url.URL, error) { return nil, nil }, Control: refuse}
		if _, err := fetcher.Fetch(t.Context(), Request{URL: server}, t.TempDir()); err == nil {
			t.Error("the address was connected to")
		}
	})
	t.Run("settings that are not valid", func(t *testing.T) {
		fetcher := &Fetcher{Proxy: func(*http.Request) (*url.URL, error) { return nil, errors.New("secret") }}
		_, err := fetcher.Fetch(t.Context(), Request{URL: server}, t.TempDir())
		wantReason(t, err, Unreachable)
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v tells too much", err)
		}
	})
}

func TestParseCredentials(t *testing.T) {
	own, other := private(t), private(t)
	certificate, key := own.issue(t)
	_, otherKey := other.issue(t)
	half := certificate[:len(certificate)/2]
	for name, test := range map[string]struct {
		data map[string]string
		// want is a part of the error, or empty.
		want string
	}{
		"token":                               {data: map[string]string{"token": "s3cret"}},
		"user and password":                   {data: map[string]string{"username": "me", "password": "s3cret"}},
		"user with an empty password":         {data: map[string]string{"username": "me", "password": ""}},
		"certificate":                         {data: map[string]string{"tls.crt": string(certificate), "tls.key": string(key)}},
		"authority":                           {data: map[string]string{"ca.crt": string(own.pem)}},
		"authority with text around":          {data: map[string]string{"ca.crt": "# ours\n" + string(own.pem) + "# end\n"}},
		"token, certificate and authority":    {data: map[string]string{"token": "s3cret", "tls.crt": string(certificate), "tls.key": string(key), "ca.crt": string(own.pem)}},
		"nothing":                             {want: "none of the keys"},
		"nothing of use":                      {data: map[string]string{"Token": "s3cret"}, want: "none of the keys"},
		"empty token":                         {data: map[string]string{"token": ""}, want: "none of the keys"},
		"token and user":                      {data: map[string]string{"token": "s3cret", "username": "me"}, want: "keep one"},
		"password alone":                      {data: map[string]string{"password": "s3cret"}, want: "no key username"},
		"password beside a token":             {data: map[string]string{"token": "s3cret", "password": "s3cret"}, want: "no key username"},
		"certificate without key":             {data: map[string]string{"tls.crt": string(certificate)}, want: "no key tls.key"},
		"key without certificate":             {data: map[string]string{"tls.key": string(key)}, want: "no key tls.crt"},
		"certificate that is none":            {data: map[string]string{"tls.crt": "s3cret", "tls.key": string(key)}, want: "tls.crt"},
		"key in the place of the certificate": {data: map[string]string{"tls.crt": string(key), "tls.key": string(key)}, want: "tls.crt"},
		"half a certificate":                  {data: map[string]string{"tls.crt": string(half), "tls.key": string(key)}, want: "tls.crt"},
		"key that is none":                    {data: map[string]string{"tls.crt": string(certificate), "tls.key": "s3cret"}, want: "tls.key"},
		"key of another certificate":          {data: map[string]string{"tls.crt": string(certificate), "tls.key": string(otherKey)}, want: "tls.key"},
		"authority that is none":              {data: map[string]string{"ca.crt": "s3cret"}, want: "ca.crt"},
		"one authority and half another":      {data: map[string]string{"ca.crt": string(own.pem) + string(other.pem[:100])}, want: "ca.crt"},
		"one authority and a key":             {data: map[string]string{"ca.crt": string(own.pem) + string(key)}, want: "ca.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			data := map[string][]byte{}
			for key, value := range test.data {
				data[key] = []byte(value)
			}
			_, err := ParseCredentials(data)
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "BEGIN")) {
				t.Errorf("%v tells what the Secret holds", err)
			}
		})
	}
}

func FuzzParseCredentials(f *testing.F) {
	f.Add([]byte("t0ken"), []byte("me"), []byte("-----BEGIN CERTIFICATE-----\n"), []byte("-----BEGIN PRIVATE KEY-----\n"), systemAuthority.pem)
	f.Add([]byte(""), []byte(""), systemAuthority.pem, []byte(""), []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, token, username, certificate, key, authority []byte) {
		c, err := ParseCredentials(map[string][]byte{"token": token, "username": username, "tls.crt": certificate, "tls.key": key, "ca.crt": authority})
		if err != nil {
			return
		}
		if c.BearerToken == "" && c.Username == "" && len(c.Certificates) == 0 && c.Authorities == nil {
			t.Error("accepted credentials without content")
		}
	})
}
