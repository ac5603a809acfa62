package fetch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
)

// Credentials authenticate to the host of the requested URL, and to no other host that it redirects to. The bearer token
// takes precedence over user name and password.
type Credentials struct {
	BearerToken string
	Username    string
	Password    string
	// Certificates are presented if the host requests a client certificate.
	Certificates []tls.Certificate
	// Authorities, if set, replace the system's certificate authorities, also for hosts that are redirected to.
	Authorities *x509.CertPool
}

// Keys of a Secret with credentials.
const (
	keyToken       = "token"
	keyUsername    = "username"
	keyPassword    = "password"
	keyCertificate = "tls.crt"
	keyPrivateKey  = "tls.key"
	keyAuthorities = "ca.crt"
)

// ParseCredentials parses the data of a Secret with any of: `token`, or `username` and `password`; a client certificate
// `tls.crt` with its `tls.key`; and certificate authorities `ca.crt`, which are trusted in addition to those of the system.
// Errors contain the names of keys, never their values.
func ParseCredentials(data map[string][]byte) (Credentials, error) {
	has := func(key string) bool { return len(data[key]) > 0 }
	switch {
	case has(keyToken) && has(keyUsername):
		return Credentials{}, errors.New("has both the key token and the key username: keep one")
	case has(keyPassword) && !has(keyUsername):
		return Credentials{}, errors.New("has the key password, but no key username")
	case has(keyCertificate) && !has(keyPrivateKey):
		return Credentials{}, errors.New("has the key tls.crt, but no key tls.key")
	case has(keyPrivateKey) && !has(keyCertificate):
		return Credentials{}, errors.New("has the key tls.key, but no key tls.crt")
	case !has(keyToken) && !has(keyUsername) && !has(keyCertificate) && !has(keyAuthorities):
		return Credentials{}, errors.New("has none of the keys that are of use: token; username and password; tls.crt and tls.key; ca.crt")
	}
	credentials := Credentials{
		BearerToken: string(data[keyToken]), Username: string(data[keyUsername]), Password: string(data[keyPassword]),
	}
	if has(keyCertificate) {
		certificate, err := clientCertificate(data[keyCertificate], data[keyPrivateKey])
		if err != nil {
			return Credentials{}, err
		}
		credentials.Certificates = []tls.Certificate{certificate}
	}
	if has(keyAuthorities) {
		var err error
		if credentials.Authorities, err = authorities(data[keyAuthorities]); err != nil {
			return Credentials{}, err
		}
	}
	return credentials, nil
}

// clientCertificate returns the client certificate. Errors of the library are not passed on, because they may quote their
// input.
func clientCertificate(certificate, key []byte) (tls.Certificate, error) {
	if parsed, err := parseCertificates(certificate); err != nil || len(parsed) == 0 {
		return tls.Certificate{}, errors.New("has no usable certificate in PEM under the key tls.crt")
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, errors.New("has no usable private key in PEM under the key tls.key: it must belong to tls.crt, and not be encrypted")
	}
	return pair, nil
}

func authorities(text []byte) (*x509.CertPool, error) {
	certificates, err := parseCertificates(text)
	if err != nil || len(certificates) == 0 {
		return nil, errors.New("has no usable certificate in PEM under the key ca.crt")
	}
	pool := systemPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
}

func systemPool() *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return x509.NewCertPool() // The system has no certificates.
	}
	return pool
}

// parseCertificates parses all PEM blocks, and fails if any of them is invalid.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
	}
	if bytes.Contains(text, []byte("-----BEGIN")) {
		return nil, errors.New("a PEM block cannot be read")
	}
	return certificates, nil
}

func (c Credentials) apply(request *http.Request) {
	switch {
	case c.BearerToken != "":
		request.Header.Set("Authorization", "Bearer "+c.BearerToken)
	case c.Username != "":
		request.SetBasicAuth(c.Username, c.Password)
	}
}
