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
	"fmt"
	"slices"
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

// Rotate does what is due at a time, and returns what it did, for the log. It returns nothing if nothing is due. A State
// without a CA, or with one that has expired, gets a new CA that signs at once.
func (s *State) Rotate(now time.Time, settings Settings) (changes []string, err error) {
	for _, step := range []func(time.Time, Settings) (string, error){
		s.dropFormer, s.dropNext, s.ensureAuthority, s.promoteNext, s.addNext, s.renewCertificate,
	} {
		change, err := step(now, settings)
		if err != nil {
			return nil, err
		}
		if change != "" {
			changes = append(changes, change)
		}
	}
	return changes, nil
}

func (s *State) dropFormer(now time.Time, _ Settings) (string, error) {
	if s.former == nil || now.Before(s.formerUntil) && now.Before(s.former.NotAfter) {
		return "", nil
	}
	s.former, s.formerUntil = nil, time.Time{}
	return "the former CA is not trusted any more", nil
}

// dropNext drops a next CA that could not sign in its time, since no manager ran.
func (s *State) dropNext(now time.Time, settings Settings) (string, error) {
	if s.next == nil || now.Before(s.next.renewal(settings)) {
		return "", nil
	}
	s.next = nil
	return "the next CA was too old", nil
}

func (s *State) ensureAuthority(now time.Time, settings Settings) (string, error) {
	if s.authority != nil && now.Before(s.authority.certificate.NotAfter) {
		return "", nil
	}
	authority, err := newAuthority(now, settings.AuthorityValidity)
	if err != nil {
		return "", err
	}
	s.authority = authority
	return "created a CA", nil
}

// promoteNext lets the next CA sign once all clients had the time to get the bundle with it.
func (s *State) promoteNext(now time.Time, settings Settings) (string, error) {
	if s.next == nil || now.Before(s.next.created().Add(settings.Overlap)) {
		return "", nil
	}
	s.former, s.formerUntil = s.authority.certificate, now
	if s.certificate != nil {
		s.formerUntil = s.certificate.certificate.NotAfter
	}
	s.authority, s.next = s.next, nil
	return "the next CA signs certificates", nil
}

func (s *State) addNext(now time.Time, settings Settings) (string, error) {
	if s.next != nil || now.Before(s.authority.renewal(settings)) {
		return "", nil
	}
	next, err := newAuthority(now, settings.AuthorityValidity)
	if err != nil {
		return "", err
	}
	s.next = next
	return "added the next CA to the bundle", nil
}

func (s *State) renewCertificate(now time.Time, settings Settings) (string, error) {
	names := slices.Sorted(slices.Values(settings.Names))
	if c := s.certificate; c != nil && c.signedBy(s.authority) && slices.Equal(c.names(), names) && now.Before(c.renewal(settings)) {
		return "", nil
	}
	certificate, err := s.authority.sign(now, settings.CertificateValidity, names)
	if err != nil {
		return "", err
	}
	s.certificate = certificate
	return "issued a certificate", nil
}
