// Package servingcert makes the certificate with which the manager serves archives, and its certificate authority (CA), and
// decides when to replace them. It is pure: the time is an argument.
//
// A CA is replaced in three steps, so that clients never meet a certificate that they cannot verify: the next CA is added to
// the bundle that clients trust; after the overlap, in which all clients get the bundle, it signs certificates; the former CA
// leaves the bundle when the last certificate that it signed has expired.
package servingcert

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Keys of the Secret that a State is stored in.
const (
	// KeyAuthority is the CA that signs certificates.
	KeyAuthority = "ca.crt"
	// KeyAuthorityKey is its private key.
	KeyAuthorityKey = "ca.key"
	// KeyNext is the CA that will sign certificates.
	KeyNext = "next-ca.crt"
	// KeyNextKey is its private key.
	KeyNextKey = "next-ca.key"
	// KeyFormer is the CA that signed certificates before. Its key is not kept.
	KeyFormer = "former-ca.crt"
	// KeyFormerUntil is when the last certificate of the former CA expires, as RFC 3339.
	KeyFormerUntil = "former-ca.until"
	// KeyCertificate is the certificate that the manager serves.
	KeyCertificate = "tls.crt"
	// KeyCertificateKey is its private key.
	KeyCertificateKey = "tls.key"
)

// Settings of the certificates.
type Settings struct {
	// Names are the DNS names and IP addresses of the server, as NamesOf returns them. There must be at least one.
	Names []string
	// AuthorityValidity is how long a CA is valid. It is replaced after two thirds of it.
	AuthorityValidity time.Duration
	// CertificateValidity is how long a certificate is valid. It is replaced after two thirds of it.
	CertificateValidity time.Duration
	// Overlap is the time between the addition of a CA to the bundle and its first certificate.
	Overlap time.Duration
}

// Validate returns an error if a CA could not be replaced in time.
func (s Settings) Validate() error {
	switch {
	case s.Overlap <= 0, s.CertificateValidity <= 0:
		return errors.New("the overlap of CAs and the validity of certificates must be positive")
	case s.AuthorityValidity < 3*(s.Overlap+s.CertificateValidity):
		return fmt.Errorf("the validity of CAs, %s, must be at least three times the overlap of CAs and the validity of certificates together, %s",
			s.AuthorityValidity, 3*(s.Overlap+s.CertificateValidity))
	}
	return nil
}

// NamesOf returns the names of a server that clients reach by the host name or IP address of a URL, and additional names,
// sorted. The name of a Service, <service>.<namespace>.svc, has the form with the usual cluster domain too.
func NamesOf(host string, additional []string) []string {
	names := append([]string{host}, additional...)
	if strings.HasSuffix(host, ".svc") {
		names = append(names, host+".cluster.local")
	}
	for i, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			names[i] = address.Unmap().String()
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// CheckName returns an error if a name is neither a DNS name nor an IP address.
func CheckName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if len(name) > 253 || !dnsName.MatchString(name) {
		return fmt.Errorf("%q is neither a DNS name nor an IP address", name)
	}
	return nil
}

// State is a certificate and its CAs. The zero value has none.
type State struct {
	authority, next *pair
	former          *x509.Certificate
	formerUntil     time.Time
	certificate     *pair
}

// Parse reads a State from the data of a Secret. The error names the key that is not valid, and contains no key material.
func Parse(data map[string][]byte) (*State, error) {
	s := &State{}
	for _, part := range []struct {
		into             **pair
		certificate, key string
	}{{&s.authority, KeyAuthority, KeyAuthorityKey}, {&s.next, KeyNext, KeyNextKey}, {&s.certificate, KeyCertificate, KeyCertificateKey}} {
		if len(data[part.certificate]) == 0 && len(data[part.key]) == 0 {
			continue
		}
		parsed, err := parsePair(data[part.certificate], data[part.key])
		if err != nil {
			return nil, fmt.Errorf("keys %s and %s: %w", part.certificate, part.key, err)
		}
		*part.into = parsed
	}
	if s.authority == nil || s.certificate == nil {
		return nil, fmt.Errorf("keys %s and %s must be set", KeyAuthority, KeyCertificate)
	}
	if len(data[KeyFormer]) == 0 {
		return s, nil
	}
	var err error
	if s.former, err = parseCertificate(data[KeyFormer]); err != nil {
		return nil, fmt.Errorf("key %s: %w", KeyFormer, err)
	}
	if s.formerUntil, err = time.Parse(time.RFC3339, string(data[KeyFormerUntil])); err != nil {
		return nil, fmt.Errorf("key %s is not a time as RFC 3339", KeyFormerUntil)
	}
	return s, nil
}

// Data returns the data of the Secret that Parse reads.
func (s *State) Data() map[string][]byte {
	data := map[string][]byte{}
	add := func(p *pair, certificate, key string) {
		if p != nil {
			data[certificate], data[key] = p.certificatePEM(), p.keyPEM
		}
	}
	add(s.authority, KeyAuthority, KeyAuthorityKey)
	add(s.next, KeyNext, KeyNextKey)
	add(s.certificate, KeyCertificate, KeyCertificateKey)
	if s.former != nil {
		data[KeyFormer] = encodeCertificate(s.former)
		data[KeyFormerUntil] = []byte(s.formerUntil.UTC().Format(time.RFC3339))
	}
	return data
}

// Bundle returns the CAs that clients trust, in PEM: the former, the present and the next one. It does not change when the next
// one begins to sign.
func (s *State) Bundle() []byte {
	var bundle bytes.Buffer
	for _, authority := range s.authorities() {
		bundle.Write(encodeCertificate(authority))
	}
	return bundle.Bytes()
}

// Pool returns the CAs of Bundle.
func (s *State) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, authority := range s.authorities() {
		pool.AddCert(authority)
	}
	return pool
}

func (s *State) authorities() []*x509.Certificate {
	var all []*x509.Certificate
	if s.former != nil {
		all = append(all, s.former)
	}
	for _, p := range []*pair{s.authority, s.next} {
		if p != nil {
			all = append(all, p.certificate)
		}
	}
	return all
}

// Certificate returns the certificate that the manager serves.
func (s *State) Certificate() *tls.Certificate {
	return &tls.Certificate{
		Certificate: [][]byte{s.certificate.certificate.Raw}, PrivateKey: s.certificate.key, Leaf: s.certificate.certificate,
	}
}

// Expires returns when the served certificate expires.
func (s *State) Expires() time.Time { return s.certificate.certificate.NotAfter }
