package verify

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
)

func TestRecognizeRefuses(t *testing.T) {
	key := ed25519Key()
	public, signed := publicPEM(t, key), sign(t, key, content)
	block := func(kind string, bytes []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes})
	}
	cut := func(value []byte) []byte { return value[:len(value)-30] }
	n := new(big.Int).Lsh(big.NewInt(1), maxRSABits)
	huge := block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&rsa.PublicKey{N: n, E: 65537}))
	secret := []byte("c2VjcmV0LWNvbnRlbnQ")
	tests := []struct {
		name    string
		data    map[string][]byte
		message string
	}{
		{"nothing", nil, "it is empty"},
		{"no signature", map[string][]byte{"a": public}, "no signature of the archive"},
		{"no key", map[string][]byte{"a": block("SIGNATURE", signed)}, "no public key in PEM"},
		{"no key, and a raw signature", map[string][]byte{"a": signed}, `"a" has an unknown format, and without a public key`},
		{"garbage", map[string][]byte{"a": public, "b": signed, "c": secret}, `"c" has an unknown format`},
		{"a signature of another length", map[string][]byte{"a": public, "b": append(slices.Clone(signed), 0)}, `"b" has an unknown format`},
		{"an empty value", map[string][]byte{"a": public, "b": []byte(" \n")}, `"b" is empty`},
		{"a private key", map[string][]byte{"a": public, "b": block("PRIVATE KEY", secret)}, `"b" holds a private key`},
		{"an encrypted private key", map[string][]byte{"b": block("ENCRYPTED PRIVATE KEY", secret)}, `"b" holds a private key`},
		{"a damaged private key", map[string][]byte{"b": cut(block("RSA PRIVATE KEY", secret))}, `"b" holds a private key`},
		{"a GPG private key", map[string][]byte{"b": []byte("-----BEGIN PGP PRIVATE KEY BLOCK-----\n")}, `"b" holds a private key`},
		{"a private key behind a public one", map[string][]byte{"b": slices.Concat(public, block("PRIVATE KEY", secret))}, `"b" holds a private key`},
		{"a damaged public key", map[string][]byte{"a": cut(public), "b": signed}, `"a" is damaged`},
		{"a second, damaged public key", map[string][]byte{"a": slices.Concat(public, cut(public)), "b": signed}, `"a" is damaged`},
		{"PEM that is no key", map[string][]byte{"a": block("PUBLIC KEY", secret), "b": signed}, `"a": the public key is damaged`},
		{"PEM of another kind", map[string][]byte{"a": block("DH PARAMETERS", secret), "b": signed}, `"a": PEM of a kind that is not known`},
		{"a huge RSA key", map[string][]byte{"a": huge, "b": signed}, `"a": the RSA key has 8193 bits: want 2048 to 8192`},
		{"a certificate", map[string][]byte{"a": block("CERTIFICATE", secret), "b": signed}, "openssl x509 -in CERTIFICATE -noout -pubkey"},
		{"an SSH signature", map[string][]byte{"a": public, "b": block("SSH SIGNATURE", secret)}, `"b": PEM of a kind`},
		{"damaged GPG armour", map[string][]byte{"a": []byte("-----BEGIN PGP SIGNATURE-----\n\nxxx\n")}, `"a" is damaged`},
		{"a GPG key that is none", map[string][]byte{"a": []byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n")}, `"a": the GPG key is damaged`},
		{"a clear-signed text", map[string][]byte{"a": []byte("-----BEGIN PGP MESSAGE-----\n\nAAAA\n-----END PGP MESSAGE-----\n")}, "detached GPG signature"},
		{"a GPG signature without key", map[string][]byte{"a": []byte("-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n")}, "gpg --armor --export"},
		{"a huge GPG signature", map[string][]byte{"a": []byte("-----BEGIN PGP SIGNATURE-----\n\n" + strings.Repeat("AAAAAAAA\n", maxGPGSignatureBytes/4) + "-----END PGP SIGNATURE-----\n")}, `"a": the GPG signature has more than 8192 bytes`},
		{"too many keys", map[string][]byte{"a": bytes.Repeat(public, maxKeys+1)}, "more than 32 keys"},
		{"too many signatures", map[string][]byte{"a": public, "b": bytes.Repeat(block("SIGNATURE", signed), maxSignatures+1)}, "32 signatures"},
		{"too much", map[string][]byte{"a": make([]byte, maxEvidenceBytes+1)}, "more than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			evidence, err := Recognize(tt.data)
			if !errors.Is(err, ErrInvalidEvidence) || !strings.Contains(err.Error(), tt.message) {
				t.Fatalf("got %+v and %v, want a message with %q", evidence, err, tt.message)
			}
			if strings.Contains(err.Error(), string(secret)) || strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(secret)) {
				t.Errorf("the message repeats the content: %v", err)
			}
		})
	}
}

func TestRecognizePassesOverTextAroundBlocks(t *testing.T) {
	key := ed25519Key()
	both := slices.Concat([]byte("Our key:\n"), publicPEM(t, key), []byte("and our signature:\n"),
		pem.EncodeToMemory(&pem.Block{Type: "SIGNATURE", Bytes: sign(t, key, content)}), []byte("that's all\n"))
	if _, err := Verify(Policy{Evidence: recognize(t, map[string][]byte{"both": both})}, archiveOf(content, nil)); err != nil {
		t.Error(err)
	}
}

// What it cannot recognise it must survive, without repeating it.
func FuzzRecognize(f *testing.F) {
	key := ed25519Key()
	public, signed := publicPEM(f, key), sign(f, key, content)
	f.Add(public, signed)
	f.Add(public, []byte(base64.StdEncoding.EncodeToString(signed)))
	f.Add(slices.Concat(public, public), pem.EncodeToMemory(&pem.Block{Type: "SIGNATURE", Bytes: signed}))
	f.Add([]byte("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmDMEAAAA\n=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n"), []byte("-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n"))
	f.Add([]byte("-----BEGIN -----BEGIN PGP -----END "), []byte("PRIVATE KEY"))
	archive := archiveOf([]byte("another archive"), []byte("{}"))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		evidence, err := Recognize(map[string][]byte{"a": a, "b": b})
		if err != nil {
			if !errors.Is(err, ErrInvalidEvidence) || len(err.Error()) > 500 {
				t.Errorf("got %v", err)
			}
			return
		}
		if result, err := Verify(Policy{Evidence: evidence}, archive); err == nil {
			t.Errorf("accepted what nobody has signed: %+v", result)
		}
	})
}
