package engine

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/collection-operator/collection-operator/internal/run/endpoint"
)

// passwordServer is an SSH server that accepts one password; OpenSSH would need
// root and a user of the machine for that.
type passwordServer struct {
	port     int
	hostKey  string
	attempts atomic.Int32
}

func startPasswordServer(t *testing.T, password string) *passwordServer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := &passwordServer{
		port:    listener.Addr().(*net.TCPAddr).Port,
		hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))),
	}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
		s.attempts.Add(1)
		if string(given) != password {
			return nil, errors.New("wrong password")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, config)
		}
	}()
	return s
}

func serve(conn net.Conn, config *ssh.ServerConfig) {
	server, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go ssh.DiscardRequests(requests)
	for wanted := range channels {
		if channel, requests, err := wanted.Accept(); err == nil {
			go execute(channel, requests)
		}
	}
}

// execute runs the command of a session.
func execute(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for request := range requests {
		_ = request.Reply(request.Type == "exec" || request.Type == "pty-req", nil)
		if request.Type != "exec" {
			continue
		}
		cmd := exec.Command("/bin/sh", "-c", string(request.Payload[4:]))
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		status := uint32(0)
		if stdin, err := cmd.StdinPipe(); err == nil { // not cmd.Stdin: the session's input may stay open
			go func() {
				_, _ = io.Copy(stdin, channel)
				_ = stdin.Close()
			}()
		}
		if cmd.Run() != nil {
			status = 1
		}
		_, _ = channel.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, status))
		return
	}
}

func TestPassword(t *testing.T) {
	r := newRig(t)
	const password = `p@ss 'word' "$HOME"`
	server := startPasswordServer(t, password)
	r.endpoint("sys1", server.port, server.hostKey, "", "")
	r.secret("sys1_password", password+"\n")
	r.playbook(`
- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.debug: {var: hostvars}
    - ansible.builtin.ping:
    - ansible.builtin.debug: {msg: hello}
`)
	got := r.run("sys1")
	got.expectSuccess(t)
	got.expectMessage(t, "hello")
	if strings.Contains(encode(t, got.events), "p@ss") || strings.Contains(got.output, "p@ss") {
		t.Error("the password shows in events or output")
	}
	if n := server.attempts.Load(); n != 1 {
		t.Errorf("%d logons, want 1", n)
	}
}

func TestRefusedPassword(t *testing.T) {
	r := newRig(t)
	server := startPasswordServer(t, "right")
	r.endpoint("sys1", server.port, server.hostKey, "", "")
	r.secret("sys1_password", "wrong")
	r.playbook(hello)
	got := r.run("sys1")
	got.expectFailure(t, fmt.Sprintf("AuthenticationFailed: endpoint sys1 (127.0.0.1:%d) refused the credential", server.port))
	got.expectConnection(t, endpoint.ConnectionRefused)
	if n := server.attempts.Load(); n != 1 {
		t.Errorf("%d logons, want 1", n)
	}
}
