// Package trust reads the certificate authorities that an administrator trusts in addition to those of the images.
package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxBytes is how large the additional authorities may be, in PEM. Each installation has a copy.
const MaxBytes = 256 << 10

// Authorities are those that are trusted in addition to those of the images.
type Authorities struct {
	// PEM has each of them once, and nothing else. It is "" if there are none.
	PEM string
	// Certificates are those of PEM.
	Certificates []*x509.Certificate
}

// Parse reads authorities in PEM, with any text between them. Those that the system has are left out: OpenShift adds all of them to the
// ConfigMaps that it fills. It fails if a block is no certificate, or if there is more than MaxBytes.
func Parse(bundle, system []byte) (*Authorities, error) {
	known := map[string]bool{}
	for block := range blocks(system) {
		known[string(block.Bytes)] = true
	}
	authorities, count := &Authorities{}, 0
	var text bytes.Buffer
	for block := range blocks(bundle) {
		count++
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("block %d is a %s, not a certificate", count, describe(block.Type))
		}
		if known[string(block.Bytes)] {
			continue
		}
		known[string(block.Bytes)] = true
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("block %d is not a valid certificate: %w", count, err)
		}
		authorities.Certificates = append(authorities.Certificates, certificate)
		if err := pem.Encode(&text, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return nil, err
		}
		if text.Len() > MaxBytes {
			return nil, fmt.Errorf("its certificates have more than %d bytes, without those of the image", MaxBytes)
		}
	}
	if count == 0 && len(bytes.TrimSpace(bundle)) > 0 {
		return nil, errors.New("it has no certificate in PEM")
	}
	authorities.PEM = text.String()
	return authorities, nil
}

// describe names only types that are expected: the text may be anything.
func describe(blockType string) string {
	switch blockType {
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY":
		return "private key"
	}
	return "block of another type"
}

// blocks yields the PEM blocks in a text.
func blocks(text []byte) func(func(*pem.Block) bool) {
	return func(yield func(*pem.Block) bool) {
		for {
			var block *pem.Block
			if block, text = pem.Decode(text); block == nil || !yield(block) {
				return
			}
		}
	}
}
