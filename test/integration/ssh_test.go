package integration

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/crypto/ssh"
)

// sshServer stands in for a z/OS system: it shows a host key and lets nobody log on.
type sshServer struct {
	host string
	port int32

	listener net.Listener
	logons   atomic.Int32
	// open are the connections to a tarpit.
	open   atomic.Int32
	mu     sync.Mutex
	signer ssh.Signer
}

// startSSHServer listens on a free port of loopback until the spec ends.
func startSSHServer() *sshServer {
	GinkgoHelper()
	s := &sshServer{signer: newSigner()}
	s.listen(freeAddress()) // It may listen there again.
	DeferCleanup(func() { _ = s.listener.Close() })
	return s
}

// startServer serves connections to a free port of loopback until the spec ends.
func startServer(serve func(net.Conn)) *sshServer {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	address := listener.Addr().(*net.TCPAddr)
	return &sshServer{host: address.IP.String(), port: int32(address.Port), listener: listener}
}

func newSigner() ssh.Signer {
	GinkgoHelper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	signer, err := ssh.NewSignerFromKey(key)
	Expect(err).NotTo(HaveOccurred())
	return signer
}

func (s *sshServer) listen(address string) {
	GinkgoHelper()
	listener, err := net.Listen("tcp", address)
	Expect(err).NotTo(HaveOccurred())
	s.listener = listener
	host, port, err := net.SplitHostPort(listener.Addr().String())
	Expect(err).NotTo(HaveOccurred())
	number, err := strconv.ParseInt(port, 10, 32)
	Expect(err).NotTo(HaveOccurred())
	s.host, s.port = host, int32(number)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go s.handshake(conn)
		}
	}()
}

func (s *sshServer) handshake(conn net.Conn) {
	defer conn.Close()
	refuse := func() (*ssh.Permissions, error) {
		s.logons.Add(1)
		return nil, errors.New("nobody logs on here")
	}
	config := &ssh.ServerConfig{
		PasswordCallback:  func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) { return refuse() },
		PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return refuse() },
	}
	s.mu.Lock()
	config.AddHostKey(s.signer)
	s.mu.Unlock()
	_, _, _, _ = ssh.NewServerConn(conn, config)
}

// replaceKey makes the server show another host key.
func (s *sshServer) replaceKey(signer ssh.Signer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signer = signer
}

// down stops listening, up starts again at the same address.
func (s *sshServer) down() { _ = s.listener.Close() }

func (s *sshServer) up() {
	GinkgoHelper()
	s.listen(s.listener.Addr().String())
}

func (s *sshServer) address() string { return net.JoinHostPort(s.host, strconv.Itoa(int(s.port))) }

// hostKey is the server's host key as a known_hosts file has it, without the host.
func (s *sshServer) hostKey() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return publicKey(s.signer)
}

func publicKey(signer ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
}
