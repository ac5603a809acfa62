// Package trust reads the certificate authorities that an administrator trusts in addition to those of the images.
package trust

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// MaxBytes is how large the additional authorities may be, in PEM. Each installation has a copy.
const MaxBytes = 256 << 10

// Authorities are those that are trusted in addition to those of the images.
type Authorities struct {
	// PEM has each of them once, and nothing else. It is "" if there are none.
	PEM string
	// Certificates are those of PEM.
	Certificates []*x509.Certificate
	// Skipped is the number of blocks that cannot be used, and Why says what is wrong with the first of them.
	Skipped int
	Why     string
}

// Parse reads authorities in PEM, with any text between them. Those that the system has are left out: OpenShift adds all of them to the
// ConfigMaps that it fills. Blocks that are no certificates, or none that Go accepts, are skipped and counted. It fails if none is left, if
// there is more than MaxBytes, and at a private key, which must not be there.
func Parse(bundle, system []byte) (*Authorities, error) {
	known := map[string]bool{}
	for block := range blocks(system) {
		known[string(block.Bytes)] = true
	}
	authorities, count := &Authorities{}, 0
	skip := func(format string, args ...any) {
		if authorities.Skipped++; authorities.Skipped == 1 {
			authorities.Why = fmt.Sprintf(format, args...)
		}
	}
	var text bytes.Buffer
	for block := range blocks(bundle) {
		count++
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil, fmt.Errorf("block %d is a private key, not a certificate: remove it, and replace the key pair", count)
		}
		if block.Type != "CERTIFICATE" { // The type may be any text.
			skip("block %d is of another type, not a certificate", count)
			continue
		}
		if known[string(block.Bytes)] {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			skip("block %d is not a valid certificate: %v", count, err)
			continue
		}
		known[string(block.Bytes)] = true
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
	if count > 0 && authorities.Skipped == count {
		return nil, fmt.Errorf("none of its %d blocks can be used: %s", count, authorities.Why)
	}
	authorities.PEM = text.String()
	return authorities, nil
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
