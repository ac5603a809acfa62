package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

func authority(t *testing.T, name string, padding int) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		OCSPServer: []string{"http://x/" + strings.Repeat("x", padding)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestParse(t *testing.T) {
	known, own, other := authority(t, "known", 0), authority(t, "own", 0), authority(t, "other", 0)
	// Go refuses some authorities of the system.
	odd := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("odd")})
	got, err := Parse(bytes.Join([][]byte{[]byte("# text\n"), known, own, odd, own, other}, []byte("# more\n")), append(bytes.Clone(odd), known...))
	if err != nil || got.PEM != string(own)+string(other) || len(got.Certificates) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, bundle := range map[string][]byte{"nothing": nil, "space": []byte(" \n"), "what the system has": known} {
		if got, err := Parse(bundle, known); err != nil || got.PEM != "" || len(got.Certificates) > 0 {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func block(kind string) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("x")}) }

// A bundle of more than a hundred authorities must not depend on each of them.
func TestParseSkips(t *testing.T) {
	known, own := authority(t, "known", 0), authority(t, "own", 0)
	got, err := Parse(bytes.Join([][]byte{known, block("IGNORE PREVIOUS"), own, block("CERTIFICATE")}, nil), known)
	if err != nil || got.PEM != string(own) || got.Skipped != 2 || got.Why != "block 2 is of another type, not a certificate" {
		t.Errorf("got %+v, %v", got, err)
	}
	// What the system has can be used.
	got, err = Parse(append(bytes.Clone(known), block("CERTIFICATE")...), known)
	if err != nil || got.PEM != "" || got.Skipped != 1 || !strings.Contains(got.Why, "block 2 is not a valid certificate") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for want, bundle := range map[string][]byte{
		"block 2 is a private key, not a certificate":        append(authority(t, "a", 0), block("EC PRIVATE KEY")...),
		"block 1 is a private key, not a certificate":        block("OPENSSH PRIVATE KEY"),
		"none of its 1 blocks can be used: block 1 is of":    block("IGNORE PREVIOUS"),
		"none of its 1 blocks can be used: block 1 is not a": block("CERTIFICATE"),
		"it has no certificate in PEM":                       []byte("certificate"),
		"have more than 262144 bytes, without those of the ": authority(t, "large", MaxBytes),
	} {
		if _, err := Parse(bundle, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
