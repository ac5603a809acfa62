package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	certificateLife  = 365 * 24 * time.Hour
	certificateSpare = 30 * 24 * time.Hour // renewed when less than this remains
)

// pki is a folder of keys and certificates. Those that are missing, nearly expired or issued for other names are issued
// again.
type pki struct{ dir string }

func (p pki) cert(name string) string { return filepath.Join(p.dir, name+".crt") }
func (p pki) key(name string) string  { return filepath.Join(p.dir, name+".key") }

const (
	clusterCA    = "ca"
	frontProxyCA = "front-proxy-ca" // separate from clusterCA: its certificates can impersonate any user
	accountKey   = "service-accounts"
)

// identity is one certificate to issue.
type identity struct {
	file  string
	ca    string
	name  string   // common name: the user, to the API server
	group string   // organization: the group
	hosts []string // names and addresses; none for a client certificate
}

// ensure creates the certificate authorities, the key for ServiceAccounts, and the identities.
func (p pki) ensure(identities []identity) error {
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return err
	}
	for _, ca := range []string{clusterCA, frontProxyCA} {
		if err := p.ensureAuthority(ca); err != nil {
			return fmt.Errorf("certificate authority %s: %w", ca, err)
		}
	}
	if err := p.ensureAccountKey(); err != nil {
		return fmt.Errorf("service account key: %w", err)
	}
	for _, id := range identities {
		if err := p.ensureIdentity(id); err != nil {
			return fmt.Errorf("certificate %s: %w", id.file, err)
		}
	}
	return nil
}

func (p pki) ensureAuthority(name string) error {
	if cert, _, err := p.load(name); err == nil && fresh(cert) {
		return nil
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "devcluster " + name},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return p.issue(name, template, template, key, key)
}

func (p pki) ensureAccountKey() error {
	if _, err := os.Stat(p.key(accountKey)); err == nil {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return p.writeKey(accountKey, key)
}

func (p pki) ensureIdentity(id identity) error {
	ca, caKey, err := p.load(id.ca)
	if err != nil {
		return err
	}
	template := id.template()
	if have, _, err := p.load(id.file); err == nil && fresh(have) && have.CheckSignatureFrom(ca) == nil && sameNames(have, template) {
		return nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	return p.issue(id.file, template, ca, key, caKey)
}

func (id identity) template() *x509.Certificate {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: id.name},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if id.group != "" {
		template.Subject.Organization = []string{id.group}
	}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

func sameNames(a, b *x509.Certificate) bool {
	return a.Subject.CommonName == b.Subject.CommonName &&
		slices.Equal(a.Subject.Organization, b.Subject.Organization) &&
		slices.Equal(a.DNSNames, b.DNSNames) &&
		slices.EqualFunc(a.IPAddresses, b.IPAddresses, net.IP.Equal)
}

func fresh(cert *x509.Certificate) bool { return time.Until(cert.NotAfter) > certificateSpare }

func (p pki) issue(name string, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return err
	}
	if err := p.writeKey(name, key); err != nil {
		return err
	}
	return writeFile(p.cert(name), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), 0o644)
}

func (p pki) writeKey(name string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(p.key(name), string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})), 0o600)
}

func (p pki) load(name string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certDER, err := readPEM(p.cert(name))
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(p.key(name))
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return nil, nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, errors.New("key and certificate do not belong together")
	}
	return cert, key, nil
}

func readPEM(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, fmt.Errorf("%s is not PEM", path)
	}
	return block.Bytes, nil
}

// roots returns a pool with the cluster's certificate authority.
func (p pki) roots() (*x509.CertPool, error) {
	content, err := os.ReadFile(p.cert(clusterCA))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s holds no certificate", p.cert(clusterCA))
	}
	return pool, nil
}

// writeKubeconfig writes a self-contained kubeconfig for an identity.
func (p pki) writeKubeconfig(path, server, identity string) error {
	var data [3]string
	for i, file := range []string{p.cert(clusterCA), p.cert(identity), p.key(identity)} {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		data[i] = base64.StdEncoding.EncodeToString(content)
	}
	kubeconfig := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: devcluster
clusters:
- name: devcluster
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: devcluster
  context:
    cluster: devcluster
    user: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
`, server, data[0], identity, identity, data[1], data[2])
	return writeFile(path, kubeconfig, 0o600)
}
