package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"
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

var dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

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

// backdate is how long before its creation a certificate begins to be valid, for clients whose clocks are slow.
const backdate = 10 * time.Minute

// pair is a certificate and its private key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	keyPEM      []byte
}

func newAuthority(now time.Time, validity time.Duration) (*pair, error) {
	return create(now, validity, &x509.Certificate{
		Subject: pkix.Name{CommonName: "Collection Operator archives CA, " + now.UTC().Format(time.RFC3339)},
		IsCA:    true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil)
}

func (p *pair) sign(now time.Time, validity time.Duration, names []string) (*pair, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Collection Operator archives"},
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, address.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return create(now, min(validity, p.certificate.NotAfter.Sub(now)), template, p)
}

// create makes a key and a certificate for it. Without an issuer the certificate is signed with its own key.
func create(now time.Time, validity time.Duration, template *x509.Certificate, issuer *pair) (*pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	// Certificates state whole seconds.
	template.NotBefore, template.NotAfter = now.Truncate(time.Second).Add(-backdate), now.Truncate(time.Second).Add(validity)
	parent, parentKey := template, key
	if issuer != nil {
		parent, parentKey = issuer.certificate, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &pair{certificate: certificate, key: key, keyPEM: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})}, nil
}

func (p *pair) created() time.Time { return p.certificate.NotBefore.Add(backdate) }

// renewal is when a certificate or CA is replaced: after two thirds of its validity. A CA is also replaced in time for the
// certificates that are signed until then.
func (p *pair) renewal(settings Settings) time.Time {
	created, ends := p.created(), p.certificate.NotAfter
	if p.certificate.IsCA {
		ends = ends.Add(-settings.Overlap)
	}
	return created.Add(ends.Sub(created) * 2 / 3)
}

func (p *pair) signedBy(authority *pair) bool {
	return p.certificate.CheckSignatureFrom(authority.certificate) == nil
}

func (p *pair) names() []string {
	names := slices.Clone(p.certificate.DNSNames)
	for _, address := range p.certificate.IPAddresses {
		names = append(names, address.String())
	}
	slices.Sort(names)
	return names
}

func (p *pair) certificatePEM() []byte { return encodeCertificate(p.certificate) }

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func parseCertificate(text []byte) (*x509.Certificate, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("not one certificate in PEM")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, errors.New("not a valid certificate")
	}
	return certificate, nil
}

func parsePair(certificateText, keyText []byte) (*pair, error) {
	certificate, err := parseCertificate(certificateText)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(keyText)
	if block == nil {
		return nil, errors.New("not a private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, isECDSA := parsed.(*ecdsa.PrivateKey)
	if err != nil || !isECDSA {
		return nil, errors.New("not an ECDSA key as PKCS #8")
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, errors.New("the key is not that of the certificate")
	}
	return &pair{certificate: certificate, key: key, keyPEM: keyText}, nil
}
