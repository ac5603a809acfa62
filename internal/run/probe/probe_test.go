package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/test/hostile"
)

func signer(t testing.TB, key any) ssh.Signer {
	t.Helper()
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ed25519Signer(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

func rsaSigner(t testing.TB) ssh.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

func ecdsaSigner(t testing.TB) ssh.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer(t, key)
}

// certified returns a signer whose public key is a certificate of a host key.
func certified(t testing.TB, key ssh.Signer) ssh.Signer {
	t.Helper()
	certificate := &ssh.Certificate{Key: key.PublicKey(), CertType: ssh.HostCert, ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, key); err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewCertSigner(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve answers each connection to a free port of loopback with handle.
func serve(t *testing.T, handle func(net.Conn)) (host string, port int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn)
			}()
		}
	}()
	return split(t, listener.Addr().String())
}

func split(t *testing.T, address string) (string, int32) {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return host, int32(number)
}

// sshServer presents the host keys, and counts and rejects all attempts to log on.
func sshServer(t *testing.T, logons *atomic.Int32, signers ...ssh.Signer) (host string, port int32) {
	t.Helper()
	config := &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		logons.Add(1)
		return nil, errors.New("no")
	}}
	for _, s := range signers {
		config.AddHostKey(s)
	}
	return serve(t, func(conn net.Conn) { _, _, _, _ = ssh.NewServerConn(conn, config) })
}

func TestProbe(t *testing.T) {
	ed, rsa, ec, other := ed25519Signer(t), rsaSigner(t), ecdsaSigner(t), ed25519Signer(t)
	for name, test := range map[string]struct {
		shown    []ssh.Signer
		known    []ssh.Signer
		want     ssh.Signer
		mismatch string
	}{
		"first sight":                          {shown: []ssh.Signer{ed}, want: ed},
		"first sight, with a certificate":      {shown: []ssh.Signer{certified(t, ed), ed}, want: ed},
		"known":                                {shown: []ssh.Signer{ed}, known: []ssh.Signer{ed}, want: ed},
		"one of those known":                   {shown: []ssh.Signer{ed}, known: []ssh.Signer{other, ed}, want: ed},
		"the known one of several shown":       {shown: []ssh.Signer{ed, rsa, ec}, known: []ssh.Signer{rsa}, want: rsa},
		"the known one of several, elliptic":   {shown: []ssh.Signer{ed, rsa, ec}, known: []ssh.Signer{ec}, want: ec},
		"another key":                          {shown: []ssh.Signer{other}, known: []ssh.Signer{ed}, mismatch: ssh.FingerprintSHA256(other.PublicKey())},
		"no key of a known type":               {shown: []ssh.Signer{rsa}, known: []ssh.Signer{ed}, mismatch: "no key of a known type"},
		"another key beside one of a new type": {shown: []ssh.Signer{other, rsa}, known: []ssh.Signer{ed}, mismatch: ssh.FingerprintSHA256(other.PublicKey())},
	} {
		t.Run(name, func(t *testing.T) {
			var logons atomic.Int32
			host, port := sshServer(t, &logons, test.shown...)
			var known []ssh.PublicKey
			for _, s := range test.known {
				known = append(known, s.PublicKey())
			}
			key, err := (&Prober{}).Probe(t.Context(), host, port, known)
			if logons.Load() > 0 {
				t.Error("it tried to log on")
			}
			if test.want != nil {
				if err != nil {
					t.Fatal(err)
				}
				if got, want := FormatHostKey(key), FormatHostKey(test.want.PublicKey()); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				return
			}
			var mismatch *HostKeyMismatchError
			if !errors.As(err, &mismatch) {
				t.Fatalf("got %v", err)
			}
			for _, text := range []string{test.mismatch, ssh.FingerprintSHA256(test.known[0].PublicKey()), host} {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q does not name %s", err, text)
				}
			}
		})
	}
}

func TestProbeUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	closedHost, closedPort := split(t, closed.Addr().String())
	webHost, webPort := serve(t, func(conn net.Conn) { fmt.Fprint(conn, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	resetHost, resetPort := serve(t, func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) })
	muteHost, mutePort := serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	for name, test := range map[string]struct {
		host string
		port int32
		want string
	}{
		"closed port":   {closedHost, closedPort, "connection refused"},
		"no SSH server": {webHost, webPort, "closed during the SSH handshake"},
		"reset":         {resetHost, resetPort, "closed during the SSH handshake"},
		"unknown name":  {"nobody.invalid", 22, "host name"},
		"mute server":   {muteHost, mutePort, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			var texts []string
			for range 2 {
				_, err := (&Prober{}).Probe(ctx, test.host, test.port, []ssh.PublicKey{ed25519Signer(t).PublicKey()})
				var unreachable *UnreachableError
				if !errors.As(err, &unreachable) {
					t.Fatalf("got %T: %v", err, err)
				}
				texts = append(texts, err.Error())
			}
			if texts[0] != texts[1] {
				t.Errorf("the text differs between attempts:\n%s\n%s", texts[0], texts[1])
			}
			address := net.JoinHostPort(test.host, strconv.Itoa(int(test.port)))
			if !strings.Contains(texts[0], test.want) || strings.Count(texts[0], address) != 1 {
				t.Errorf("got %q, want %q and once %s", texts[0], test.want, address)
			}
		})
	}
}

func TestParseHostKey(t *testing.T) {
	line := FormatHostKey(ed25519Signer(t).PublicKey())
	for name, test := range map[string]struct {
		line string
		good bool
	}{
		"as formatted":   {line, true},
		"with a comment": {line + " root@lpar1", true},
		"with spaces":    {"  " + line + "\n", true},
		"empty":          {"", false},
		"a host before":  {"lpar1.example " + line, false},
		"an option":      {"no-pty " + line, false},
		"two lines":      {line + "\n" + line, false},
		"no base64":      {"ssh-ed25519 !!!", false},
		"cut off":        {line[:len(line)-8], false},
		"unknown type":   {"ssh-foo AAAAB3NzaC1yc2E=", false},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := ParseHostKey(test.line)
			if (err == nil) != test.good {
				t.Fatalf("got %v", err)
			}
			if err == nil && FormatHostKey(key) != line {
				t.Errorf("got %s", FormatHostKey(key))
			}
		})
	}
}

func FuzzParseHostKey(f *testing.F) {
	for _, s := range []ssh.Signer{ed25519Signer(f), rsaSigner(f), ecdsaSigner(f)} {
		line := FormatHostKey(s.PublicKey())
		f.Add(line)
		f.Add("lpar1.example,10.0.0.1 " + line + " comment")
	}
	f.Add("@cert-authority * ssh-rsa AAAA")
	f.Fuzz(func(t *testing.T, line string) {
		key, err := ParseHostKey(line)
		if err != nil {
			return
		}
		formatted := FormatHostKey(key)
		if strings.ContainsAny(formatted, "\r\n") || len(strings.Fields(formatted)) != 2 {
			t.Fatalf("a known_hosts line cannot hold %q", formatted)
		}
		again, err := ParseHostKey(formatted)
		if err != nil || FormatHostKey(again) != formatted {
			t.Fatalf("%q does not survive: %v", formatted, err)
		}
	})
}

func TestAlgorithms(t *testing.T) {
	for _, name := range []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512} {
		if got := algorithms(nil); !slices.Contains(got, name) {
			t.Errorf("without known keys %s is not among %v", name, got)
		}
	}
	ed, rsa := ed25519Signer(t).PublicKey(), rsaSigner(t).PublicKey()
	want := []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	if diff := cmp.Diff(want, algorithms([]ssh.PublicKey{ed, ed, rsa})); diff != "" {
		t.Errorf("SHA-1 must not be offered, nor anything twice:\n%s", diff)
	}
}

func TestProbeConnectsToNoRefusedAddress(t *testing.T) {
	connected := make(chan struct{}, 10)
	_, port := serve(t, func(net.Conn) { connected <- struct{}{} })
	prober := &Prober{Control: (&dialguard.Guard{}).Control}
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		_, err := prober.Probe(t.Context(), host, port, nil)
		if refused := (*dialguard.Error)(nil); !errors.As(err, &refused) {
			t.Errorf("%s: got %v, want a refusal", host, err)
		} else if !strings.Contains(err.Error(), net.JoinHostPort(host, strconv.Itoa(int(port)))+" has a") {
			t.Errorf("%s: %q does not name it", host, err)
		}
	}
	if len(connected) > 0 {
		t.Error("it was connected to")
	}
}

// What a host says is one line of printable characters, and short, before it reaches status or logs.
func TestProbeOfHostileServers(t *testing.T) {
	for _, server := range hostile.SSHServers() {
		t.Run(server.Name, func(t *testing.T) {
			host, port := serve(t, server.Serve)
			_, err := (&Prober{}).Probe(t.Context(), host, port, nil)
			var unreachable *UnreachableError
			if !errors.As(err, &unreachable) {
				t.Fatalf("got %T: %v", err, err)
			}
			text := err.Error()
			if len(text) > 400 || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%d bytes: %q", len(text), text)
			}
			t.Log(text)
		})
	}
}
