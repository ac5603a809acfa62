package fetch

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
)

// Credentials authenticate at the host of the requested URL, and at no other host that it redirects to. The bearer
// token is used if it is set, else user name and password if there is a user name.
type Credentials struct {
	BearerToken string
	Username    string
	Password    string
	// Certificates are shown to the host if it asks for a client certificate.
	Certificates []tls.Certificate
	// Authorities, if set, are trusted instead of those of the system. They are no secret, and count for hosts that are
	// redirected to as well.
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

// ParseCredentials reads the data of a Secret. It holds `token`, or `username` and `password`, or neither; beside it
// or alone a client certificate `tls.crt` with its `tls.key`, and certificate authorities `ca.crt`, which are trusted
// beside those of the system. Errors name keys and never their content.
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

// clientCertificate has errors of its own, because those of the library may quote what they read.
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
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // A system without certificates trusts nobody else.
	}
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, nil
}

// parseCertificates fails if anything in the text cannot be read: what is passed over silently would be missed later.
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
