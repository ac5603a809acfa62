// Package probe reads the host key of an SSH server, without logging on.
package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/collection-operator/collection-operator/internal/platform/dialguard"
	"github.com/collection-operator/collection-operator/internal/platform/printable"
)

// maxCauseBytes limits the text of an error: a server chooses a part of it.
const maxCauseBytes = 256

// Timeout of one probe, including connection, version exchange and key exchange.
const Timeout = 10 * time.Second

// UnreachableError reports that no SSH handshake took place. Its text is the same for every attempt with the same cause.
type UnreachableError struct {
	Address string
	Cause   string
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no SSH server answers at %s: %s", e.Address, e.Cause)
}

// HostKeyMismatchError reports that the server's host key is not one of the known keys.
type HostKeyMismatchError struct {
	Address string
	// Shown is the fingerprint of the server's key, or empty if the server has no key of a known type.
	Shown string
	// Known are the fingerprints of the known keys.
	Known []string
}

func (e *HostKeyMismatchError) Error() string {
	shown := "no key of a known type"
	if e.Shown != "" {
		shown = "host key " + e.Shown
	}
	return fmt.Sprintf("%s shows %s, but the known keys are %s", e.Address, shown, strings.Join(e.Known, ", "))
}

// errSeen aborts the handshake once the host key is known, before any authentication.
var errSeen = errors.New("host key seen")

// Prober probes SSH servers.
type Prober struct {
	// Control, if set, may reject an address before connecting to it, as in net.Dialer.
	Control func(network, address string, conn syscall.RawConn) error
}

// Probe connects to an SSH server and returns its host key in the form of [ParseHostKey]. With known keys it returns the one
// whose possession the server has proven, or *[HostKeyMismatchError]. If Control rejects the address, the error wraps
// *[dialguard.Error]. Any other error is an *[UnreachableError].
func (p *Prober) Probe(ctx context.Context, host string, port int32, known []ssh.PublicKey) (ssh.PublicKey, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))

	conn, err := (&net.Dialer{Control: p.Control}).DialContext(ctx, "tcp", address)
	if refused := (*dialguard.Error)(nil); errors.As(err, &refused) {
		return nil, fmt.Errorf("%s has %w", address, refused)
	}
	if err != nil {
		return nil, &UnreachableError{Address: address, Cause: cause(err)}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()

	var seen ssh.PublicKey
	config := &ssh.ClientConfig{
		User: "probe",
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			seen = key
			return errSeen
		},
		HostKeyAlgorithms: algorithms(known),
	}
	client, _, _, err := ssh.NewClientConn(conn, address, config)
	if err == nil {
		client.Close()
	}
	if seen == nil {
		var negotiation *ssh.AlgorithmNegotiationError
		if len(known) > 0 && errors.As(err, &negotiation) {
			return nil, &HostKeyMismatchError{Address: address, Known: fingerprints(known)}
		}
		return nil, &UnreachableError{Address: address, Cause: cause(err)}
	}
	if len(known) > 0 && !slices.ContainsFunc(known, func(k ssh.PublicKey) bool { return equal(k, seen) }) {
		return nil, &HostKeyMismatchError{Address: address, Shown: ssh.FingerprintSHA256(seen), Known: fingerprints(known)}
	}
	return seen, nil
}

// ParseHostKey parses a public host key in the format of known_hosts, without the host name: `ssh-ed25519 AAAA...`,
// optionally followed by a comment.
func ParseHostKey(line string) (ssh.PublicKey, error) {
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(line)))
	if err != nil {
		return nil, errors.New("not a public host key such as `ssh-ed25519 AAAA...`")
	}
	if len(options) > 0 || len(rest) > 0 {
		return nil, errors.New("must be one key type and one base64 key, without a host name before it")
	}
	return key, nil
}

// FormatHostKey formats a host key as [ParseHostKey] reads it.
func FormatHostKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// algorithms restricts the handshake to signature algorithms of the known keys, so that a server with keys of several types
// presents one that can be compared. Without known keys it excludes certificates: they are not host keys, and contain texts of
// up to 256 KiB that the server chooses.
func algorithms(known []ssh.PublicKey) []string {
	if len(known) == 0 {
		return slices.DeleteFunc(ssh.SupportedAlgorithms().HostKeys, func(name string) bool { return strings.Contains(name, "-cert-v01@") })
	}
	var names []string
	for _, key := range known {
		if key.Type() == ssh.KeyAlgoRSA {
			names = append(names, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		names = append(names, key.Type())
	}
	return slices.Compact(names)
}

func equal(a, b ssh.PublicKey) bool {
	return a.Type() == b.Type() && string(a.Marshal()) == string(b.Marshal())
}

func fingerprints(keys []ssh.PublicKey) []string {
	var prints []string
	for _, key := range keys {
		prints = append(prints, ssh.FingerprintSHA256(key))
	}
	slices.Sort(prints)
	return prints
}

// cause describes an error without addresses, ports and other details that change with each attempt.
func cause(err error) string {
	var dns *net.DNSError
	var netErr net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host name is not known"
	case errors.As(err, &dns):
		return "the host name could not be looked up"
	case errors.As(err, &netErr) && netErr.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %s", Timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was closed during the SSH handshake"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return printable.Line(err.Error(), maxCauseBytes)
}
