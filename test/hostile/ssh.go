package hostile

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// Text is what a hostile host says: it erases the terminal, forges a line of a log and a condition, reverses the direction of text,
// sets a window title, and is not valid UTF-8.
const Text = "\x1b[2J\x1b[31mgone\x1b[0m\r\n" +
	`{"level":"info","ts":"2026-01-01T00:00:00Z","msg":"forged"}` + "\n" +
	"Ready: True\n\u202eegassem\u2066\u200b\u009b1m\x1b]0;title\x07\x00\b\xff\xfe"

// SSHServer is a server that a probe connects to.
type SSHServer struct {
	Name  string
	Serve func(net.Conn)
}

const sshVersion = "SSH-2.0-hostile\r\n"

// SSHServers returns servers that do not complete a handshake. Each says Text, most of them megabytes of it.
func SSHServers() []SSHServer {
	long := strings.Repeat(Text, (10<<20)/len(Text))
	return []SSHServer{
		{"a banner of 10 MiB before the version", func(conn net.Conn) {
			_, _ = io.WriteString(conn, long+"\r\n"+sshVersion)
			_, _ = io.WriteString(conn, packet(disconnect(Text)))
			wait(conn)
		}},
		{"a version that is not one", func(conn net.Conn) {
			_, _ = io.WriteString(conn, "SSH-"+Text+"\r\n")
			wait(conn)
		}},
		{"a reason to disconnect", func(conn net.Conn) {
			_, _ = io.WriteString(conn, sshVersion+packet(disconnect(Text)))
			wait(conn)
		}},
		{"a reason to disconnect of 200 KiB", func(conn net.Conn) {
			_, _ = io.WriteString(conn, sshVersion+packet(disconnect(long[:200<<10])))
			wait(conn)
		}},
		{"names of algorithms", func(conn net.Conn) {
			_, _ = io.WriteString(conn, sshVersion+packet(keyExchange(Text+","+long[:20<<10])))
			wait(conn)
		}},
		{"a certificate of 150 KiB instead of a host key", func(conn net.Conn) {
			_, _, _, _ = ssh.NewServerConn(conn, certified(long[:150<<10]))
		}},
	}
}

// certified returns the configuration of a server with no host key but a certificate, which names a text.
func certified(text string) *ssh.ServerConfig {
	key, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		panic(err)
	}
	certificate := &ssh.Certificate{Key: key.PublicKey(), KeyId: text, CertType: ssh.HostCert, ValidBefore: ssh.CertTimeInfinity}
	if err := certificate.SignCert(rand.Reader, key); err != nil {
		panic(err)
	}
	host, err := ssh.NewCertSigner(certificate, key)
	if err != nil {
		panic(err)
	}
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(host)
	return config
}

// wait reads until the client ends the connection: what it has not read yet must not be lost to a reset.
func wait(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// packet returns an SSH packet without encryption: RFC 4253, section 6.
func packet(payload string) string {
	padding := 8 - (5+len(payload))%8 + 8
	head := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	return string(append(head, byte(padding))) + payload + strings.Repeat("\x00", padding)
}

func sshString(s string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// disconnect returns SSH_MSG_DISCONNECT.
func disconnect(reason string) string {
	return "\x01" + string(binary.BigEndian.AppendUint32(nil, 2)) + sshString(reason) + sshString("")
}

// keyExchange returns SSH_MSG_KEXINIT, which offers the same algorithms for everything.
func keyExchange(algorithms string) string {
	var b bytes.Buffer
	fmt.Fprint(&b, "\x14", strings.Repeat("c", 16))
	for range 10 {
		b.WriteString(sshString(algorithms))
	}
	b.WriteString("\x00\x00\x00\x00\x00")
	return b.String()
}
