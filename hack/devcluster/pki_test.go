package main

import (
	"crypto/x509"
	"os"
	"testing"
)

func TestEnsureMakesUsableCertificatesAndKeepsThem(t *testing.T) {
	p := pki{t.TempDir()}
	id := identity{file: "server", ca: clusterCA, name: "server", group: "servers", hosts: []string{"localhost", loopback}}
	first := ensureIdentity(t, p, id)
	roots, err := p.roots()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range id.hosts {
		if _, err := first.Verify(x509.VerifyOptions{Roots: roots, DNSName: host}); err != nil {
			t.Errorf("as %s: %v", host, err)
		}
	}
	if second := ensureIdentity(t, p, id); !second.Equal(first) {
		t.Error("a good certificate has been replaced")
	}
}

func TestEnsureReplacesCertificates(t *testing.T) {
	id := identity{file: "server", ca: clusterCA, name: "server", hosts: []string{loopback}}
	for name, spoil := range map[string]func(*testing.T, pki, *identity){
		"for other names":          func(_ *testing.T, _ pki, id *identity) { id.hosts = append(id.hosts, "node") },
		"of an authority now gone": func(t *testing.T, p pki, _ *identity) { remove(t, p.cert(clusterCA)) },
		"without their key":        func(t *testing.T, p pki, _ *identity) { remove(t, p.key("server")) },
	} {
		t.Run(name, func(t *testing.T) {
			p, wanted := pki{t.TempDir()}, id
			first := ensureIdentity(t, p, wanted)
			spoil(t, p, &wanted)
			second := ensureIdentity(t, p, wanted)
			if second.Equal(first) {
				t.Fatal("the certificate has been kept")
			}
			roots, err := p.roots()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := second.Verify(x509.VerifyOptions{Roots: roots}); err != nil {
				t.Error(err)
			}
		})
	}
}

func ensureIdentity(t *testing.T, p pki, id identity) *x509.Certificate {
	t.Helper()
	if err := p.ensure([]identity{id}); err != nil {
		t.Fatal(err)
	}
	cert, _, err := p.load(id.file)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
